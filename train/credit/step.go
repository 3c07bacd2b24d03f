package credit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/advantage"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
)

// ErrUnavailable means that an estimator cannot be computed from what was recorded.
var ErrUnavailable = errors.New("cannot be computed from what was recorded")

// Step is what a run recorded of a training step. Its fields must not change while it is
// used; its methods are safe for concurrent use.
type Step struct {
	// Config is the configuration of the run, with the estimator that it trained with.
	Config *config.Config
	// Names resolve the names in Config and those of estimators. The zero value has the
	// built-in ones.
	Names config.Registries
	// Episodes are all episodes of the step in the order in which they were recorded,
	// usable or not: estimators compare the episodes of a group.
	Episodes []*rollout.Trajectory
	// Scores are the numbers of the tokens, one entry for each row that was trained on.
	// Without them there are no values, and rewards are those of the environment.
	Scores []store.Scores
}

// TurnDiscount is the discount between turns that a run trains for: high_level_gamma if its
// estimator reads it, else 1.
func TurnDiscount(c *config.Config) float64 {
	spec, err := advantage.Describe(cmp.Or(c, new(config.Config)).Algorithm.Estimator)
	if err == nil && spec.Reads("high_level_gamma") {
		return c.Algorithm.TurnGamma
	}
	return 1
}

// Estimated is what an estimator computes for a step.
type Estimated struct {
	Estimator string
	Rows      []Row
	Turns     []Turn
}

// Row has the numbers of one conversation, one for each of its tokens.
type Row struct {
	Group, Index, Row   int // of the episode, and of the conversation in it
	Advantages, Returns []float32
}

// Turn is what an estimator claims about a turn.
type Turn struct {
	Group, Index, Turn int
	// Claim is the mean of the advantages before whitening over the response tokens that
	// the policy's loss counts. It is NaN if the loss counts none.
	Claim float64
	// End is the advantage before whitening at the turn's last token. Estimators that
	// compute one number per turn have it there.
	End float64
}

// Episode returns the rows and turns of one episode, in order.
func (e *Estimated) Episode(group, index int) (rows []Row, turns []Turn) {
	for _, r := range e.Rows {
		if r.Group == group && r.Index == index {
			rows = append(rows, r)
		}
	}
	for _, t := range e.Turns {
		if t.Group == group && t.Index == index {
			turns = append(turns, t)
		}
	}
	return rows, turns
}

// Estimate computes what an estimator makes of the step with these parameters;
// Config.Params returns those of the run. Whiten applies to the rows; claims are always
// taken before whitening.
//
// The error wraps ErrUnavailable, with the reason, if the estimator needs what was not
// recorded, and advantage.ErrUnknown or advantage.ErrParameter for a wrong name or
// parameter.
func (s *Step) Estimate(name string, p advantage.Params) (*Estimated, error) {
	if s.Config == nil {
		return nil, fmt.Errorf("credit: %w: Step.Config is nil, must be that of the run", ErrUnavailable)
	}
	names := s.Names.WithBuiltins()
	est, err := names.Estimators.New(name, p)
	if err != nil {
		return nil, fmt.Errorf("credit: %w", err)
	}
	spec, err := names.Estimators.Describe(name)
	if err != nil {
		return nil, fmt.Errorf("credit: %w", err)
	}
	l, err := s.layOut(names, spec)
	if err != nil {
		return nil, fmt.Errorf("credit: %s: %w", name, err)
	}
	var got, raw advantage.Result
	if err := est.Estimate(&got, &l.Batch); err != nil {
		return nil, fmt.Errorf("credit: %w", err)
	}
	raw = got
	if p.Whiten && spec.Whitens {
		p.Whiten = false
		if est, err = names.Estimators.New(name, p); err != nil {
			return nil, fmt.Errorf("credit: %w", err)
		}
		raw = advantage.Result{}
		if err := est.Estimate(&raw, &l.Batch); err != nil {
			return nil, fmt.Errorf("credit: %w", err)
		}
	}
	out := &Estimated{Estimator: name}
	for i, r := range l.Rows {
		first, last := l.Batch.Offsets[i], l.Batch.Offsets[i+1]
		out.Rows = append(out.Rows, Row{
			Group: r.Episode.Group, Index: r.Episode.Index, Row: r.Row,
			Advantages: slices.Clone(got.Advantages[first:last]), Returns: slices.Clone(got.Returns[first:last]),
		})
		out.Turns = append(out.Turns, claims(r, raw.Advantages[first:last], l.Loss[first:last])...)
	}
	return out, nil
}

// claims are those for the turns of a row.
func claims(r train.LayoutRow, advantages []float32, counted []bool) []Turn {
	var out []Turn
	seq, turns := &r.Episode.Rows[r.Row].Sequence, 0
	for k := range r.Episode.Turns {
		if r.Episode.Turns[k].Row != r.Row {
			continue
		}
		start, end, ok := seq.TurnAt(turns)
		turns++
		if !ok {
			continue
		}
		sum, n := 0.0, 0
		for i := start; i < end; i++ {
			if counted[i] {
				sum, n = sum+float64(advantages[i]), n+1
			}
		}
		t := Turn{Group: r.Episode.Group, Index: r.Episode.Index, Turn: k, Claim: math.NaN(), End: float64(advantages[end-1])}
		if n > 0 {
			t.Claim = sum / float64(n)
		}
		out = append(out, t)
	}
	return out
}

// layOut makes the estimator's input from what was recorded.
func (s *Step) layOut(names config.Registries, spec advantage.Spec) (*train.Layout, error) {
	own, err := names.Estimators.Describe(s.Config.Algorithm.Estimator)
	if err != nil {
		return nil, err
	}
	if err := s.check(names, spec); err != nil {
		return nil, err
	}
	episodes, scores, err := s.trained(own)
	if err != nil {
		return nil, err
	}
	l, err := train.LayOut(episodes, s.Config, spec)
	if err != nil {
		return nil, err
	}
	if len(s.Scores) == 0 {
		return l, nil
	}
	if spec.Critic {
		l.Batch.Values = make([]float32, l.Batch.Tokens())
	}
	for i, r := range l.Rows {
		first, last := l.Batch.Offsets[i], l.Batch.Offsets[i+1]
		sc := scores[rowKey{r.Episode.Group, r.Episode.Index, r.Row}]
		if sc == nil {
			return nil, fmt.Errorf("%w: row %d of group %d, episode %d has no recorded numbers", ErrUnavailable, r.Row,
				r.Episode.Group, r.Episode.Index)
		}
		if err := checkRecorded(sc, last-first, spec.Critic); err != nil {
			return nil, fmt.Errorf("row %d of group %d, episode %d: %w", r.Row, r.Episode.Group, r.Episode.Index, err)
		}
		copy(l.Batch.Rewards[first:last], sc.Rewards)
		copy(l.Loss[first:last], sc.Loss)
		if !spec.Critic {
			continue
		}
		copy(l.Batch.Values[first:last], sc.Values)
		for k, needed := range l.Scored[first:last] {
			if needed && !sc.Scored[k] {
				return nil, fmt.Errorf("%w: it needs the critic's values of all tokens, but the run recorded only the values that its estimator %s needs", ErrUnavailable, own.Name)
			}
		}
	}
	return l, nil
}

// check reports why an estimator cannot be used with the run's episodes.
func (s *Step) check(names config.Registries, spec advantage.Spec) error {
	no := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
	}
	c := s.Config
	h, err := names.NewHarness(c)
	if err != nil {
		return err
	}
	switch changed := c.Reward.Changes() || c.Algorithm.KLInReward; {
	case len(s.Scores) == 0 && spec.Critic:
		return no("it needs the critic's values, and the numbers of tokens were not recorded")
	case len(s.Scores) == 0 && changed:
		return no("the run changes rewards before it estimates, and the changed rewards were not recorded")
	case spec.Baselines:
		return no("it subtracts the reward of the greedy episode, which runs do not record")
	case spec.Squares:
		return no("it reads the sum of the squares of all tokens' probabilities, which runs do not record")
	case spec.Running:
		return no("it subtracts means over the steps before, which runs do not record")
	case spec.Groups && c.Rollout.Trajectories < 2:
		return no("it compares episodes of one start state, and rollout_manager.n_trajectory is %d", c.Rollout.Trajectories)
	case spec.Mask == advantage.MaskGAE && !c.Rollout.GAEMask:
		return no("it needs the GAE mask, and rollout_manager.use_gae_mask is false")
	case spec.NeedLoss && !c.Rollout.LossMask:
		return no("it needs a loss mask, and rollout_manager.use_loss_mask is false")
	}
	if err := rollout.Check(h, spec, ""); err != nil {
		return no("%w", err)
	}
	if !spec.States {
		return nil
	}
	for _, t := range s.Episodes {
		for k := range t.Turns {
			for _, im := range t.Turns[k].Observation.Images {
				if _, absent := im.(store.Absent); absent {
					return no("it compares observations, and images of group %d, episode %d were not recorded", t.Group, t.Index)
				}
			}
		}
	}
	return nil
}

type rowKey struct{ group, index, row int }

// trained returns the episodes that the run trained on, and the numbers of their rows.
func (s *Step) trained(own advantage.Spec) ([]*rollout.Trajectory, map[rowKey]*store.Scores, error) {
	scores := map[rowKey]*store.Scores{}
	for i := range s.Scores {
		sc := &s.Scores[i]
		k := rowKey{sc.Group, sc.Index, sc.Row}
		if scores[k] != nil {
			return nil, nil, fmt.Errorf("row %d of group %d, episode %d has two entries of recorded numbers", sc.Row, sc.Group,
				sc.Index)
		}
		scores[k] = sc
	}
	if len(s.Scores) == 0 || !own.Baselines {
		return s.Episodes, scores, nil
	}
	// The run left out the groups whose greedy episode could not be used.
	groups := map[int]bool{}
	for k := range scores {
		groups[k.group] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Episodes), func(t *rollout.Trajectory) bool {
		return !groups[t.Group]
	}), scores, nil
}

// checkRecorded checks that the recorded numbers of a row have what an estimator needs.
func checkRecorded(s *store.Scores, tokens int, values bool) error {
	if len(s.Rewards) != tokens || len(s.Loss) != tokens {
		return fmt.Errorf("%w: %d rewards and %d entries of the loss mask were recorded for %d tokens", ErrUnavailable,
			len(s.Rewards), len(s.Loss), tokens)
	}
	if values && (len(s.Values) != tokens || len(s.Scored) != tokens) {
		return fmt.Errorf("%w: it needs one value of the critic per token, but %d values, with a mask of %d entries, were recorded for %d tokens", ErrUnavailable, len(s.Values), len(s.Scored), tokens)
	}
	return nil
}
