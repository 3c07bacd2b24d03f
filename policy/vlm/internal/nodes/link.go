package nodes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// kind is the kind of a frame.
type kind byte

const (
	data    kind = iota + 1
	command      // from node 0
	failure      // the text of an error; the sender closes the connection
	end          // node 0 ends the group
)

const headerSize = 9

// maxText limits the text of an error of another node.
const maxText = 4 << 10

// ErrEnded is returned by Group.Next after node 0 has closed the group.
var ErrEnded = errors.New("nodes: node 0 has ended the group")

// Link is the connection to another node. At most one goroutine may send and one receive at a
// time.
type Link struct {
	node     int
	instance string // of the other process
	attempt  int    // of that process to connect, if it did
	conn     net.Conn
	in       *bufio.Reader
	out      *bufio.Writer // to wrote
	wrote    counter
	timeout  time.Duration
	sent     *atomic.Int64 // bytes to all nodes

	mu      sync.Mutex // held while a frame is sent
	partial bool       // a frame was sent incompletely
}

// hangUp closes a connection at once: closing TLS would wait for seconds until a farewell is sent, which
// frames make superfluous.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

func (l *Link) hangUp() { hangUp(l.conn) }

// goodbye limits the time in which a node that ends sends the reason to another.
const goodbye = time.Second

// farewell sends the last frame, unless a part of another one was sent, and closes the connection.
func (l *Link) farewell(k kind, text string) {
	// A sender in another goroutine, if there is one, fails or ends within this time.
	l.conn.SetDeadline(time.Now().Add(goodbye))
	l.mu.Lock()
	whole := !l.partial
	l.mu.Unlock()
	if whole {
		l.send(context.Background(), k, []byte(text[:min(len(text), maxText)]), goodbye)
	}
	l.hangUp()
}

// expire sets when reading or writing must have made progress; the end of ctx interrupts both.
func (l *Link) expire(ctx context.Context, set func(time.Time) error, limit time.Duration) {
	at := time.Time{}
	if limit > 0 {
		at = time.Now().Add(limit)
	}
	set(at)
	if ctx.Err() != nil { // after the deadline is set, because watch may have set its own before
		set(time.Unix(1, 0))
	}
}

// watch interrupts reading and writing when ctx ends, until stop is called. stop waits, so that the
// deadline is not set while the reason is sent to the other node.
func (l *Link) watch(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	unset := context.AfterFunc(ctx, func() {
		defer close(done)
		l.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !unset() {
			<-done
		}
	}
}

// blame explains an error of the connection.
func (l *Link) blame(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("nodes: %s node %d: %w", doing, l.node, context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("nodes: %s node %d: it did nothing for %v: %w", doing, l.node, l.timeout, ErrLost)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("nodes: %s node %d: it has closed the connection: %w", doing, l.node, ErrLost)
	}
	return fmt.Errorf("nodes: %s node %d: %w: %w", doing, l.node, ErrLost, err)
}

// chunk is the number of bytes for which a deadline is set once.
const chunk = 4 << 20

// send sends a frame.
func (l *Link) send(ctx context.Context, k kind, payload []byte, limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := l.wrote.n
	var header [headerSize]byte
	header[0] = byte(k)
	binary.LittleEndian.PutUint64(header[1:], uint64(len(payload)))
	l.expire(ctx, l.conn.SetWriteDeadline, limit)
	_, err := l.out.Write(header[:])
	for err == nil && len(payload) > 0 {
		n := min(len(payload), chunk)
		l.expire(ctx, l.conn.SetWriteDeadline, limit)
		_, err = l.out.Write(payload[:n])
		payload = payload[n:]
	}
	if err == nil && l.wrote.n == start && ctx.Err() != nil {
		// An interrupted write would end what TLS can send, and with it the farewell.
		err = ctx.Err()
	}
	if err == nil {
		err = l.out.Flush()
	}
	if err != nil {
		l.partial = l.wrote.n != start
		l.out.Reset(&l.wrote) // forget the error, so that the reason can be sent
	}
	return l.blame(ctx, "sending to", err)
}

// counter counts the bytes that a connection has taken.
type counter struct {
	net.Conn
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n += int64(n)
	return n, err
}

// header receives the header of a frame of kind k. A limit of 0 waits without one.
func (l *Link) header(ctx context.Context, k kind, limit time.Duration) (length uint64, err error) {
	var header [headerSize]byte
	l.expire(ctx, l.conn.SetReadDeadline, limit)
	if _, err := io.ReadFull(l.in, header[:]); err != nil {
		return 0, l.blame(ctx, "receiving from", err)
	}
	length = binary.LittleEndian.Uint64(header[1:])
	switch got := kind(header[0]); {
	case got == k:
		return length, nil
	case got == failure && length <= maxText:
		text := make([]byte, length)
		l.expire(ctx, l.conn.SetReadDeadline, l.timeout)
		if _, err := io.ReadFull(l.in, text); err != nil {
			return 0, l.blame(ctx, "receiving from", err)
		}
		return 0, fmt.Errorf("nodes: node %d: %w: %s", l.node, ErrFailed, text)
	case got == end && length == 0:
		return 0, ErrEnded
	default:
		return 0, fmt.Errorf("nodes: node %d sent a frame of kind %d and %d bytes, expected kind %d: %w", l.node, header[0], length, k, ErrProtocol)
	}
}

// receive receives a frame of at most most bytes. limit is that of waiting for it.
func (l *Link) receive(ctx context.Context, k kind, most int64, limit time.Duration) ([]byte, error) {
	n, err := l.header(ctx, k, limit)
	if err != nil {
		return nil, err
	}
	return l.payload(ctx, n, most)
}

// payload receives a frame's n bytes. Memory is allocated as they arrive.
func (l *Link) payload(ctx context.Context, n uint64, most int64) ([]byte, error) {
	if n > uint64(most) {
		return nil, fmt.Errorf("nodes: node %d sent %d bytes, at most %d are allowed: %w", l.node, n, most, ErrProtocol)
	}
	var buf bytes.Buffer
	for left := int64(n); left > 0; {
		l.expire(ctx, l.conn.SetReadDeadline, l.timeout)
		got, err := io.CopyN(&buf, l.in, min(left, chunk))
		if err != nil {
			return nil, l.blame(ctx, "receiving from", err)
		}
		left -= got
	}
	return buf.Bytes(), nil
}

// SendFloats sends numbers to the other side's ReceiveFloats, of the same length.
func (l *Link) SendFloats(ctx context.Context, x []float32) error {
	return l.Send(ctx, floatBytes(x))
}

// ReceiveFloats fills dst with the numbers that the other node sends.
func (l *Link) ReceiveFloats(ctx context.Context, dst []float32) error {
	raw := floatBytes(dst)
	n, err := l.header(ctx, data, l.timeout)
	if err != nil {
		return err
	}
	if n != uint64(len(raw)) {
		return fmt.Errorf("nodes: node %d sent %d bytes, expected %d: %w", l.node, n, len(raw), ErrProtocol)
	}
	for len(raw) > 0 {
		l.expire(ctx, l.conn.SetReadDeadline, l.timeout)
		n, err := io.ReadFull(l.in, raw[:min(len(raw), chunk)])
		if err != nil {
			return l.blame(ctx, "receiving from", err)
		}
		raw = raw[n:]
	}
	return nil
}

// Send sends bytes to the other side's Receive.
func (l *Link) Send(ctx context.Context, payload []byte) error {
	l.sent.Add(int64(len(payload)))
	return l.send(ctx, data, payload, l.timeout)
}

// Receive receives at most most bytes.
func (l *Link) Receive(ctx context.Context, most int64) ([]byte, error) {
	return l.receive(ctx, data, most, l.timeout)
}

// floatBytes is the memory of x. Nodes with another byte order cannot join (see Join).
func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
