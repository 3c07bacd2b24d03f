package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout/diagnose"
	"vagen/rollout/filter"
	"vagen/train"
	"vagen/train/config"
)

// returns gives the rewards of the rows of a batch, by level.
func rowReturns(b *traintest.Bandit, batch *policy.Batch) (out []float64) {
	for row := range batch.Len() {
		_, rewards := paid(b, batch.Tokens[batch.Offsets[row]:batch.Offsets[row+1]])
		out = append(out, rewards[0]+rewards[1])
	}
	return out
}

// TestFiltersDropGroupsBeforeTheUpdate: every filter keeps the groups that package filter
// selects, and reports how many were dropped.
func TestFiltersDropGroupsBeforeTheUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]any
		scaled   bool
	}{
		"none":                  {nil, false},
		"reward_variance":       {map[string]any{"topk": 0.25}, false},
		"reward_variance_top_k": {map[string]any{"k": uint64(3)}, false},
		"reward_variance_top_p": {map[string]any{"top_p": 0.5}, true},
		"reward_variance_min_p": {map[string]any{"min_p": 0.9}, false},
		"drop_equal":            {map[string]any{"tolerance": 1.6}, false},
		"dapo":                  {map[string]any{"tolerance": 1.6}, false},
	} {
		cfg := traintest.Grouped()
		plain := traintest.Guesser()
		traintest.Run(t, cfg, plain)
		all := plain.Updates[0].Batch
		scores := rowReturns(plain, all)
		var groups []string
		for i := range scores {
			groups = append(groups, fmt.Sprint(i/3))
		}
		want, err := filter.Builtin().New(name, c.settings)
		require.NoError(t, err)
		var kept filter.Result
		require.NoError(t, want.Filter(&kept, &filter.Batch{Group: groups, Return: scores}))

		cfg.Filter = config.FilterConfig{Enable: true, Name: name, Settings: c.settings}
		b := traintest.Guesser()
		m := traintest.Run(t, cfg, b)[0].Metrics
		got := b.Updates[0].Batch
		require.Equal(t, len(kept.Keep), got.Len(), name)
		for k, row := range kept.Keep {
			from, to := all.Offsets[row], all.Offsets[row+1]
			require.Equal(t, all.Tokens[from:to], got.Tokens[got.Offsets[k]:got.Offsets[k+1]], name)
			for i := range to - from {
				require.InDelta(t, float64(all.Advantages[from+i])*kept.Scale, got.Advantages[got.Offsets[k]+i], 1e-6,
					"%s: whitened over the whole batch, then scaled", name)
			}
		}
		require.Equal(t, float64(24-len(kept.Keep)), m["filter/dropped"], name)
		require.Equal(t, kept.Scale, m["filter/scale"], name)
		require.Equal(t, c.scaled, kept.Scale != 1, name)
		if name == "none" {
			require.Zero(t, m["filter/dropped"])
		} else {
			require.Positive(t, m["filter/dropped"], "%s: there is something to drop", name)
			require.Contains(t, m, "filter/train/original/mean_variance", name)
		}
	}
	require.NotContains(t, traintest.Run(t, traintest.Grouped(), traintest.Guesser())[0].Metrics, "filter/dropped")
}

// TestAStepWithoutEpisodesUpdatesNothing: if a filter drops all episodes, the run continues.
func TestAStepWithoutEpisodesUpdatesNothing(t *testing.T) {
	c := traintest.Grouped()
	c.Trainer.Steps = 2
	c.Filter = config.FilterConfig{Enable: true, Name: "drop_equal",
		Settings: map[string]any{"keep_none": true, "tolerance": 100.0}}
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "stop"}
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, nil)
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, []string{"step 1", "step 2"}, j.Kinds())
	require.Empty(t, b.Updates)
	for _, e := range *j {
		require.Equal(t, 24.0, e.Metrics["filter/dropped"])
		for _, name := range []string{"actor/pg_loss", "actor/entropy", "actor/ppo_kl", "actor/grad_norm",
			"actor/ratio_max",
			"actor/lr", "critic/vf_loss", "critic/grad_norm", "train/trained_tokens"} {
			require.NotContains(t, e.Metrics, name, "not measured, which is not 0")
		}
	}
	require.Contains(t, log.String(), "the filter dropped all episodes")
	require.NotContains(t, log.String(), "metric not found")
}

// chosen is a registered filter that keeps the given episodes.
type chosen struct {
	keep []int
	err  error
}

func (f chosen) Filter(dst *filter.Result, _ *filter.Batch) error {
	*dst = filter.Result{Keep: f.keep, Scale: 0.5, Metrics: map[string]float64{"filter/mine": 7}}
	return f.err
}

// TestRegisteredPartsCanBeUsedByName: filter, metric and estimator.
func TestRegisteredPartsCanBeUsedByName(t *testing.T) {
	r := config.Registries{Filters: filter.Builtin(), Estimators: advantage.Builtin(), Metrics: diagnose.Builtin()}
	var rows int
	require.NoError(t, r.Metrics.Register("mine", func(dst map[string]float64, b *diagnose.Batch) error {
		rows = b.Rows()
		dst["mine/rows"] = float64(rows)
		return nil
	}))
	require.NoError(t, r.Metrics.Register("broken", func(map[string]float64, *diagnose.Batch) error {
		return traintest.ErrBroken
	}))
	require.NoError(t, r.Filters.Register("chosen", func(a *filter.Args) (filter.Filter, error) {
		return chosen{keep: []int{a.Int("first", 0), 5}}, nil
	}))
	require.NoError(t, r.Estimators.Register(advantage.Spec{Name: "mine", Mask: advantage.MaskLoss,
		New: func(advantage.Params) advantage.Estimator {
			return advantage.RLOO{}
		}}))
	set := []string{
		"env.name=guess", "env.config.turns=2", "algorithm.adv_estimator=mine", "filter.enable=true", "filter.name=chosen",
		"filter.filter_kwargs.first=2",
		"trainer.metrics=[mine, broken]", "data.train_batch_size=8", "data.max_response_length=4",
		"actor_rollout_ref.actor.ppo_mini_batch_size=8",
		"trainer.total_training_steps=1", "trainer.val_before_train=false", "trainer.test_freq=0", "critic.kind=none",
		"actor_rollout_ref.actor.entropy_coeff=0",
	}
	_, err := config.Load("", set...)
	for _, want := range []string{`"mine": unknown`, `filter: filter "chosen": unknown`, `"mine" is not a metric`} {
		require.ErrorContains(t, err, want)
	}
	c, err := r.LoadConfig("", set...)
	require.NoError(t, err)
	require.NoError(t, r.Validate(&c))

	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, nil)
	require.ErrorIs(t, tr.Run(t.Context()), config.ErrConfig, "the trainer does not know them either")
	tr.Registries = r
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	m := (*j)[0].Metrics
	require.Equal(t, 8.0, m["mine/rows"])
	require.Equal(t, 8, rows)
	require.Equal(t, 7.0, m["filter/mine"])
	require.Equal(t, 1.0, m["_failed/broken"], "a metric that fails can be seen and costs nothing else")
	require.Contains(t, log.String(), "a metric failed")
	require.NotContains(t, m, "_failed/mine")
	require.NotContains(t, m, "reward_variance", "only what was asked for")
	require.Equal(t, 2, b.Updates[0].Batch.Len())
}

func TestInvalidFilterResultsEndTheRun(t *testing.T) {
	for want, f := range map[string]chosen{
		"returned episode 9 after 1, must be increasing and below 8": {keep: []int{1, 9}},
		"returned episode 1 after 1":                                 {keep: []int{1, 1}},
		"returned episode -1 after -1":                               {keep: []int{-1}},
		"broken on purpose":                                          {err: traintest.ErrBroken},
	} {
		c := traintest.Whole()
		c.Filter = config.FilterConfig{Enable: true, Name: "chosen"}
		tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
		tr.Registries.Filters = filter.Builtin()
		require.NoError(t, tr.Registries.Filters.Register("chosen", func(*filter.Args) (filter.Filter, error) {
			return f, nil
		}))
		require.ErrorContains(t, tr.Run(t.Context()), want)
	}
}

// TestStepsAreDiagnosed: every step has the metrics of package diagnose, computed from the right
// columns.
func TestStepsAreDiagnosed(t *testing.T) {
	c := traintest.Grouped()
	c.Data.TrainBatch, c.Agent.Actor.MiniBatch = 8, 24
	b := traintest.Guesser()
	m := traintest.Run(t, c, b)[0].Metrics
	scores := rowReturns(b, b.Updates[0].Batch)
	for name, want := range map[string]float64{
		"response_length/mean": 4, "response_length/max": 4, "prompt_length/mean": 6, "response_length/truncated": 0,
		"critic/score/mean": sum(scores) / 24, "critic/score/max": slices.Max(scores), "critic/score/min": slices.Min(scores),
		"critic/rewards/mean": sum(scores) / 24, "train/score": sum(scores) / 24,
	} {
		require.InDelta(t, want, m[name], 1e-9, name)
	}
	variance := 0.0
	for g := range 8 {
		mean := sum(scores[3*g:3*g+3]) / 3
		for _, x := range scores[3*g : 3*g+3] {
			variance += (x - mean) * (x - mean) / 24
		}
	}
	require.InDelta(t, variance, m["reward_variance"], 1e-9)
	require.InDelta(t, 1, m["advantage_share/guess"]+m["advantage_share/unexplained"], 1e-9)
	require.Contains(t, m, "template/index")
	require.Contains(t, m, "explained_variance")
	for name := range m {
		require.False(t, strings.HasPrefix(name, "_failed/"), name)
	}
	c.Trainer.Metrics = []string{"none"}
	require.NotContains(t, traintest.Run(t, c, traintest.Guesser())[0].Metrics, "reward_variance")
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// TestRewardsAreClippedAndNormalised where they are placed: without discount and critic, the
// return at a turn's end is the sum of the rewards there and later.
func TestRewardsAreClippedAndNormalised(t *testing.T) {
	pay := func(x float64) *float64 { return &x }
	for name, reward := range map[string]config.RewardConfig{
		"clipped low":              {ClipLow: pay(0), Normalize: "none"},
		"clipped both":             {ClipLow: pay(-0.25), ClipHigh: pay(0.5), Normalize: "none"},
		"batch":                    {Normalize: "batch", Epsilon: 1e-8},
		"batch, centred, bounded":  {Normalize: "batch", Center: true, Limit: 0.75},
		"environment":              {Normalize: "environment", Center: true},
		"group":                    {Normalize: "group", Center: true, Epsilon: 1e-3},
		"clipped, then normalised": {ClipLow: pay(0), Normalize: "batch", Center: true},
	} {
		for _, perTurn := range []bool{true, false} {
			c := traintest.Grouped()
			c.Reward, c.Rollout.MultiTurnReward = reward, perTurn
			c.Reward.Site, c.Reward.Aggregate = "turn_end", "per_turn"
			b := traintest.Guesser()
			m := traintest.Run(t, c, b)[0].Metrics
			batch := b.Updates[0].Batch
			var values []float64
			var keys []string
			for row := range batch.Len() {
				_, rewards := paid(b, batch.Tokens[batch.Offsets[row]:batch.Offsets[row+1]])
				if !perTurn {
					rewards = []float64{rewards[0] + rewards[1]}
				}
				values = append(values, rewards...)
				for range rewards {
					keys = append(keys, fmt.Sprint(row/3))
				}
			}
			moved := 0
			for i, x := range values {
				if reward.ClipLow != nil && x < *reward.ClipLow {
					values[i], moved = *reward.ClipLow, moved+1
				}
				if reward.ClipHigh != nil && x > *reward.ClipHigh {
					values[i], moved = *reward.ClipHigh, moved+1
				}
			}
			want := scaled(values, keys, reward)
			i := 0
			for row := range batch.Len() {
				ends, _ := paid(b, batch.Tokens[batch.Offsets[row]:batch.Offsets[row+1]])
				last := want[i]
				if perTurn {
					require.InDelta(t, want[i]+want[i+1], batch.Returns[batch.Offsets[row]+ends[0]], 1e-5, "%s: row %d, first turn",
						name, row)
					last = want[i+1]
					i++
				}
				i++
				require.InDelta(t, last, batch.Returns[batch.Offsets[row]+ends[1]], 1e-5, "%s: row %d, last turn", name, row)
			}
			require.InDelta(t, float64(moved)/float64(len(values)), m["reward/clipped"], 1e-12, name)
		}
	}
	require.NotContains(t, traintest.Run(t, traintest.Grouped(), traintest.Guesser())[0].Metrics, "reward/clipped")
}

// scaled is the reference: rewards normalised by mean and deviation of each key's values.
func scaled(values []float64, keys []string, c config.RewardConfig) []float64 {
	if c.Normalize == "none" {
		return values
	}
	out := slices.Clone(values)
	for i := range values {
		var mine []float64
		for j := range values {
			if c.Normalize != "group" || keys[j] == keys[i] {
				mine = append(mine, values[j])
			}
		}
		mean, m2 := sum(mine)/float64(len(mine)), 0.0
		for _, x := range mine {
			m2 += (x - mean) * (x - mean)
		}
		if c.Center {
			out[i] -= mean
		}
		if d := math.Sqrt(m2/float64(len(mine)-1)) + c.Epsilon; d > 0 {
			out[i] /= d
		}
		if c.Limit > 0 {
			out[i] = min(max(out[i], -c.Limit), c.Limit)
		}
	}
	return out
}

// TestARunResumesFromItsState: a state and the weights of the same step give the same remaining
// steps, with an adaptive KL coefficient and running statistics.
func TestARunResumesFromItsState(t *testing.T) {
	c := stateful()
	c.Trainer.Steps, c.Trainer.ValBefore = 6, true
	c.Agent.Actor.Optim.Style, c.Agent.Actor.Optim.WarmupRatio = "cosine", 0.2
	whole := traintest.Run(t, c, traintest.Guesser())

	c.Trainer.SaveFreq = 3
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, nil)
	var stored []byte
	tr.Checkpointer = traintest.Hooks{OnBegin: func(_ context.Context, s train.State) (*train.Pending, error) {
		var err error
		stored, err = json.Marshal(s)
		require.NoError(t, err)
		return nil, traintest.ErrBroken // the process ends here
	}}
	require.ErrorIs(t, tr.Run(t.Context()), traintest.ErrBroken)
	require.Equal(t, []string{"validate 0", "step 1", "step 2", "step 3"}, j.Kinds())

	s := testkit.JSON[train.State](t, stored)
	require.Equal(t, 3, s.Step)
	require.NotEqual(t, 0.1, s.KLCoef)
	c.Trainer.SaveFreq = 0
	next, rest := traintest.Trainer(t, c, b, nil)
	require.NoError(t, next.Restore(s))
	require.NoError(t, next.Run(t.Context()))
	require.Equal(t, []string{"save 3", "step 4", "step 5", "step 6"}, rest.Kinds())
	require.Equal(t, traintest.Untimed(whole)[4:], traintest.Untimed(*rest)[1:])
	end, err := next.State()
	require.NoError(t, err)
	require.Equal(t, 6, end.Step)

	forgetful, other := traintest.Trainer(t, c, b, nil)
	s.KLCoef, s.Rewards = 0.1, nil
	require.NoError(t, forgetful.Restore(s))
	require.NoError(t, forgetful.Run(t.Context()))
	require.NotEqual(t, traintest.Untimed(*rest), traintest.Untimed(*other), "the state matters")
}

func TestInvalidStatesAreRefused(t *testing.T) {
	for _, s := range []train.State{
		{Step: -1}, {Skipped: -1}, {KLCoef: -1}, {KLCoef: math.NaN()}, {KLCoef: math.Inf(1)},
		{Rewards: json.RawMessage(`{"": {"count": -1}}`)}, {Rewards: json.RawMessage(`[`)},
	} {
		tr, _ := traintest.Trainer(t, traintest.Small(), traintest.Guesser(), nil)
		require.Error(t, tr.Restore(s), "%+v", s)
		require.NoError(t, tr.Run(t.Context()), "it begins anew")
	}
	tr, j := traintest.Trainer(t, traintest.Small(), traintest.Guesser(), nil)
	require.NoError(t, tr.Restore(train.State{Step: 1,
		Rewards: json.RawMessage(`{"": {"count": 3, "mean": 1, "m2": 2}}`)}))
	require.ErrorIs(t, tr.Run(t.Context()), config.ErrConfig)
	require.Empty(t, *j)
	s, err := (&train.Trainer{}).State()
	require.NoError(t, err)
	require.Zero(t, s)
	require.Zero(t, (&train.Trainer{}).StartState(1, 0))
	require.ErrorContains(t, tr.Restore(train.State{Prefetched: train.PrefetchedSteps{nil}}), "entry 1")
}

// TestSkippedUpdatesAreCountedAcrossARestart.
func TestSkippedUpdatesAreCountedAcrossARestart(t *testing.T) {
	c := traintest.Whole()
	c.Trainer.MaxSkipped, c.Trainer.Steps = 3, 9
	b := traintest.Guesser()
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error { s.Skipped = true; return nil }
	tr, _ := traintest.Trainer(t, c, b, nil)
	require.NoError(t, tr.Restore(train.State{Step: 4, Skipped: 2}))
	require.ErrorIs(t, tr.Run(t.Context()), train.ErrDiverged)
	require.Len(t, b.Updates, 1)
}
