package nodes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"vagen/policy/vlm/internal/mpi"
)

// kind is the kind of a frame.
type kind byte

const (
	data    kind = iota + 1
	command      // from rank 0
	end          // rank 0 ends the group
)

const headerSize = 9

// piece is the number of bytes of one message.
const piece = 64 << 20

// Link is the connection to another rank. At most one goroutine may send and one receive at a time.
type Link struct {
	group   *Communicator
	rank    int
	timeout time.Duration
}

// transfer starts a message and tests it until it is complete or ctx ends. It may take limit; 0 is without one. Until
// spin is over it expects data at once and does not sleep.
func (l *Link) transfer(
	ctx context.Context, start func(p []byte, rank, tag int) (mpi.Request, error), p []byte, limit, spin time.Duration,
) error {
	r, err := start(p, l.rank, tagFrame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	for begin := time.Now(); ; {
		_, done, err := r.Test()
		waited := time.Since(begin)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrLost, err)
		case done:
			return nil
		case ctx.Err() != nil:
			r.Cancel()
			return context.Cause(ctx)
		case limit > 0 && waited > limit:
			r.Cancel()
			return fmt.Errorf("it did nothing for %v: %w", limit, ErrLost)
		case waited < spin:
			runtime.Gosched()
		default:
			time.Sleep(min(waited/16, 5*time.Millisecond))
		}
	}
}

// The rest of a message arrives soon after its beginning; the next frame may take as long as another rank computes.
const frameSpin, dataSpin = time.Millisecond, 50 * time.Millisecond

// blame says in which transfer an error occurred.
func (l *Link) blame(doing string, err error) error {
	if err == nil || errors.Is(err, l.group.Err()) { // which names the rank
		return err
	}
	return fmt.Errorf("nodes: %s rank %d: %w", doing, l.rank, err)
}

// send sends a frame.
func (l *Link) send(ctx context.Context, k kind, payload []byte) error {
	header := binary.LittleEndian.AppendUint64([]byte{byte(k)}, uint64(len(payload)))
	err := l.transfer(ctx, l.group.world.Send, header, l.timeout, frameSpin)
	for p := range slices.Chunk(payload, piece) {
		if err == nil {
			err = l.transfer(ctx, l.group.world.Send, p, l.timeout, dataSpin)
		}
	}
	return l.blame("sending to", err)
}

// header receives the header of a frame of kind k. A limit of 0 waits without one.
func (l *Link) header(ctx context.Context, k kind, limit time.Duration) (length uint64, err error) {
	header := make([]byte, headerSize)
	if err := l.transfer(ctx, l.group.world.Receive, header, limit, frameSpin); err != nil {
		return 0, l.blame("receiving from", err)
	}
	length = binary.LittleEndian.Uint64(header[1:])
	switch got := kind(header[0]); {
	case got == k:
		return length, nil
	case got == end && length == 0:
		return 0, ErrEnded
	}
	return 0, fmt.Errorf("nodes: rank %d sent a frame of kind %d and %d bytes, expected kind %d: %w",
		l.rank, header[0], length, k, ErrProtocol)
}

// fill receives the data of a frame.
func (l *Link) fill(ctx context.Context, p []byte) error {
	for part := range slices.Chunk(p, piece) {
		if err := l.transfer(ctx, l.group.world.Receive, part, l.timeout, dataSpin); err != nil {
			return l.blame("receiving from", err)
		}
	}
	return nil
}

// receive receives a frame of at most most bytes. limit is that of waiting for it.
func (l *Link) receive(ctx context.Context, k kind, most int64, limit time.Duration) ([]byte, error) {
	n, err := l.header(ctx, k, limit)
	if err != nil {
		return nil, err
	}
	return l.payload(ctx, n, most)
}

// payload receives a frame's n bytes.
func (l *Link) payload(ctx context.Context, n uint64, most int64) ([]byte, error) {
	if n > uint64(most) {
		return nil, fmt.Errorf("nodes: rank %d sent %d bytes, at most %d are allowed: %w", l.rank, n, most, ErrProtocol)
	}
	p := make([]byte, n)
	return p, l.fill(ctx, p)
}

// SendFloats sends numbers to the other side's ReceiveFloats, of the same length.
func (l *Link) SendFloats(ctx context.Context, x []float32) error { return l.Send(ctx, floatBytes(x)) }

// ReceiveFloats fills dst with the numbers that the other rank sends.
func (l *Link) ReceiveFloats(ctx context.Context, dst []float32) error {
	raw := floatBytes(dst)
	n, err := l.header(ctx, data, l.timeout)
	if err != nil {
		return err
	}
	if n != uint64(len(raw)) {
		return fmt.Errorf("nodes: rank %d sent %d bytes, expected %d: %w", l.rank, n, len(raw), ErrProtocol)
	}
	return l.fill(ctx, raw)
}

// Send sends bytes to the other side's Receive.
func (l *Link) Send(ctx context.Context, payload []byte) error {
	l.group.sent.Add(int64(len(payload)))
	return l.send(ctx, data, payload)
}

// Receive receives at most most bytes.
func (l *Link) Receive(ctx context.Context, most int64) ([]byte, error) {
	return l.receive(ctx, data, most, l.timeout)
}

// floatBytes is the memory of x. Ranks with another byte order cannot join (see Join).
func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
