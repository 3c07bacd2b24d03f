package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/slots"
	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// unserved is a gateway without a server, whose requests a test makes itself.
func unserved(agent func(context.Context, *Episode) (*Score, error)) *Gateway {
	o := Settings{Agent: agent, MaxBody: 64 << 20}
	return &Gateway{o: o, episodes: map[string]*Episode{}, bodies: slots.ForBodies()}
}

// ask makes a call and waits for its answer.
func ask(t *testing.T, e *Episode, ms ...dialect.Message) *call {
	t.Helper()
	c, bad := e.ask(&dialect.Request{Messages: ms}, false)
	require.Nil(t, bad)
	<-c.done
	return c
}

var hello = dialect.Message{Role: dialect.User, Text: "hello"}

// TestAnAgentThatEndsBeforeItsAnswerIsRecordedKeepsIt: the agent has read the answer, and ends before the server
// has recorded that the answer was written.
func TestAnAgentThatEndsBeforeItsAnswerIsRecordedKeepsIt(t *testing.T) {
	for name, c := range map[string]struct {
		arrived bool
		want    error
	}{"arrived": {true, nil}, "lost": {false, ErrNoTurns}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e *Episode
				var read *call
				g := unserved(func(_ context.Context, own *Episode) (*Score, error) {
					e, read = own, ask(t, own, hello)
					return &Score{Reward: 1}, nil
				})
				r := new(env.Registry)
				require.NoError(t, r.Register(Name, g.Env))
				p := rollout.Player{Policy: always("four"), Envs: r, MaxTurns: 3}
				done := make(chan *rollout.Trajectory)
				go func() {
					ts, _, err := p.Play(t.Context(), []rollout.Episode{{Env: Name}}, 1)
					require.NoError(t, err)
					done <- ts[0]
				}()
				synctest.Wait() // the agent has ended, and nothing else can happen
				select {
				case tr := <-done:
					t.Fatalf("the episode has ended without waiting for the answer: %v", tr.Err)
				default:
				}
				e.left(read, c.arrived)
				tr := <-done
				require.ErrorIs(t, tr.Err, c.want)
				if c.want == nil {
					require.Equal(t, []any{rollout.EndDone, 1.0, 1}, []any{tr.End, tr.Return(), len(tr.Turns)})
				}
			})
		})
	}
}

// closing is a response whose client leaves as soon as it has the whole answer.
type closing struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (c closing) FlushError() error {
	c.leave()
	return nil
}

// TestAClientThatLeavesWithItsAnswerHasIt: agents end right after their last answer. One that left before the
// answer was written has it not.
func TestAClientThatLeavesWithItsAnswerHasIt(t *testing.T) {
	g := unserved(nil)
	c := &call{answer: newAnswer("EPISODES-0", "four", nil, "")}
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	send := func() error {
		return exchange{r, closing{httptest.NewRecorder(), leave}, g, nil}.send(dialect.Chat, dialect.Form{}, c.answer)
	}
	require.NoError(t, send())
	require.ErrorIs(t, send(), context.Canceled)
}

// TestAPaidAnswerHasArrived: only who has read an answer knows its id.
func TestAPaidAnswerHasArrived(t *testing.T) {
	c := &call{waiting: 1}
	made, err := unserved(nil).Env(map[string]any{"wait": true})
	require.NoError(t, err)
	e := made.(player).Episode
	e.items["EPISODES-0"] = c
	e.left(c, false)
	require.Nil(t, e.pay(result{Answer: "chatcmpl-EPISODES-0"}))
	require.True(t, c.delivered)
}

// timed is a connection that knows whether there is a time limit for writing.
type timed struct {
	*httptest.ResponseRecorder
	limited bool
}

func (w *timed) SetWriteDeadline(time.Time) error {
	w.limited = true
	return nil
}

// TestEveryAnswerHasATimeLimit, so that a client that does not read holds nothing for long, also if it is refused.
func TestEveryAnswerHasATimeLimit(t *testing.T) {
	for _, path := range []string{"/", "/none", "/episodes/none", "/v1/models"} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		unserved(nil).handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		require.True(t, w.limited, path)
	}
}
