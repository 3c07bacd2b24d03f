package queue

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"vagen/internal/clock"
)

// askOf is the subject of what workers ask and tell the trainer while they play, and answerOf one
// for an answer.
func (n names) ask() string               { return n.subject + "ask" }
func (n names) answerOf(id string) string { return n.subject + "answer." + id }

// hear passes to Options.Hear what workers ask and tell.
func (q *Queue) hear() error {
	if q.opts.Hear == nil {
		return nil
	}
	_, err := q.nc.Subscribe(q.names.ask(), func(m *nats.Msg) {
		// A worker that lost the connection may send what it says of a run after another one began.
		if m.Header.Get(runHeader) != strconv.QuoteToASCII(q.opts.Run) {
			return
		}
		answer := func([]byte) {}
		if strings.HasPrefix(m.Reply, q.names.answerOf("")) { // a worker must not choose another subject
			answer = func(raw []byte) { q.nc.Publish(m.Reply, raw) } // if it is lost, the worker asks again
		}
		q.opts.Hear(m.Data, answer)
	})
	return err
}

// saying returns a message for Options.Hear of the trainer of a run.
func (w *worker) saying(run string, body []byte) *nats.Msg {
	m := nats.NewMsg(w.names.ask())
	m.Header.Set(runHeader, strconv.QuoteToASCII(run)) // a header has one line
	m.Data = body
	return m
}

// ask sends a question until the trainer of the run answers it. There may be none for a while.
func (w *worker) ask(ctx context.Context, run string, question []byte) ([]byte, error) {
	const again = 5 * time.Second
	to := w.names.answerOf(nonce())
	s, err := w.nc.SubscribeSync(to)
	if err != nil {
		return nil, access(err)
	}
	defer s.Unsubscribe()
	m := w.saying(run, question)
	m.Reply = to
	for {
		if err := w.nc.PublishMsg(m); err != nil && w.nc.IsClosed() {
			return nil, access(err)
		}
		within, cancel := context.WithTimeout(ctx, again)
		got, err := s.NextMsgWithContext(within)
		waited := within.Err() != nil
		cancel()
		if err == nil && got.Header.Get("Status") == "" { // a status says that there is no trainer
			return got.Data, nil
		}
		if !waited {
			clock.Wait(ctx, tick)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tell sends a message, which may be lost.
func (w *worker) tell(run string, message []byte) { w.nc.PublishMsg(w.saying(run, message)) }
