package openenv

import (
	"bytes"
	"context"
	"time"

	"github.com/coder/websocket"
)

// incoming is a frame, or the reason why there are no more.
type incoming struct {
	kind websocket.MessageType
	raw  []byte // valid until the next frame is asked for
	err  error
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
	late    *timeLimit      // of using the last frame
	reading bool            // the time limit late has passed, and the next frame is being read
	ahead   chan incoming   // of that read
}

func readFrames(conn *websocket.Conn) *frameReader {
	r := &frameReader{conn: conn, ahead: make(chan incoming, 1)}
	r.late = &timeLimit{end: func() {
		r.reading = true
		go func() { r.ahead <- r.read() }()
	}}
	return r
}

// next waits for the next frame. Closing the connection ends it.
func (r *frameReader) next() (in incoming) {
	r.late.clear()
	if r.reading {
		in, r.reading = <-r.ahead, false
	} else {
		in = r.read()
	}
	r.late.set(readAhead)
	return in
}

// close closes the connection and waits until nothing reads. It must be called once, not during next.
func (r *frameReader) close() {
	r.late.free()
	_ = r.conn.CloseNow() // it may be closed already
	if r.reading {
		<-r.ahead
	}
}

// keepBuffer is the largest buffer that a waiting session keeps.
const keepBuffer = 16 << 10

// read reads a frame without a context, whose watch costs as much as a request's JSON.
func (r *frameReader) read() incoming {
	b := &r.buffers[r.n%2]
	r.n++
	b.Reset()
	kind, from, err := r.conn.Reader(context.Background())
	if err == nil {
		_, err = b.ReadFrom(from)
	}
	raw := b.Bytes()
	if b.Cap() > keepBuffer {
		*b = bytes.Buffer{}
	}
	return incoming{kind, raw, err}
}
