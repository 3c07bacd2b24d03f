package openenv

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/coder/websocket"

	"vagen/internal/clock"
	"vagen/internal/slots"
)

// incoming is a frame, or the reason why there are no more.
type incoming struct {
	kind websocket.MessageType
	raw  []byte // valid until the next frame is asked for
	err  error
	free func() // of the slot of a large frame, when raw is no longer used; nil without one
}

// done frees what a frame holds. Further calls do nothing.
func (in incoming) done() {
	if in.free != nil {
		in.free()
	}
}

// large says how long frames are read: those of more than keepBuffer bytes within a time, those of more than
// slots.SmallBody in a slot, too, which is waited for while the context lasts.
type large struct {
	context.Context
	slots  slots.Slots
	within time.Duration
}

// readAhead is the time after which a frame that is still being used no longer delays reading.
const readAhead = time.Second

// frameReader reads the frames of a WebSocket. Pings are answered only during a read, and peers such as uvicorn and
// Python's websockets close a connection whose ping has no answer for 20 s: if the next frame is not asked
// for within readAhead, the reader begins to read it. A goroutine that always read ahead would double the time of
// a short request. It must be closed.
type frameReader struct {
	conn    *websocket.Conn
	buffers [2]bytes.Buffer // one is being filled while the frame in the other is used
	n       int             // frames read
	late    *clock.Limit    // of using the last frame
	reading bool            // the time limit late has passed, and the next frame is being read
	ahead   chan incoming   // of that read
	begin   io.LimitedReader
	large   *large
}

// readFrames returns a reader. A nil large reads large frames as others.
func readFrames(conn *websocket.Conn, l *large) *frameReader {
	r := &frameReader{conn: conn, large: l, ahead: make(chan incoming, 1)}
	r.late = &clock.Limit{End: func() {
		r.reading = true
		go func() { r.ahead <- r.read() }()
	}}
	return r
}

// next waits for the next frame. Closing the connection ends it.
func (r *frameReader) next() (in incoming) {
	r.late.Clear()
	if r.reading {
		in, r.reading = <-r.ahead, false
	} else {
		in = r.read()
	}
	r.late.Set(readAhead)
	return in
}

// early reports whether a frame has arrived before it was asked for. It can only be known of one that was read ahead.
func (r *frameReader) early() bool {
	r.late.Clear()
	if !r.reading || len(r.ahead) == 0 {
		return false
	}
	in := <-r.ahead
	r.ahead <- in // for next
	return in.err == nil
}

// close closes the connection and waits until nothing reads. It must be called once, not during next.
func (r *frameReader) close() {
	r.late.Free()
	_ = r.conn.CloseNow() // it may be closed already
	if r.reading {
		(<-r.ahead).done()
	}
}

// keepBuffer is the largest buffer that a waiting session keeps.
const keepBuffer = 16 << 10

// read reads a frame without a context, whose watch costs as much as a request's JSON.
func (r *frameReader) read() incoming {
	b := &r.buffers[r.n%2]
	r.n++
	b.Reset()
	var in incoming
	var from io.Reader
	if in.kind, from, in.err = r.conn.Reader(context.Background()); in.err == nil {
		in.err = r.part(b, from, keepBuffer)
	}
	if in.err == nil && r.begin.N == 0 {
		in.free, in.err = r.readLarge(b, from)
	}
	in.raw = b.Bytes()
	if b.Cap() > keepBuffer {
		*b = bytes.Buffer{}
	}
	return in
}

// part reads at most n bytes of a frame; there are more only if r.begin.N is 0.
func (r *frameReader) part(b *bytes.Buffer, from io.Reader, n int64) error {
	r.begin = io.LimitedReader{R: from, N: n}
	_, err := b.ReadFrom(&r.begin)
	return err
}

// readLarge reads the rest of a frame that may be large.
func (r *frameReader) readLarge(b *bytes.Buffer, from io.Reader) (free func(), err error) {
	if r.large != nil {
		late := time.AfterFunc(r.large.within, func() { _ = r.conn.CloseNow() })
		defer late.Stop()
		if err = r.part(b, from, slots.SmallBody-keepBuffer); err != nil || r.begin.N > 0 {
			return nil, err
		}
		late.Stop()
		if free, err = r.large.slots.Enter(r.large); err != nil {
			return nil, err
		}
		late.Reset(r.large.within)
	}
	_, err = b.ReadFrom(from)
	return free, err
}
