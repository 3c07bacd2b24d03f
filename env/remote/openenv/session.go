package openenv

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/coder/websocket"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/clock"
	"vagen/internal/jsontext"
)

// session is one WebSocket with its environment.
type session struct {
	s    *Server
	conn *websocket.Conn // nil over HTTP
	in   *frameReader    // of conn; nil over HTTP and in a session that is refused
	env  env.Env

	idle *limited // the context of waiting for a request
	call *limited // that of calls and of writing

	episode any // its id; nil before the first reset
	steps   int
	out     []byte
}

// limited is a context with a time limit that ends it, which costs less than a context with a time limit for each
// request. The connection is read and written without a context, whose watch costs as much as a request's JSON: the
// end calls cut while busy is set.
type limited struct {
	context.Context
	clock.Limit
	cancel context.CancelFunc
	busy   atomic.Bool
}

func newLimited(parent context.Context, cut func()) *limited {
	l := new(limited)
	l.Context, l.cancel = context.WithCancel(parent)
	l.End = l.cancel
	context.AfterFunc(l.Context, func() {
		if l.busy.Load() {
			cut()
		}
	})
	return l
}

func (l *limited) free() {
	l.Free()
	l.cancel()
}

// session returns a session of a connection, or over HTTP of nil.
func (s *Server) session(conn *websocket.Conn) *session {
	one := &session{s: s, conn: conn}
	one.idle = newLimited(s.idle, one.close)
	one.limitCalls()
	return one
}

// limitCalls prepares the context of calls and of writing.
func (one *session) limitCalls() {
	one.call = newLimited(one.s.base, func() { _ = one.conn.CloseNow() })
}

// close ends the connection, unless it is closed already.
func (one *session) close() { _ = one.conn.Close(websocket.StatusNormalClosure, "") }

func (one *session) free() {
	one.idle.free()
	one.call.free()
	if one.in != nil {
		one.in.close()
	}
	if one.env == nil {
		return
	}
	if _, err := guarded(one, func() (any, error) { return nil, one.env.Close() }); err != nil {
		one.s.log.Warn("environment did not close", "err", err)
	}
}

// loop answers requests until the client leaves, the session is idle for too long or the service
// ends.
func (one *session) loop() {
	defer one.close()
	for {
		if limit := one.s.o.SessionTimeout; limit > 0 {
			one.idle.Set(limit)
		}
		in := one.receive()
		if in.err != nil {
			in.done()
			one.s.log.Debug("session ended", "err", in.err)
			return
		}
		one.idle.Clear()
		if in.kind != websocket.MessageText { // as in 0.10.0, it ends the session
			in.done()
			return
		}
		m, bad := parse(in.raw)
		in.done()
		answer, end := one.answer(m, bad)
		if answer != nil && !one.send(answer) || end || one.idle.Err() != nil {
			return
		}
		if one.s.Sessions() > runtime.NumCPU() { // with fewer, another thread would wake without work
			runtime.Gosched() // sessions that wait longer are next
		}
	}
}

// receive waits for a request.
func (one *session) receive() incoming {
	one.idle.busy.Store(true)
	defer one.idle.busy.Store(false)
	if err := one.idle.Err(); err != nil { // it has ended before busy was set
		return incoming{err: err}
	}
	return one.in.next()
}

// frame is an answer.
type frame struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// append writes a frame as JSON.
func (f *frame) append(dst []byte) ([]byte, error) {
	if o, ok := f.Data.(*observed); ok {
		dst = append(dst, `{"type":"observation","data":`...)
		return append(o.append(dst), '}'), nil
	}
	return jsontext.Append(dst, f)
}

// send writes an answer and reports whether the session can go on.
func (one *session) send(f *frame) bool {
	if cap(one.out) > keepBuffer {
		one.out = nil
	}
	var err error
	if one.out, err = f.append(one.out[:0]); err != nil {
		one.s.log.Error("answer not encoded", "err", err)
		return false
	}
	one.call.Set(one.s.o.WriteTimeout)
	defer one.call.Clear()
	one.call.busy.Store(true)
	defer one.call.busy.Store(false)
	if err = one.call.Err(); err == nil { // it has not ended before busy was set
		err = one.conn.Write(context.Background(), websocket.MessageText, one.out)
	}
	if err != nil {
		one.s.log.Debug("answer not sent", "err", err)
	}
	return err == nil
}

// refuse sends an error and ends the connection.
func (one *session) refuse(f *fault) {
	one.send(&frame{"error", f})
	one.close()
}

// answer plays a request. A nil frame is no answer; end ends the session after it.
func (one *session) answer(m request, bad *fault) (answer *frame, end bool) {
	if bad != nil {
		return &frame{"error", bad}, bad.Code == sessionError
	}
	var data any
	var err error
	switch m.kind {
	case "close":
		return nil, true
	case "state":
		return &frame{"state", map[string]any{"episode_id": one.episode, "step_count": one.steps}}, false
	case "mcp":
		return &frame{"mcp", answerMCP(m.data, nil)}, false
	case "reset":
		data, err = one.reset(m.reset)
	default:
		data, err = one.step(m.response)
	}
	// A call whose context has ended left the environment in an unknown state, even if it has not noticed that.
	ended := one.call.Err()
	if err = cmp.Or(err, ended); err == nil {
		return &frame{"observation", data}, false
	}
	one.s.log.Warn("environment failed", "call", m.kind, "err", err)
	if end = ended != nil; end {
		one.call.free()
		one.limitCalls() // for the answer
		err = fmt.Errorf("%s did not finish within %v: %w", m.kind, one.s.o.CallTimeout, err)
	}
	return &frame{"error", &fault{Code: executionError, Message: err.Error()}}, end
}

func (one *session) reset(r resetRequest) (*observed, error) {
	if r.seed == nil {
		seed := one.s.seeds.Next(one.s.o.Seed)
		r.seed = &seed
	}
	o, err := guarded(one, func() (env.Observation, error) { return one.env.Reset(one.call, *r.seed) })
	if err != nil {
		return nil, err
	}
	one.steps = 0
	one.episode = cmp.Or(r.episode, wire.NewID())
	return one.s.observe(env.Outcome{Observation: o}, false)
}

func (one *session) step(response string) (*observed, error) {
	out, err := guarded(one, func() (env.Outcome, error) { return one.env.Step(one.call, response) })
	if err != nil {
		return nil, err
	}
	one.steps++
	return one.s.observe(out, true)
}

// guarded makes a call of the environment with its time limit; a panic is an error.
func guarded[T any](one *session, f func() (T, error)) (v T, err error) {
	one.call.Set(one.s.o.CallTimeout)
	defer one.call.Clear()
	defer func() {
		if p := recover(); p != nil {
			one.s.log.Error("environment panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the environment panicked: %v", p)
		}
	}()
	return f()
}
