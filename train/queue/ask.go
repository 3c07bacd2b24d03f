package queue

import (
	"context"
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
		answer := func([]byte) {}
		if strings.HasPrefix(m.Reply, q.names.answerOf("")) { // a worker must not choose another subject
			answer = func(raw []byte) { q.nc.Publish(m.Reply, raw) } // if it is lost, the worker asks again
		}
		q.opts.Hear(m.Data, answer)
	})
	return err
}

// ask sends a question until the trainer answers it. There may be no trainer for a while.
func (w *worker) ask(ctx context.Context, question []byte) ([]byte, error) {
	const again = 5 * time.Second
	to := w.names.answerOf(nonce())
	s, err := w.nc.SubscribeSync(to)
	if err != nil {
		return nil, access(err)
	}
	defer s.Unsubscribe()
	for {
		if err := w.nc.PublishRequest(w.names.ask(), to, question); err != nil && w.nc.IsClosed() {
			return nil, access(err)
		}
		within, cancel := context.WithTimeout(ctx, again)
		m, err := s.NextMsgWithContext(within)
		cancel()
		if err == nil && m.Header.Get("Status") == "" { // a status says that there is no trainer
			return m.Data, nil
		}
		if within.Err() == nil {
			clock.Wait(ctx, tick)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tell sends a message, which may be lost.
func (w *worker) tell(message []byte) { w.nc.Publish(w.names.ask(), message) }
