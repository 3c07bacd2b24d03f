package credit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// episode is an episode while its continuations are played.
type episode struct {
	from   *rollout.Trajectory
	states [][]byte // before each turn; nil without snapshots
	work   *work
	drawn  [][]*rollout.Trajectory // of each turn of work, the continuations after fresh draws
}

// play plays the continuations of some episodes together.
func (m *Measurement) play(ctx context.Context, ts []*rollout.Trajectory) ([]*work, error) {
	all, out := make([]*episode, len(ts)), make([]*work, len(ts))
	for i, t := range ts {
		out[i] = new(work)
		all[i] = &episode{from: t, work: out[i]}
	}
	m.snapshot(ctx, all)
	b := batch{Measurement: m}
	for _, e := range all {
		for _, k := range m.turns(e.from) {
			given, err := e.from.Recorded(k)
			if err != nil {
				e.work.LeftOut = append(e.work.LeftOut, LeftOut{k, err.Error()})
				continue
			}
			e.work.Turns = append(e.work.Turns, workTurn{Turn: k, Actions: actions(e.from, k)})
			b.add(e, k, given)
			b.add(e, k, nil)
		}
	}
	sides, err := b.play(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		turns := e.work.Turns
		e.work.Turns = nil
		for _, k := range turns {
			q, v := sides[0], sides[1]
			sides = sides[2:]
			if why := mismatch(append(slices.Clip(q), v...)); why != "" {
				e.work.LeftOut = append(e.work.LeftOut, LeftOut{k.Turn, why})
				continue
			}
			k.Q, k.V = returns(q, k.Turn, m.Gamma), returns(v, k.Turn, m.Gamma)
			e.work.Turns, e.drawn = append(e.work.Turns, k), append(e.drawn, v)
		}
	}
	return out, m.playAlternatives(ctx, &b, all)
}

// snapshot makes the snapshots of episodes. An environment without them repeats the
// recorded responses.
func (m *Measurement) snapshot(ctx context.Context, all []*episode) {
	if len(m.Player.EpisodeMean) > 0 { // the rewards of a snapshot's past would be means
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, m.Player.Workers))
	for _, e := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if e.states, err = m.Player.Snapshots(ctx, e.from); err != nil {
				e.states = nil
				m.Log.Debug("no snapshots: the environment repeats the recorded responses", "group", e.from.Group, "episode",
					e.from.Index, "err", err)
			}
		})
	}
	wg.Wait()
}

// turns lists the turns of an episode to measure, in order.
func (m *Measurement) turns(t *rollout.Trajectory) []int {
	var out []int
	for k := range t.Turns {
		if m.Turns == nil || slices.Contains(m.Turns, k) {
			out = append(out, k)
		}
	}
	return out
}

// playAlternatives plays the continuations of other actions.
func (m *Measurement) playAlternatives(ctx context.Context, b *batch, all []*episode) error {
	for _, e := range all {
		for i := range e.work.Turns {
			k := &e.work.Turns[i]
			others, responses := alternatives(k, e.drawn[i], m.Alternatives)
			for _, answer := range m.Force {
				r, err := m.forced(e.from, k.Turn, answer)
				if err != nil {
					m.Log.Warn("cannot continue from a forced answer", "answer", answer, "group", e.from.Group, "episode",
						e.from.Index, "turn", k.Turn, "err", err)
					continue
				}
				others, responses = append(others, workAlternative{Share: Number(math.NaN())}), append(responses, r)
			}
			k.Alternatives = others
			for _, r := range responses {
				b.add(e, k.Turn, r)
			}
		}
	}
	sides, err := b.play(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		for i := range e.work.Turns {
			k := &e.work.Turns[i]
			for j := range k.Alternatives {
				a := &k.Alternatives[j]
				a.Q = returns(sides[0], k.Turn, m.Gamma)
				if a.Actions == nil { // forced: the environment says what it understood
					a.Actions = firstActions(sides[0], k.Turn)
				}
				sides = sides[1:]
			}
		}
	}
	return nil
}

// batch collects continuations that are played together.
type batch struct {
	*Measurement
	branches []rollout.Branch
	works    []*work // of each branch
}

// add adds the continuations of one side of a turn. Those with one number share their
// random numbers with those of the other sides of the turn.
func (b *batch) add(e *episode, turn int, response *policy.Completion) {
	var state []byte
	if e.states != nil {
		state = e.states[turn]
	}
	id := int(rng.Derive(b.Seed, rng.Credit, playDraws, uint64(b.Played), uint64(e.from.Group), uint64(e.from.Index),
		uint64(turn)) >> 1)
	for i := range b.Branches {
		b.branches = append(b.branches, rollout.Branch{From: e.from, Turn: turn, State: state, Reseed: true,
			Response: response, Group: id, Index: i})
		b.works = append(b.works, e.work)
	}
}

// play plays what was added and returns it by side.
func (b *batch) play(ctx context.Context) ([][]*rollout.Trajectory, error) {
	if len(b.branches) == 0 {
		return nil, ctx.Err()
	}
	ts, _, err := b.Player.Continue(ctx, b.branches, b.Seed)
	if err != nil {
		return nil, fmt.Errorf("credit: %w", err)
	}
	for i, t := range ts {
		first := b.branches[i].Turn
		if b.branches[i].Response != nil {
			first++
		}
		b.works[i].Tokens += written(t, first)
	}
	b.branches, b.works = b.branches[:0], b.works[:0]
	return slices.Collect(slices.Chunk(ts, b.Branches)), nil
}

// written counts the response tokens of an episode from a turn on. One that could not be
// repeated has turns without rows.
func written(t *rollout.Trajectory, from int) int64 {
	turns, n := make([]int, len(t.Rows)), 0
	for k := range t.Turns {
		row := t.Turns[k].Row
		if row >= len(t.Rows) {
			break
		}
		start, end, _ := t.Rows[row].TurnAt(turns[row])
		if turns[row]++; k >= from {
			n += end - start
		}
	}
	return int64(n)
}

// mismatch says why a turn cannot be measured because its past cannot be repeated.
func mismatch(ts []*rollout.Trajectory) string {
	for _, t := range ts {
		if t.End == rollout.EndReplay {
			return t.Err.Error()
		}
	}
	return ""
}

// returns are those of continuations; the ones that cannot be used are unknown.
func returns(ts []*rollout.Trajectory, from int, gamma float64) []Number {
	out := make([]Number, len(ts))
	for i, t := range ts {
		if out[i] = Number(math.NaN()); t.End.Usable() {
			out[i] = Number(returnFrom(t, from, gamma))
		}
	}
	return out
}

func actions(t *rollout.Trajectory, turn int) []string {
	return append([]string{}, t.Turns[turn].Parsed.Actions...)
}

// firstActions are those of the first continuation that has the turn.
func firstActions(ts []*rollout.Trajectory, turn int) []string {
	for _, t := range ts {
		if t.End.Usable() && turn < len(t.Turns) {
			return actions(t, turn)
		}
	}
	return []string{}
}

// alternatives are the most frequent actions of the responses that were drawn anew, other
// than those that were given, each with the first response that has them.
func alternatives(
	k *workTurn, drawn []*rollout.Trajectory, most int,
) (out []workAlternative, responses []*policy.Completion) {
	type group struct {
		actions []string
		count   int
		first   *rollout.Trajectory
	}
	var groups []*group
	at, usable := map[string]*group{}, 0
	for _, t := range drawn {
		if !t.End.Usable() || k.Turn >= len(t.Turns) {
			continue
		}
		usable++
		a := actions(t, k.Turn)
		if slices.Equal(a, k.Actions) {
			continue
		}
		key := strings.Join(a, "\x00")
		if at[key] == nil {
			at[key] = &group{actions: a, first: t}
			groups = append(groups, at[key])
		}
		at[key].count++
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(b.count, a.count) })
	for _, g := range groups[:min(most, len(groups))] {
		r, err := g.first.Recorded(k.Turn)
		if err != nil {
			continue
		}
		out = append(out, workAlternative{Actions: g.actions, Share: Number(float64(g.count) / float64(usable))})
		responses = append(responses, r)
	}
	return out, responses
}

// forced is the response of a turn with another text between its answer tags.
func (m *Measurement) forced(t *rollout.Trajectory, turn int, answer string) (*policy.Completion, error) {
	encoder, ok := policy.As[policy.Encoder](m.Player.Policy)
	if !ok {
		return nil, fmt.Errorf("the policy is a %T, which does not implement policy.Encoder", m.Player.Policy)
	}
	k := &t.Turns[turn]
	before, rest, ok := strings.Cut(k.Response, "<"+reward.SectionAnswer+">")
	_, after, closed := strings.Cut(rest, "</"+reward.SectionAnswer+">")
	if !ok || !closed {
		return nil, fmt.Errorf("the response has no <%s>", reward.SectionAnswer)
	}
	text := before + "<" + reward.SectionAnswer + ">" + answer + "</" + reward.SectionAnswer + ">" + after
	pieces, _, err := encoder.Encode([]policy.Message{
		{Role: policy.User, Text: k.Observation.Text, Images: k.Observation.Images}, {Role: policy.Assistant, Text: text},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(pieces) {
		if p.Response {
			return &policy.Completion{Tokens: p.Tokens, Text: text, Stop: policy.StopEnd}, nil
		}
	}
	return nil, errors.New("the policy's Encode returned no response")
}
