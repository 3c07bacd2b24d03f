package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// player is an Episode as the environment that a rollout.Player plays.
type player struct{ *Episode }

var _ rollout.Caller = player{}

// Errors of episodes.
var (
	ErrNoReward = fmt.Errorf("gateway: %w: the agent has finished without one", rollout.ErrReward)
	ErrNoTurns  = errors.New("gateway: the agent has finished without an answer that reached it")
	ErrAgent    = errors.New("the agent failed")
)

// System implements env.Env: the agent's own instructions are part of its calls.
func (p player) System(context.Context) (env.Observation, error) { return env.Observation{}, nil }

// Begin implements rollout.Caller: it starts the agent as soon as there is room for it, or waits for a client.
func (p player) Begin(ctx context.Context, e *rollout.Episode, by policy.Policy) error {
	p.Seed, p.Group, p.Index, p.template = e.Seed, e.Group, e.Index, templateOf(by)
	if err := p.start(ctx); err != nil {
		return err
	}
	err := p.wait(ctx, func() bool { return p.claimed || p.ended() })
	if p.gate.o.Open { // as the client wants it
		p.mu.Lock()
		defer p.mu.Unlock()
		config := map[string]any{}
		maps.Copy(config, e.Config)
		config["task"] = p.Task
		e.Seed, e.Group, e.Config = p.Seed, p.Group, config
	}
	return err
}

// Reset implements env.Env: it waits for the first call of the agent. Begin has received the seed.
func (p player) Reset(ctx context.Context, _ int64) (env.Observation, error) {
	o, err := p.proceed(ctx)
	return o.Observation, err
}

// proceed waits for the next call, which it shows, or for the end, when it scores the episode.
func (p player) proceed(ctx context.Context) (env.Outcome, error) {
	// An answer that is being written: the agent may have read it, and have ended, before the writer has recorded that.
	delivering := func(c *call) bool { return c.waiting > 0 }
	var failed error
	finished := false
	err := p.wait(ctx, func() bool {
		if !p.ended() {
			return p.next()
		}
		p.shut()
		failed, finished = p.err, p.err == nil
		return !finished || !slices.ContainsFunc(p.turns, delivering)
	})
	if err = cmp.Or(err, failed); err == nil && finished {
		err = p.score(ctx)
	}
	if err != nil {
		return env.Outcome{}, err
	}
	return p.outcome(), nil
}

// Call implements rollout.Caller.
func (p player) Call() rollout.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.queue[0]
	return rollout.Call{After: c.parent.turn, Messages: c.messages, StopStrings: c.stops, Whole: func() []policy.Message {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.messages(c.before(), true)
	}}
}

// outcome shows the current call, for records; without one it is that of the end.
func (p player) outcome() env.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := env.Outcome{Trajectory: maps.Clone(p.counts)}
	if len(p.queue) == 0 {
		o.Done, o.Trajectory["success"] = true, 0
		if o.Success = p.success(); o.Success {
			o.Trajectory["success"] = 1
		}
		return o
	}
	var lines []string
	for _, m := range p.queue[0].messages {
		lines = append(lines, m.Text)
		o.Observation.Images = append(o.Observation.Images, m.Images...)
	}
	o.Observation.Text = strings.Join(lines, "\n\n")
	return o
}

// Step implements env.Env. A Caller is asked with Answer.
func (p player) Step(ctx context.Context, response string) (env.Outcome, error) {
	return p.Answer(ctx, rollout.Reply{Turn: len(p.turns), Text: response})
}

// Answer implements rollout.Caller.
func (p player) Answer(ctx context.Context, r rollout.Reply) (env.Outcome, error) {
	p.give(r)
	return p.proceed(ctx)
}

// Conclude implements rollout.Caller: it discards turns whose response nobody used, and pays the
// rewards.
func (p player) Conclude(t *rollout.Trajectory) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pay := func(turn int, name string, c *call) {
		if x := p.rewards[c]; x != nil {
			t.Turns[turn].Reward = append(t.Turns[turn].Reward, reward.Part{Name: name, Value: *x})
		}
	}
	for turn, c := range p.turns {
		pay(turn, "agent", c)
	}
	drop := p.unused()
	if err := t.Discard(drop...); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if len(t.Turns) == 0 {
		return ErrNoTurns
	}
	t.Metrics["agent/discarded"] = float64(len(drop))
	t.Metrics["agent/rows"] = float64(len(t.Rows))
	pay(len(t.Turns)-1, "episode", p.root)
	return nil
}

// unused returns the turns to discard: responses that never arrived and that no call followed, and
// responses without a follower or a reward beside one in the same place that has a follower. The mutex must be held.
func (p player) unused() []int {
	followed := map[*call]bool{} // by a call that is kept
	for _, c := range slices.Backward(p.turns) {
		if followed[c] || c.delivered {
			followed[c.parent] = true
		}
	}
	var drop []int
	for turn, c := range p.turns {
		twin := func(o *call) bool { return followed[o] && c.same(o) }
		if !followed[c] && p.rewards[c] == nil && (!c.delivered || slices.ContainsFunc(p.turns, twin)) {
			drop = append(drop, turn)
		}
	}
	return drop
}

// Unpaced reports whether episodes may start long after each other: those that wait for clients, and
// those that wait until others have ended. A player with Patience does not let some wait for all.
func (p player) Unpaced() bool { return p.options.Wait || p.options.Processes > 0 }

// Close implements env.Env: it ends the agent and waits for it.
func (p player) Close() error {
	p.end(errors.New("the episode was closed"))
	p.mu.Lock()
	p.shut()
	stop := p.stop
	p.mu.Unlock()
	if p.gate != nil {
		p.gate.remove(p.Episode)
	}
	if stop != nil {
		stop()
		p.running.Wait()
	}
	return nil
}
