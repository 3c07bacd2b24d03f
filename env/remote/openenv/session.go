package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/coder/websocket"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/floats"
)

// session is one WebSocket with its environment.
type session struct {
	s    *Server
	conn *websocket.Conn // nil over HTTP
	env  env.Env

	// idle is the context of reading, call the one of calls and of writing. Each has a time limit that
	// ends it, which costs less than a context with a time limit for each of them. The connection
	// is read and written without a context, whose watch costs as much as a request's JSON: the
	// end of a context closes the connection if phase says that it waits.
	idle, call             context.Context
	cancelIdle, cancelCall context.CancelFunc
	idleLimit, callLimit   *timeLimit
	phase                  atomic.Int32

	episode any // its id; nil before the first reset
	steps   int
	in      bytes.Buffer
	out     []byte
}

// Phases of a session.
const (
	working int32 = iota
	reading
	writing
)

// keepBuffer is the largest buffer that a waiting session keeps.
const keepBuffer = 16 << 10

// limits prepares the contexts.
func (one *session) limits() {
	one.idle, one.cancelIdle = context.WithCancel(one.s.idle)
	one.idleLimit = &timeLimit{end: one.cancelIdle}
	one.closeAt(one.idle, reading)
	one.limitCalls()
}

// limitCalls prepares the context of calls and of writing.
func (one *session) limitCalls() {
	if one.callLimit != nil {
		one.callLimit.free()
	}
	one.call, one.cancelCall = context.WithCancel(one.s.base)
	one.callLimit = &timeLimit{end: one.cancelCall}
	one.closeAt(one.call, writing)
}

// closeAt closes the connection if ctx ends in a phase.
func (one *session) closeAt(ctx context.Context, phase int32) {
	context.AfterFunc(ctx, func() {
		if one.phase.Load() == phase {
			_ = one.conn.CloseNow()
		}
	})
}

// wait makes f, which reads or writes, end with ctx.
func (one *session) wait(ctx context.Context, phase int32, f func() error) error {
	one.phase.Store(phase)
	defer one.phase.Store(working)
	if err := ctx.Err(); err != nil { // before the phase was set
		return err
	}
	return f()
}

func (one *session) free() {
	one.idleLimit.free()
	one.callLimit.free()
	one.cancelIdle()
	one.cancelCall()
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
	for {
		if limit := one.s.o.SessionTimeout; limit > 0 {
			one.idleLimit.set(limit)
		}
		err := one.wait(one.idle, reading, one.receive)
		if errors.Is(err, errBinary) {
			_ = one.conn.Close(websocket.StatusNormalClosure, "") // as in 0.10.0; the session ends anyway
			return
		}
		if err != nil {
			one.s.log.Debug("session ended", "err", err)
			return
		}
		one.idleLimit.clear()
		answer, end := one.answer(one.in.Bytes())
		if answer != nil && !one.send(answer) || end {
			_ = one.conn.Close(websocket.StatusNormalClosure, "")
			return
		}
		if one.idle.Err() != nil {
			return
		}
	}
}

var errBinary = errors.New("openenv: a binary frame, must be text")

// receive reads a frame.
func (one *session) receive() error {
	kind, r, err := one.conn.Reader(context.Background())
	if err != nil {
		return err
	}
	if kind != websocket.MessageText {
		return errBinary
	}
	if one.in.Cap() > keepBuffer {
		one.in = bytes.Buffer{}
	}
	one.in.Reset()
	_, err = one.in.ReadFrom(r)
	return err
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
	out := bytes.NewBuffer(dst)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := e.Encode(f)
	return bytes.TrimRight(out.Bytes(), "\n"), err
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
	one.callLimit.set(one.s.o.WriteTimeout)
	defer one.callLimit.clear()
	err = one.wait(one.call, writing, func() error {
		return one.conn.Write(context.Background(), websocket.MessageText, one.out)
	})
	if err != nil {
		one.s.log.Debug("answer not sent", "err", err)
	}
	return err == nil
}

// refuse sends an error and ends the connection.
func (one *session) refuse(f *fault) {
	one.send(&frame{"error", f})
	_ = one.conn.Close(websocket.StatusNormalClosure, "")
}

// answer plays a request. A nil frame is no answer; end ends the session after it.
func (one *session) answer(raw []byte) (answer *frame, end bool) {
	m, bad := parse(raw)
	if bad != nil {
		return &frame{"error", bad}, bad.Code == sessionError
	}
	var data any
	var err error
	switch m.kind {
	case "close":
		return nil, true
	case "state":
		return &frame{"state", one.state()}, false
	case "mcp":
		return &frame{"mcp", answerMCP(m.data)}, false
	case "reset":
		data, err = one.reset(m.reset)
	default:
		data, err = one.step(m.response)
	}
	if err == nil {
		return &frame{"observation", data}, false
	}
	one.s.log.Warn("environment failed", "call", m.kind, "err", err)
	// A call whose context has ended left the environment in an unknown state.
	end = one.call.Err() != nil
	if end {
		one.limitCalls() // for the answer
		err = fmt.Errorf("%s did not finish within %v: %w", m.kind, one.s.o.CallTimeout, err)
	}
	return &frame{"error", &fault{Code: executionError, Message: err.Error()}}, end
}

func (one *session) state() any {
	return map[string]any{"episode_id": one.episode, "step_count": one.steps}
}

func (one *session) reset(r resetRequest) (*observed, error) {
	seed := one.s.seed
	if r.seed != nil {
		seed = func() int64 { return *r.seed }
	}
	o, err := guarded(one, func() (env.Observation, error) { return one.env.Reset(one.call, seed()) })
	if err != nil {
		return nil, err
	}
	one.steps = 0
	if one.episode = any(wire.NewID()); r.episode != "" {
		one.episode = r.episode
	}
	return one.s.observe(o)
}

func (one *session) step(response string) (*observed, error) {
	out, err := guarded(one, func() (env.Outcome, error) { return one.env.Step(one.call, response) })
	if err != nil {
		return nil, err
	}
	one.steps++
	a, err := one.s.observe(out.Observation)
	if err != nil {
		return nil, err
	}
	if sum := out.Reward.Sum(); floats.Finite(sum) {
		a.reward = &sum
	}
	a.done, a.outcome = out.Done, &out
	return a, nil
}

// guarded makes a call of the environment with its time limit; a panic is an error.
func guarded[T any](one *session, f func() (T, error)) (v T, err error) {
	one.callLimit.set(one.s.o.CallTimeout)
	defer one.callLimit.clear()
	defer func() {
		if p := recover(); p != nil {
			one.s.log.Error("environment panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the environment panicked: %v", p)
		}
	}()
	return f()
}

// make makes the environment.
func (one *session) make() (env.Env, error) {
	e, err := one.s.hosted.Make(nil)
	if err == nil && e == nil {
		err = errors.New("the factory returned no environment")
	}
	return e, err
}
