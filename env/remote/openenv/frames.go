package openenv

import (
	"bytes"
	"context"

	"github.com/coder/websocket"
)

// incoming is a frame, or the reason why there are no more.
type incoming struct {
	kind websocket.MessageType
	raw  []byte // valid until the next frame is received
	err  error
}

// frameReader reads the frames of a WebSocket without a pause, because pings are answered only during a read: peers
// such as uvicorn and Python's websockets close a connection whose ping has no answer for 20 s. It reads one
// frame ahead. It must be closed.
type frameReader struct {
	conn   *websocket.Conn
	frames chan incoming // without a buffer: the next frame is passed on when the last one is no longer used
	quit   chan struct{}
	done   chan struct{}
}

func readFrames(conn *websocket.Conn) *frameReader {
	r := &frameReader{conn: conn, frames: make(chan incoming), quit: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

// close closes the connection and waits until nothing reads. It must be called once.
func (r *frameReader) close() {
	close(r.quit)
	_ = r.conn.CloseNow() // it may be closed already
	<-r.done
}

// keepBuffer is the largest buffer that a waiting session keeps.
const keepBuffer = 16 << 10

func (r *frameReader) run() {
	defer close(r.done)
	var buffers [2]bytes.Buffer // one is being filled while the frame in the other is used
	for n := 0; ; n++ {
		b := &buffers[n%2]
		b.Reset()
		kind, err := r.read(b)
		select {
		case r.frames <- incoming{kind, b.Bytes(), err}:
		case <-r.quit:
			return
		}
		if err != nil {
			return
		}
		if b.Cap() > keepBuffer {
			*b = bytes.Buffer{}
		}
	}
}

// read reads a frame without a context, whose watch costs as much as a request's JSON. close ends it.
func (r *frameReader) read(into *bytes.Buffer) (websocket.MessageType, error) {
	kind, from, err := r.conn.Reader(context.Background())
	if err == nil {
		_, err = into.ReadFrom(from)
	}
	return kind, err
}
