package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"vagen/env"
	"vagen/internal/slots"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// Episode is an episode that an agent plays through a Gateway.
type Episode struct {
	ID string `json:"id"`
	// URL is the episode's address, which clients of Anthropic's protocol get, and BaseURL that for clients of
	// OpenAI's.
	// Key is its API key.
	URL     string `json:"url"`
	BaseURL string `json:"base_url"`
	Key     string `json:"key"`
	// Task is what the configuration tells the agent, by name.
	Task  map[string]any `json:"task"`
	Seed  int64          `json:"seed"`
	Group int            `json:"group"`
	Index int            `json:"index"` // in the group

	gate    *Gateway // nil before the first episode of an opener's
	opener  *pool
	options Options
	body    slots.Slots        // of a large body
	stop    context.CancelFunc // ends the agent; nil before it starts
	running sync.WaitGroup     // the agent

	template policy.ToolPrompter // of the policy, see templateOf

	wake chan struct{} // has an element when the state has changed
	mu   sync.Mutex
	record
	state
	ledger
}

// record holds the calls of an episode.
type record struct {
	images map[[32]byte]image.Image
	pixels int     // of images
	root   *call   // of the tree of calls
	queue  []*call // the first one is the policy's
	turns  []*call
	items  map[string]*call // by the id of an answer
}

// state says how far an episode is.
type state struct {
	claimed, finished bool
	err               error // why it failed
	refused           error // why the last call got no answer; ErrTurns stays
	counts            env.Metrics
}

// ended reports whether the agent has ended, or the episode has failed.
func (s *state) ended() bool { return s.finished || s.err != nil }

// over returns why an episode takes no calls.
func (e *Episode) over() error {
	switch {
	case e.ended():
		return failure(http.StatusConflict, "episode_over", "the episode is over")
	case errors.Is(e.refused, rollout.ErrTurns):
		return failure(http.StatusBadRequest, "turn_limit", "%v", e.refused)
	}
	return nil
}

// ask finds the place of a request and returns its call, an earlier one if the request repeats it.
func (e *Episode) ask(r *dialect.Request, marked bool) (*call, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.over(); err != nil {
		return nil, err
	}
	if len(r.Constrained) > 0 && e.options.Constraints != Count {
		return nil, refusal(r.Constrained[0], "the policy samples freely and gives no guarantee on the form of answers; "+
			"leave this out, or set the option constraints of the environment to %q", Count)
	}
	ms, err := e.resolve(r)
	if err != nil {
		return nil, err
	}
	at := e.root.find(ms)
	c := &call{stops: r.Stop, calls: r.Calls, waiting: 1, done: make(chan struct{})}
	if earlier := again(at.twins, c, marked); earlier != nil {
		e.count("agent/retries")
		earlier.waiting++
		return earlier, nil
	}
	if err := e.decode(ms); err != nil {
		return nil, err
	}
	c.messages = e.messages(at.delta, at.parent == e.root)
	at.parent.delivered = true
	if n := len(c.messages); n == 0 || c.messages[n-1].Role == policy.System ||
		c.messages[n-1].Role == policy.Assistant { // that a reference or an earlier answer stands for
		return nil, refusal(r.Field, "the last message must be the user's or a tool's result")
	}
	held := 0
	for _, w := range append(slices.Clone(e.queue), c) {
		for _, m := range w.messages {
			held += len(m.Text)
		}
	}
	if most := e.gate.o.MaxBody; len(e.queue) > 0 && int64(held) > most {
		return nil, failure(http.StatusTooManyRequests, "", "the calls that wait have more than %d bytes of text", most)
	}
	at.add(c)
	e.note(r, at)
	e.queue = append(e.queue, c)
	e.signal()
	return c, nil
}

// note counts what is remarkable about a request.
func (e *Episode) note(r *dialect.Request, p place) {
	e.count("agent/calls")
	if len(r.Overridden) > 0 {
		e.count("agent/overridden")
	}
	for _, name := range r.Overridden {
		e.count("agent/overridden/" + name)
	}
	if len(r.Constrained) > 0 {
		e.count("agent/constrained")
	}
	if p.loose {
		e.count("agent/loose_matches")
	}
	for _, m := range p.delta {
		if m.Role == dialect.Tool && losesImage(m.Text) {
			e.count("agent/lost_images")
		}
	}
}

// losesImage reports whether a result of a tool had an image that the client has not sent as one: the OpenAI Agents SDK
// drops it, and the AI SDK of Vercel sends it within a text.
func losesImage(text string) bool {
	return text == "[tool output omitted]" ||
		strings.HasPrefix(text, `[{"type":"`) && strings.Contains(text, `"mediaType":"image/`)
}

func (e *Episode) count(name string) { e.counts[name]++ }

// again returns the one of earlier calls in its place that a call repeats, nil if it is a new one: one whose client is
// gone without the answer, or for a marked retry the last one without successors. What ends the answer, and whether it
// may call tools, must be equal.
func again(twins []*call, c *call, marked bool) *call {
	var last *call
	for _, t := range twins {
		switch {
		case t.calls != c.calls || !slices.Equal(t.stops, c.stops):
		case t.waiting == 0 && !t.delivered:
			return t
		case marked && len(t.kids) == 0:
			last = t
		}
	}
	return last
}

// resolve replaces references by what they stand for, and adds the definitions of tools.
func (e *Episode) resolve(r *dialect.Request) ([]dialect.Message, error) {
	var out []dialect.Message
	var last *call // of a Reference
	for _, m := range r.Messages {
		n := e.answer(m.ID)
		switch {
		case m.Role != dialect.Reference && m.Role != dialect.Conversation:
			if last == nil || !partOf(m, last.answer) {
				out, last = append(out, m), nil
			}
		case n == nil:
			return nil, refusal(m.Text, "%q is no answer of this episode", m.ID)
		case m.Role == dialect.Conversation:
			out = append(out, slices.DeleteFunc(n.through(), func(m dialect.Message) bool {
				return m.Replaced == dialect.Tools && r.Tools != "" ||
					m.Replaced == dialect.Instructions && len(out) > 0
			})...)
		case n != last: // the items of an answer are one message
			out, last = append(out, answered(n.answer)), n
		}
	}
	return withTools(out, r.Tools), nil
}

// partOf reports whether a message repeats calls of an answer: the AI SDK of Vercel refers to a text, and sends the
// calls beside it.
func partOf(m dialect.Message, a *dialect.Answer) bool {
	return m.Role == dialect.Assistant && m.Text == "" && !slices.ContainsFunc(m.Calls, func(c dialect.Call) bool {
		return !slices.ContainsFunc(a.Calls, func(o dialect.Call) bool { return o.ID == c.ID })
	})
}

// answered is an answer as the message that comes back.
func answered(a *dialect.Answer) dialect.Message {
	return dialect.Message{Role: dialect.Assistant, Text: env.WithoutMarks(a.Text), Calls: a.Calls}
}

// left records that a client is gone before it had the answer, or that it has it.
func (e *Episode) left(c *call, delivered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.waiting--
	c.delivered = c.delivered || delivered
	if !delivered {
		e.count("agent/lost_answers")
	}
	e.signal() // the episode may end
}

func (e *Episode) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// next drops the calls at the head of the queue whose clients are gone, and reports whether one is left. The mutex must
// be held.
func (e *Episode) next() bool {
	for len(e.queue) > 0 {
		c := e.queue[0]
		if c.waiting > 0 {
			return true
		}
		e.queue = e.queue[1:]
		c.remove()
		c.refused = refusal("", "the client is gone")
		close(c.done)
	}
	return false
}

// wait waits until done, which holds the mutex, returns true.
func (e *Episode) wait(ctx context.Context, done func() bool) error {
	for {
		var idle <-chan time.Time // the agent has made no call for too long
		e.mu.Lock()
		over := done()
		if e.claimed && !e.finished && e.gate.o.Idle > 0 {
			idle = time.After(e.gate.o.Idle)
		}
		e.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-e.wake:
		case <-idle:
			e.end(fmt.Errorf("%w: it made no call for %v", ErrAgent, e.gate.o.Idle))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shut refuses the calls that wait, also the one that the policy has. The mutex must be held.
func (e *Episode) shut() {
	for _, c := range e.queue {
		c.refused = e.over()
		close(c.done)
	}
	e.queue = nil
}

// maxRefused is the number of refused calls after which an episode ends. An agent may repeat one without end, which the
// limit on the time between two calls does not stop.
const maxRefused = 1000

// give answers the current call.
func (e *Episode) give(r rollout.Reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 { // it was shut
		return
	}
	c := e.queue[0]
	e.queue = e.queue[1:]
	defer close(c.done)
	if e.refused = r.Err; r.Err != nil {
		code := "context_length_exceeded"
		if errors.Is(r.Err, policy.ErrMessages) { // a fault of the request: an agent that fails then has failed
			code, e.refused = "", nil
		}
		c.refused = cmp.Or(e.over(), failure(http.StatusBadRequest, code, "%v", r.Err))
		c.remove()
		e.count("agent/refused")
		e.finished = e.finished || e.counts["agent/refused"] >= maxRefused
		return
	}
	tools := ""
	if strings.Contains(r.Text, callOpen) {
		tools = c.tools()
	}
	a := newAnswer(fmt.Sprintf("%s-%d", e.ID[:8], r.Turn), r.Text, c.stops, tools)
	a.Stops, a.Length = c.stops, r.Stop == policy.StopLength
	a.Read, a.Wrote, a.Created = r.Read, r.Wrote, time.Now().Unix()
	for _, k := range a.Calls {
		if !json.Valid([]byte(k.Arguments)) {
			e.count("agent/broken_arguments")
		}
	}
	c.turn, c.answer, c.messages = r.Turn, a, nil
	e.items[a.ID] = c
	e.turns = append(e.turns, c)
}
