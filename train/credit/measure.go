package credit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"vagen/advantage"
	"vagen/internal/rng"
	"vagen/internal/silent"
	"vagen/rollout"
	"vagen/rollout/store"
)

// ErrOptions is wrapped by errors about the fields of a Measurement.
var ErrOptions = errors.New("bad measurement")

// Options set what a Measurement plays and compares.
type Options struct {
	// Episodes is the number of episodes, drawn at random from the usable ones; 0 is all.
	Episodes int
	// Branches is the number of continuations of each side: after the response that was
	// given, and after a response that is drawn anew. At least 2.
	Branches int
	// Alternatives is the number of other actions of a turn that are measured: the most
	// frequent ones of the responses that are drawn anew.
	Alternatives int
	// Force are answers that are measured in every turn, too: the response that was given
	// with this text between its answer tags.
	Force []string
	// Turns are the turns to measure, counted from 0; nil is all.
	Turns []int
	// Gamma is the discount between turns of the returns, in [0, 1].
	Gamma float64
	// Seed determines all random draws: episodes, continuations and bootstrap.
	Seed uint64

	// MaxTokens and MaxTime stop the measurement before the next eight episodes, which are
	// played together, when the continuations have so many response tokens, those of earlier
	// calls included, or when the call has taken so long. 0 is no limit.
	MaxTokens int64
	MaxTime   time.Duration

	// Estimators are compared; nil is all that are registered.
	Estimators []string
	// Params are the hyperparameters of all of them.
	Params advantage.Params
}

// DefaultOptions returns 16 continuations of each side, two alternatives, no discount, and
// the published parameters of the estimators.
func DefaultOptions() Options {
	return Options{Branches: 16, Alternatives: 2, Gamma: 1, Params: advantage.DefaultParams()}
}

// Measurement measures what the turns of episodes were worth, and compares it with the
// claims of estimators.
//
// For every turn k it plays Branches pairs of continuations from the recorded state: one
// after the recorded response, one after a response that the policy draws anew. Both of a
// pair share their random numbers from turn k+1 on, and those of the environment. The
// measured advantage is the mean difference of their returns Σ γ^(j−k)·r_j, j ≥ k, with
// Student's interval. Rewards are those of the environment.
//
// Results do not depend on the number of workers, and a measurement that was stopped
// continues with the missing episodes: each is kept below Run/credit/step_<Checkpoint>.
type Measurement struct {
	Options
	// Run is the folder of the run. Results are written below its folder credit.
	Run string
	// Checkpoint is the training step of the checkpoint whose policy is measured, and
	// Played the training step whose episodes are continued.
	Checkpoint, Played int
	// Identity is a text that names the policy's weights: what was measured with another
	// one is not used.
	Identity string
	// Step are the episodes, with what was recorded of them.
	Step *Step
	// Made means that the episodes or the numbers of their tokens were made for the
	// measurement, which therefore keeps them in PlayedFolder.
	Made bool
	// Player continues episodes as they were played: with the same policy, which must be a
	// policy.Resumer, sampling, harness and limits.
	Player *rollout.Player
	// Done, if not nil, is called after each batch of episodes.
	Done func(Progress)
	Log  *slog.Logger // nil discards
}

// Progress is the state of a measurement.
type Progress struct {
	Episodes, Of int
	Tokens       int64 // response tokens of all continuations so far
}

// Measure measures the episodes that are missing and writes the results of all: one file
// for each episode, see Path, and the table. If a limit stops it, the table
// has the episodes so far and says so.
func (m *Measurement) Measure(ctx context.Context) (*Table, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("credit: %w: %w", ErrOptions, err)
	}
	m.Log = silent.Log(m.Log)
	claims, missing, err := m.Step.claimsOf(m.Estimators, m.Params)
	if err != nil {
		return nil, err
	}
	claims = append(claims, m.Step.baselines(m.Gamma, m.Seed)...)
	episodes := m.chosen()
	if len(episodes) == 0 {
		return nil, fmt.Errorf("credit: step %d has no usable episode", m.Played)
	}
	if err := m.keepMade(); err != nil {
		return nil, err
	}
	begin, spent := time.Now(), int64(0)
	var measured []*Measured
	for chunk := range slices.Chunk(episodes, together) {
		if m.MaxTokens > 0 && spent >= m.MaxTokens || m.MaxTime > 0 && time.Since(begin) >= m.MaxTime {
			break
		}
		works, err := m.work(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for i, w := range works {
			spent += w.Tokens
			result := w.result(m.key(chunk[i]), chunk[i], claims)
			if err := writeJSON(Path(m.Run, result.Key), result); err != nil {
				return nil, err
			}
			measured = append(measured, result)
		}
		if m.Done != nil {
			m.Done(Progress{Episodes: len(measured), Of: len(episodes), Tokens: spent})
		}
	}
	slices.SortFunc(measured, func(a, b *Measured) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Index, b.Index))
	})
	table := newTable(measured, claims, missing, m.Seed)
	table.Checkpoint, table.Step, table.Gamma, table.Branches = m.Checkpoint, m.Played, m.Gamma, m.Branches
	if len(measured) < len(episodes) {
		table.Remarks = append(table.Remarks, fmt.Sprintf("the budget stopped the measurement after %d of %d episodes",
			len(measured), len(episodes)))
	}
	return table, writeJSON(tablePath(m.Run, m.Checkpoint), table)
}

func (m *Measurement) check() error {
	switch o := &m.Options; {
	case m.Step == nil || m.Step.Config == nil:
		return errors.New("field Step is not set")
	case m.Player == nil:
		return errors.New("field Player is not set")
	case o.Episodes < 0 || o.Alternatives < 0 || o.MaxTokens < 0 || o.MaxTime < 0:
		return fmt.Errorf("fields Episodes %d, Alternatives %d, MaxTokens %d and MaxTime %v must not be negative", o.Episodes,
			o.Alternatives, o.MaxTokens, o.MaxTime)
	case o.Branches < 2:
		return fmt.Errorf("field Branches is %d, must be at least 2", o.Branches)
	case !(o.Gamma >= 0 && o.Gamma <= 1):
		return fmt.Errorf("field Gamma is %v, must be in [0, 1]", o.Gamma)
	case len(o.Turns) > 0 && slices.Min(o.Turns) < 0:
		return fmt.Errorf("field Turns has %d, must not be negative", slices.Min(o.Turns))
	}
	names := m.Step.Names.WithBuiltins()
	for _, name := range m.Estimators {
		if _, err := names.Estimators.Describe(name); err != nil {
			return err
		}
	}
	return nil
}

// key identifies an episode.
func (m *Measurement) key(t *rollout.Trajectory) Key { return Key{m.Played, t.Group, t.Index} }

// chosen draws the episodes. The order is random, too, so that those that a budget leaves
// are a random choice.
func (m *Measurement) chosen() []*rollout.Trajectory {
	var all []*rollout.Trajectory
	for _, t := range m.Step.Episodes {
		if t.End.Usable() && len(t.Turns) > 0 {
			all = append(all, t)
		}
	}
	r := rng.New(m.Seed, rng.Credit, episodeDraws)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if m.Episodes > 0 && m.Episodes < len(all) {
		all = all[:m.Episodes]
	}
	return all
}

// result computes the figures of an episode from the returns of its continuations.
func (w *work) result(k Key, t *rollout.Trajectory, claims []claimed) *Measured {
	var texts store.Texts
	for i := range t.Turns {
		texts.Observations = append(texts.Observations, t.Turns[i].Observation.Text)
		texts.Responses = append(texts.Responses, t.Turns[i].Response)
	}
	out := &Measured{Key: k, Episode: EpisodeSum(texts), Env: t.Env, Seed: t.Seed, Success: t.Success,
		Length: len(t.Turns), Turns: []MeasuredTurn{}, LeftOut: w.LeftOut}
	best := 0.0
	for i := range w.Turns {
		m, why := w.Turns[i].measure()
		if why != "" {
			out.LeftOut = append(out.LeftOut, LeftOut{w.Turns[i].Turn, why})
			continue
		}
		m.Claims = claimsAt(claims, turnKey{k.Group, k.Index, m.Turn})
		out.Turns = append(out.Turns, m)
		if r := float64(m.Regret); m.Significant && r > best {
			best = r
			out.Mistake = &w.Turns[i].Turn
		}
	}
	slices.SortStableFunc(out.LeftOut, func(a, b LeftOut) int { return cmp.Compare(a.Turn, b.Turn) })
	return out
}

// measure computes the figures of a turn, or says why there are none.
func (w *workTurn) measure() (m MeasuredTurn, why string) {
	q, v := known(w.Q, w.V)
	if len(q) < 2 {
		return m, fmt.Sprintf("only %d of %d pairs of continuations can be used", len(q), len(w.Q))
	}
	a := estimate(differences(q, v), 1)
	m = MeasuredTurn{
		Turn: w.Turn, Actions: w.Actions, Q: Number(mean(q)), V: Number(mean(v)), N: len(q),
		Advantage: a.Value, Low: a.Low, High: a.High, Regret: Number(math.NaN()), Alternatives: []Alternative{},
	}
	m.Decided = a.above() || a.below()
	var best Figure
	for _, alt := range w.Alternatives {
		theirs, ours := known(alt.Q, w.Q)
		if len(theirs) < 2 {
			continue
		}
		f := estimate(theirs, 1)
		m.Alternatives = append(m.Alternatives, Alternative{Actions: alt.Actions, Share: alt.Share, Q: f.Value, Low: f.Low,
			High: f.High})
		// The best of several is more likely to be above by chance: the level is Bonferroni's.
		if d := estimate(differences(theirs, ours), len(w.Alternatives)); len(m.Alternatives) == 1 || d.Value > best.Value {
			best = d
		}
	}
	if len(m.Alternatives) > 0 {
		m.Regret, m.Significant = max(0, best.Value), best.above()
	}
	return m, ""
}
