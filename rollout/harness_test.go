package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/testkit"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// harnesses are those of the package; the budget of Compact is so small that the
// tests' episodes reach it.
func harnesses() map[string]rollout.Harness {
	return map[string]rollout.Harness{
		"concat": rollout.Concat{}, "no_concat": rollout.NoConcat{}, "window": rollout.Window{Size: 1},
		"compact": rollout.Compact{Total: 60, Summary: 5, Request: "Sum up.", Heading: "So far: "},
	}
}

// played plays episodes of up to six turns with a harness.
func played(t testing.TB, h rollout.Harness, set func(*rollout.Player)) ([]*rollout.Trajectory, *parrot) {
	t.Helper()
	w, q := &world{}, &parrot{}
	p := player(t, w, q)
	p.Harness, p.MaxTurns = h, 6
	if set != nil {
		set(p)
	}
	ts := finished(t, p, episodes(9))
	require.Equal(t, w.made.Load(), w.closed.Load(), "every environment is closed")
	require.Empty(t, q.wrong)
	for key := range q.wrote {
		require.True(t, q.gone[key], "conversation %d is forgotten", key)
	}
	return ts, q
}

// TestEquivalentHarnessesAgree compares whole trajectories.
func TestEquivalentHarnessesAgree(t *testing.T) {
	concat, _ := played(t, nil, nil)
	noConcat, _ := played(t, rollout.NoConcat{}, nil)
	require.NotEqual(t, concat, noConcat)
	for name, c := range map[string]struct {
		h    rollout.Harness
		set  func(*rollout.Player)
		want []*rollout.Trajectory
	}{
		"concat is the default": {rollout.Concat{}, nil, concat},
		"a budget that nothing reaches": {rollout.Concat{}, func(p *rollout.Player) {
			p.Budget = rollout.Budget{Prompt: 999, Response: 9999, Observation: 999}
		}, concat},
		"compaction that is never due": {rollout.Compact{Summary: 4}, nil, concat},
		"compaction with room for all": {rollout.Compact{Summary: 4, Total: 9999}, func(p *rollout.Player) {
			p.Budget.Response = 9999
		}, concat},
		"a window over the whole episode": {rollout.Window{Size: 5}, nil, concat},
		"a window over nothing":           {rollout.Window{}, nil, noConcat},
	} {
		got, _ := played(t, c.h, c.set)
		require.Equal(t, c.want, got, name)
	}
	once := func(p *rollout.Player) { p.MaxTurns = 1 }
	want, _ := played(t, nil, once)
	for name, h := range harnesses() {
		got, _ := played(t, h, once)
		require.Equal(t, want, got, "%s: an episode of one turn", name)
	}
}

// TestRowsAreWhatThePolicyReadAndWrote compares every row, token by token, with
// the policy's own record of the conversation.
func TestRowsAreWhatThePolicyReadAndWrote(t *testing.T) {
	for name, h := range harnesses() {
		ts, q := played(t, h, nil)
		var rows, wrote [][]int32
		for _, tr := range ts {
			for i := range tr.Rows {
				rows = append(rows, tr.Rows[i].Tokens())
				require.Len(t, tr.Rows[i].LogProbs, tr.Rows[i].Len())
			}
		}
		for _, tokens := range q.wrote {
			wrote = append(wrote, tokens)
		}
		slices.SortFunc(rows, slices.Compare)
		slices.SortFunc(wrote, slices.Compare)
		require.Equal(t, wrote, rows, name)
	}
}

// TestRowsKeepTurnsAndRewards: every turn is in one row, rows are in order, and their
// rewards add up to the return; summaries have a reward of 0.
func TestRowsKeepTurnsAndRewards(t *testing.T) {
	for name, h := range harnesses() {
		ts, _ := played(t, h, nil)
		summaries := 0
		for _, tr := range ts {
			row, total := 0, 0.0
			for _, turn := range tr.Turns {
				require.GreaterOrEqual(t, turn.Row, row, name)
				row = turn.Row
			}
			for i := range tr.Rows {
				seq, turns := &tr.Rows[i], 0
				for _, turn := range tr.Turns {
					if turn.Row == i {
						turns++
					}
				}
				if seq.EndsWithSummary() {
					summaries++
					turns++
					require.NotEmpty(t, seq.Summary)
				}
				require.Equal(t, turns, seq.Turns(), name)
				paid, err := tr.Rewards(nil, i, reward.PerTurn)
				require.NoError(t, err)
				if seq.EndsWithSummary() {
					require.Zero(t, paid[len(paid)-1], "a summary is paid nothing")
				}
				total += sum(paid)
			}
			require.InDelta(t, tr.Return(), total, 1e-5, name)
		}
		require.Equal(t, name == "compact", summaries > 0, name)
		require.Equal(t, summaries, rollout.Count(ts).Summaries)
	}
}

// TestHarnessesDecideWhatIsRead checks the messages of one episode.
func TestHarnessesDecideWhatIsRead(t *testing.T) {
	read := func(h rollout.Harness) (*rollout.Trajectory, []string) {
		w, q := &world{}, &parrot{}
		p := player(t, w, q)
		p.Harness = h
		ts := finished(t, p, []rollout.Episode{{Env: "fake", Config: map[string]any{"pictures": true}}})
		var asked []string
		for _, messages := range q.prompts {
			var b strings.Builder
			for _, m := range messages {
				fmt.Fprintf(&b, "%s(%s %d)", m.Role, m.Text, len(m.Images))
			}
			asked = append(asked, b.String())
		}
		return ts[0], asked
	}
	shown := func(turn int) string { return fmt.Sprintf("user(level 0 turn %d <image> 1)", turn) }
	const system = "system(Guess. 0)"

	tr, asked := read(rollout.NoConcat{})
	require.Equal(t, []string{system + shown(0), system + shown(1), system + shown(2), system + shown(3)}, asked)
	require.Len(t, tr.Rows, 4)
	require.Len(t, tr.Rows[2].Images, 1)

	tr, asked = read(rollout.Window{Size: 1})
	said := func(turn int) string { return "assistant(" + tr.Turns[turn].Response + " 0)" }
	require.Equal(t, []string{system + shown(0), shown(1), system + shown(1) + said(1) + shown(2), system + shown(2) +
		said(2) + shown(3)}, asked)
	require.Len(t, tr.Rows, 3)

	tr, asked = read(rollout.Compact{Total: 50, Summary: 5, Request: "Sum up.", Heading: "So far: "})
	reopened := func(row, turn int) string {
		return system + "user(So far: " + tr.Rows[row].Summary + "\n\nlevel 0 turn " + fmt.Sprint(turn) + " <image> 1)"
	}
	const request = "user(Sum up. 0)"
	require.Equal(t, []string{system + shown(0), shown(1), request, reopened(0, 2), shown(3)}, asked)
	require.Len(t, tr.Turns, 4, "the summary is no turn")
	require.Len(t, tr.Rows, 2)
	require.Equal(t, 3, tr.Rows[0].Turns())
	require.LessOrEqual(t, len(tr.Rows[0].Summary), 5)
}

// TestHarnessesDependOnSeedsAlone plays with environments of different speed, on
// different numbers of workers and waves. Time is synctest's.
func TestHarnessesDependOnSeedsAlone(t *testing.T) {
	for name, h := range harnesses() {
		synctest.Test(t, func(t *testing.T) {
			var want []*rollout.Trajectory
			for _, workers := range []int{1, 3, 8} {
				for _, waves := range []int{1, 4} {
					w := &world{delay: func(seed int64, _ string) time.Duration {
						return time.Duration(seed*7919%11) * time.Millisecond
					}}
					p := player(t, w, &parrot{})
					p.Harness, p.Workers, p.Waves, p.MaxTurns = h, workers, waves, 6
					p.Budget = rollout.Budget{Response: 80, Observation: 14}
					got := finished(t, p, episodes(11))
					if want == nil {
						want = got
					}
					require.Equal(t, want, got, "%s: %d workers, %d waves", name, workers, waves)
				}
			}
		})
	}
}

// TestRowsOfAnEpisodeAreStitched passes rows to estimators over episodes, and compares
// the result with that of the same estimator on the whole episode as one row.
func TestRowsOfAnEpisodeAreStitched(t *testing.T) {
	for name, h := range harnesses() {
		ts, _ := played(t, h, nil)
		for _, estimator := range []string{"token_level_gae", "trajectory_grpo", "default_gae"} {
			spec, err := advantage.Describe(estimator)
			require.NoError(t, err)
			require.NoError(t, rollout.Check(h, spec, ""))
			est, err := advantage.New(estimator, advantage.DefaultParams())
			require.NoError(t, err)
			split, joined := stitched(t, ts, est, false), stitched(t, ts, est, true)
			require.Equal(t, len(joined), len(split))
			for i := range split {
				require.InDelta(t, joined[i], split[i], 1e-5, "%s, %s: token %d", name, estimator, i)
			}
		}
	}
}

// stitched returns the advantages of all response tokens, with separate rows or with
// the rows of each episode joined to one.
func stitched(t *testing.T, ts []*rollout.Trajectory, est advantage.Estimator, join bool) (out []float32) {
	t.Helper()
	var b advantage.Batch
	add := func(seq *mask.Sequence, rewards []float32, tr *rollout.Trajectory, row int) {
		r := advantage.Row{Rewards: rewards, Values: make([]float32, len(rewards)), Group: tr.Group, Trajectory: tr.Index,
			Turn: row}
		require.NoError(t, b.Append(seq, mask.Options{}, r))
	}
	for _, tr := range ts {
		var whole mask.Sequence
		var all []float32
		for i := range tr.Rows {
			rewards, err := tr.Rewards(nil, i, reward.PerTurn)
			require.NoError(t, err)
			if !join {
				add(&tr.Rows[i].Sequence, rewards, tr, i)
				continue
			}
			for p := range tr.Rows[i].Pieces {
				tokens := tr.Rows[i].Tokens()[p.Start:p.End]
				if p.Kind == mask.Response {
					require.NoError(t, whole.AppendResponse(tokens...))
				} else {
					require.NoError(t, whole.AppendContext(mask.Observation, tokens...))
				}
			}
			all = append(all, rewards...)
		}
		if join {
			add(&whole, all, tr, 0)
		}
	}
	var res advantage.Result
	require.NoError(t, est.Estimate(&res, &b))
	for i, on := range b.Loss {
		if on {
			out = append(out, res.Advantages[i])
		}
	}
	return out
}

func TestRowLocalEstimatorsAreRefusedWithSplittingHarnesses(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"concat": {"gae": true, "grpo": true, "remax": true, "default_gae": true, "no_concat_gae": true,
			"trajectory_grpo": true},
		"no_concat": {"gae": false, "grpo": false, "remax": false, "bi_level_gae": false, "default_gae": true,
			"no_concat_gae": true, "trajectory_grpo": true},
		"compact": {"masked_gae": false, "turn_level_gae": true},
		"window":  {"lite_gae": false, "token_level_gae": true},
	} {
		for estimator, fits := range want {
			spec, err := advantage.Describe(estimator)
			require.NoError(t, err)
			err = rollout.Check(harnesses()[name], spec, "")
			if fits {
				require.NoError(t, err, "%s with %s", name, estimator)
			} else {
				testkit.Error(t, err, rollout.ErrIncompatible, estimator)
			}
		}
	}
	grpo, err := advantage.Describe("trajectory_grpo")
	require.NoError(t, err)
	err = rollout.Check(rollout.NoConcat{}, grpo, "turn_gspo")
	testkit.Error(t, err, rollout.ErrIncompatible, "turn_gspo")
	token, err := advantage.Describe("token_level_gae")
	require.NoError(t, err)
	require.NoError(t, rollout.Check(rollout.NoConcat{}, token, "turn_ppo"))
	require.NoError(t, rollout.Check(nil, token, ""), "no harness is concat")
}

// scripted is a user's own harness.
type scripted func(*rollout.State) (rollout.Request, error)

func (scripted) Splits() bool                                     { return true }
func (f scripted) Next(s *rollout.State) (rollout.Request, error) { return f(s) }
func user(text string) []policy.Message {
	return []policy.Message{{Role: policy.User,
		Text: text}}
}
func failing(err error) scripted {
	return func(*rollout.State) (rollout.Request, error) { return rollout.Request{}, err }
}
func answering(a rollout.Request) scripted {
	return func(*rollout.State) (rollout.Request, error) { return a, nil }
}
func panicking(*rollout.State) (rollout.Request, error) { panic("out of luck") }
func counting(s *rollout.State) (rollout.Request, error) {
	_, err := s.Count(rollout.Request{})
	return rollout.Request{}, err
}

// TestAHarnessFailureAffectsOnlyItsEpisode: a harness fails in the second turn of one
// episode.
func TestAHarnessFailureAffectsOnlyItsEpisode(t *testing.T) {
	want, _ := played(t, nil, nil)
	const bad = 3
	for name, c := range map[string]struct {
		h    scripted
		end  rollout.End
		says string
	}{
		"error":   {failing(errBroken), rollout.EndHarness, errBroken.Error()},
		"panic":   {panicking, rollout.EndHarness, "panicked: out of luck"},
		"no room": {failing(policy.ErrNoRoom), rollout.EndNoRoom, ""},
		"no progress": {failing(rollout.ErrNoProgress), rollout.EndNoProgress,
			"before turn 1: compaction makes no progress"},
		"too much":       {failing(rollout.ErrOpening), rollout.EndBudget, "opening of a conversation is too long"},
		"nothing to say": {answering(rollout.Request{}), rollout.EndHarness, "must be the user's"},
		"assistant last": {answering(rollout.Request{Messages: []policy.Message{{Role: policy.Assistant, Text: "a"}}}),
			rollout.EndHarness, "must be the user's"},
		"negative": {answering(rollout.Request{Messages: user("a"), MaxTokens: -1}), rollout.EndHarness,
			"MaxTokens of its request is -1"},
		"early summary": {answering(rollout.Request{Messages: user("a"), Open: true, Summary: true}), rollout.EndHarness,
			"both opens a conversation and asks for a summary"},
	} {
		h := func(s *rollout.State) (rollout.Request, error) {
			if strings.HasPrefix(s.Observation.Text, fmt.Sprintf("level %d turn 1", 100+bad/2)) &&
				len(s.Turns[0].Observation.Images) == (bad+1)%2 {
				return c.h(s)
			}
			return rollout.Concat{}.Next(s)
		}
		got, _ := played(t, scripted(h), nil)
		for i := range want {
			if i != bad {
				require.Equal(t, want[i], got[i], "%s: episode %d", name, i)
			}
		}
		require.Equal(t, c.end, got[bad].End, "%s: %v", name, got[bad].Err)
		require.Len(t, got[bad].Turns, 1)
		if c.says == "" {
			require.NoError(t, got[bad].Err)
		} else {
			require.ErrorContains(t, got[bad].Err, c.says)
		}
	}
}

func TestAHarnessCannotContinueAClosedConversation(t *testing.T) {
	h := func(s *rollout.State) (rollout.Request, error) {
		switch {
		case s.Conversations == 0:
			return s.Open(s.ObservationMessage()), nil
		case s.Closed:
			return rollout.Request{Messages: user("more")}, nil
		}
		return rollout.Request{Messages: user("Sum up."), Summary: true}, nil
	}
	ts, _ := played(t, scripted(h), nil)
	for _, tr := range ts {
		if len(tr.Turns) == 1 && tr.End == rollout.EndDone {
			continue // it was over after its first turn
		}
		testkit.Error(t, tr.Err, rollout.ErrHarness, "none is open")
	}
}

// silent is a policy without a tokenizer.
type silent struct{ policy.Policy }

func TestBudgetsNeedAPolicyThatCounts(t *testing.T) {
	w, q := &world{}, &parrot{}
	p := player(t, w, q)
	p.Policy = silent{q}
	p.Budget.Response = 100
	_, _, err := p.Play(t.Context(), episodes(2), 7)
	require.ErrorIs(t, err, rollout.ErrNoCounter)
	p.Budget = rollout.Budget{}
	p.Harness = scripted(counting)
	ts := finished(t, p, episodes(2))
	require.ErrorIs(t, ts[1].Err, rollout.ErrNoCounter)
}

func TestHarnessesByName(t *testing.T) {
	r := rollout.Builtin()
	require.Equal(t, []string{"compact", "concat", "no_concat", "window"}, r.Names())
	o := rollout.HarnessOptions{Window: 3, Compact: rollout.Compact{Summary: 9, Total: 70}}
	for name, want := range map[string]rollout.Harness{
		"concat": rollout.Concat{}, "no_concat": rollout.NoConcat{}, "window": rollout.Window{Size: 3},
		"compact": rollout.Compact{Summary: 9, Total: 70},
	} {
		got, err := r.New(name, o)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := r.New("no_conct", o)
	testkit.Error(t, err, rollout.ErrUnknownHarness, `did you mean "no_concat"`)
	_, err = r.New("compact", rollout.HarnessOptions{})
	require.ErrorIs(t, err, rollout.ErrNoSummary)
	_, err = r.New("window", rollout.HarnessOptions{Window: -1})
	require.ErrorContains(t, err, "-1 turns")

	own := func(rollout.HarnessOptions) (rollout.Harness, error) { return rollout.Window{Size: 1}, nil }
	require.NoError(t, r.Register("mine", own))
	require.ErrorIs(t, r.Register("mine", own), rollout.ErrDuplicateHarness)
	require.Error(t, r.Register("", own))
	require.Error(t, r.Register("none", nil))
	got, err := r.New("mine", o)
	require.NoError(t, err)
	require.Equal(t, rollout.Window{Size: 1}, got)
	require.NoError(t, new(rollout.Harnesses).Register("empty", func(rollout.HarnessOptions) (rollout.Harness, error) {
		return nil, nil
	}))
	require.NoError(t, r.Register("empty", func(rollout.HarnessOptions) (rollout.Harness, error) { return nil, nil }))
	_, err = r.New("empty", o)
	require.ErrorContains(t, err, "its factory returned nil")
	_, err = rollout.Builtin().New("mine", o)
	require.ErrorIs(t, err, rollout.ErrUnknownHarness, "registries are values")
}

// text is a policy that returns text without tokens, as policies behind an API do.
type text struct{ *parrot }

func (p text) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	out, err := p.parrot.Generate(ctx, prompts, s)
	for i := range out {
		out[i].Context, out[i].Tokens, out[i].LogProbs = nil, nil, nil
	}
	return out, err
}

// TestPoliciesWithoutTokensAreEstimated: the lengths of the conversation come from
// Count, so compaction works for them, too.
func TestPoliciesWithoutTokensAreEstimated(t *testing.T) {
	ts, _ := played(t, harnesses()["compact"], func(p *rollout.Player) { p.Policy = text{p.Policy.(*parrot)} })
	c := rollout.Count(ts)
	require.Zero(t, c.Tokens+c.Context)
	rows := 0
	for _, tr := range ts {
		require.True(t, tr.End.Usable(), "%v", tr.Err)
		rows = max(rows, len(tr.Rows))
		for i := range tr.Rows {
			require.Zero(t, tr.Rows[i].Len())
		}
	}
	require.Greater(t, rows, 1)
}

var _ env.Env = (*sizedEnv)(nil)
