// Package tensorboard writes the metrics of a run as event files of TensorBoard. New opens a
// Sink for a folder.
package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"vagen/internal/floats"
	"vagen/internal/unmade"
	"vagen/train/track"
)

// Sink writes metrics to an event file that TensorBoard reads.
type Sink struct {
	mu   sync.Mutex
	file *os.File // nil after Close
	now  func() time.Time
}

var (
	_ track.Sink = (*Sink)(nil)

	errClosed = unmade.Closed("tensorboard.Sink", "New")
)

// New creates an event file in dir, which it creates if it does not exist. TensorBoard
// shows several files in one folder, as resumed runs write them, as one run.
func New(dir string) (*Sink, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	start := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%d.vagen.%d", start.Unix(), os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	t := &Sink{file: f, now: time.Now}
	header := protowire.AppendTag(appendWallTime(nil, start), eventFileVersion, protowire.BytesType)
	if err := t.record(protowire.AppendString(header, "brain.Event:2")); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// Fields of TensorFlow's messages Event, Summary and Summary.Value.
const (
	eventWallTime    = 1
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5
	eventSession     = 7
	sessionStatus    = 1
	sessionStart     = 1
	summaryValue     = 1
	valueTag         = 1
	valueSimple      = 2
)

// Event implements Sink. Metrics that are not finite are omitted, and a rollback is
// written as a Restart. The event is written to the file before Event returns.
func (t *Sink) Event(e track.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return errClosed
	}
	if e.Kind == track.KindRollback {
		return t.restart(e.Step + 1)
	}
	var summary []byte
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		x := e.Metrics[name]
		if !floats.Finite(x) {
			continue
		}
		value := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), name)
		value = protowire.AppendFixed32(protowire.AppendTag(value, valueSimple, protowire.Fixed32Type),
			math.Float32bits(float32(x)))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), value)
	}
	if summary == nil {
		return nil
	}
	event := appendWallTime(nil, t.now())
	event = protowire.AppendVarint(protowire.AppendTag(event, eventStep, protowire.VarintType), uint64(e.Step))
	event = protowire.AppendBytes(protowire.AppendTag(event, eventSummary, protowire.BytesType), summary)
	return t.record(event)
}

// Restart records that the steps from this one on are repeated: TensorBoard discards
// their earlier values in the folder's files.
func (t *Sink) Restart(step int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return errClosed
	}
	return t.restart(step)
}

func (t *Sink) restart(step int) error {
	event := appendWallTime(nil, t.now())
	event = protowire.AppendVarint(protowire.AppendTag(event, eventStep, protowire.VarintType), uint64(step))
	session := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), sessionStart)
	return t.record(protowire.AppendBytes(protowire.AppendTag(event, eventSession, protowire.BytesType), session))
}

func appendWallTime(b []byte, at time.Time) []byte {
	seconds := float64(at.UnixNano()) / 1e9
	return protowire.AppendFixed64(protowire.AppendTag(b, eventWallTime, protowire.Fixed64Type), math.Float64bits(seconds))
}

// record writes a message as a TFRecord: length, checksum of the length, message,
// checksum of the message.
func (t *Sink) record(message []byte) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, len(message)+16), uint64(len(message)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, message...)
	b = binary.LittleEndian.AppendUint32(b, masked(message))
	if _, err := t.file.Write(b); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the masked CRC-32C of TFRecord files. The masking keeps checksums of
// data that contains checksums effective.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// Close implements Sink. Further calls do nothing.
func (t *Sink) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}
