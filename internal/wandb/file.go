// Package wandb writes the files that Weights & Biases' own program leaves when
// it works offline, which `wandb sync` uploads and `wandb leet` shows.
//
// A file is a log in LevelDB's form, with plain CRC-32 (IEEE) sums, after a header
// of seven bytes; its records are protobuf messages. Names and numbers of fields
// are those of wandb_internal.proto of wandb 0.31.
package wandb

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The frame of the log.
const (
	blockSize  = 32768
	headerSize = 7 // checksum, length, kind
	full       = 1
	first      = 2
	middle     = 3
	last       = 4
)

// Fields of wandb_internal.proto.
const (
	recordNum     = 1
	recordHistory = 2
	recordSummary = 3
	recordRun     = 17
	recordExit    = 18
	recordHeader  = 21

	headerVersion   = 1
	versionProducer = 1
	versionConsumer = 2

	runID        = 1
	runProject   = 3
	runConfig    = 4
	runName      = 8
	runStart     = 17
	configUpdate = 1
	configKey    = 1

	historyItem = 1
	historyStep = 2
	stepNum     = 1
	summaryItem = 1
	nestedKey   = 2
	valueJSON   = 16

	exitCode    = 1
	timeSeconds = 1
	timeNanos   = 2
)

// Run describes a run.
type Run struct {
	ID, Project, Name string
	Start             time.Time
	Config            map[string]any // shown beside the run; must have a form in JSON
}

// File is a file that is being written.
type File struct {
	out   *os.File
	at    int // in the file
	count int64
	start time.Time
}

// Create begins a file, in place of one of that name, and describes the run.
func Create(path string, r Run) (*File, error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	f := &File{out: out, start: r.Start}
	if err := f.begin(r); err != nil {
		return nil, fmt.Errorf("wandb: %w (closing: %v)", err, out.Close())
	}
	return f, nil
}

func (f *File) begin(r Run) error {
	n, err := f.out.Write([]byte(":W&B\xe1\xbe\x00"))
	f.at = n
	if err != nil {
		return err
	}
	version := text(text(nil, versionProducer, "vagen"), versionConsumer, "0.70.0")
	if err := f.record(recordHeader, message(nil, headerVersion, version)); err != nil {
		return err
	}
	run := text(text(text(nil, runID, r.ID), runProject, r.Project), runName, r.Name)
	var config []byte
	for _, key := range slices.Sorted(maps.Keys(r.Config)) {
		raw, err := json.Marshal(r.Config[key])
		if err != nil {
			return fmt.Errorf("the setting %s: %w", key, err)
		}
		config = message(config, configUpdate, text(text(nil, configKey, key), valueJSON, string(raw)))
	}
	run = message(run, runConfig, config)
	start := whole(whole(nil, timeSeconds, r.Start.Unix()), timeNanos, int64(r.Start.Nanosecond()))
	return f.record(recordRun, message(run, runStart, start))
}

// Log writes the figures of a step, which must be above that of the one before.
// Figures that are not finite are kept.
func (f *File) Log(step int, at time.Time, figures map[string]float64) error {
	all := maps.Clone(figures)
	all["_step"] = float64(step)
	all["_timestamp"] = float64(at.UnixMicro()) / 1e6
	all["_runtime"] = at.Sub(f.start).Seconds()
	var history, summary []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		item := text(text(nil, nestedKey, name), valueJSON, number(all[name]))
		history = message(history, historyItem, item)
		summary = message(summary, summaryItem, item)
	}
	history = message(history, historyStep, whole(nil, stepNum, int64(step)))
	if err := f.record(recordSummary, summary); err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	if err := f.record(recordHistory, history); err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	return nil
}

// Mark is a place between two records of a File.
type Mark struct {
	at    int
	count int64
}

// Mark returns the place behind what has been written.
func (f *File) Mark() Mark { return Mark{f.at, f.count} }

// Rewind takes out what was written behind a mark.
func (f *File) Rewind(m Mark) error {
	err := f.out.Truncate(int64(m.at))
	if err == nil {
		_, err = f.out.Seek(int64(m.at), io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	f.at, f.count = m.at, m.count
	return nil
}

// Finish says that the run is over and closes the file. Without it a file is one
// of a run that is still going on, or was killed.
func (f *File) Finish(code int) error {
	err := f.record(recordExit, whole(nil, exitCode, int64(code)))
	if closing := f.out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	return nil
}

// number writes a figure as Python's JSON does.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// record writes a record of a kind: its number, and its message.
func (f *File) record(kind protowire.Number, body []byte) error {
	f.count++
	return f.write(message(whole(nil, recordNum, f.count), kind, body))
}

// write splits data over the blocks of the log.
func (f *File) write(data []byte) error {
	var out []byte
	for begun := false; ; begun = true {
		at := f.at + len(out)
		left := blockSize - at%blockSize
		if left < headerSize { // the rest of a block stays empty
			out = append(out, make([]byte, left)...)
			left = blockSize
		}
		n := min(len(data), left-headerSize)
		part := data[:n]
		data = data[n:]
		kind := byte(middle)
		switch {
		case !begun && len(data) == 0:
			kind = full
		case !begun:
			kind = first
		case len(data) == 0:
			kind = last
		}
		sum := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, part)
		out = binary.LittleEndian.AppendUint32(out, sum)
		out = binary.LittleEndian.AppendUint16(out, uint16(n))
		out = append(append(out, kind), part...)
		if len(data) == 0 {
			break
		}
	}
	n, err := f.out.Write(out)
	f.at += n
	return err
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func whole(b []byte, field protowire.Number, x int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(x))
}
