package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/frozenlake"
	"vagen/internal/rng"
	"vagen/mask"
	"vagen/policy/vlm"
	"vagen/reward"
	"vagen/rollout"
)

// tiny is a setting that the pure-Go backend completes in seconds.
func tiny() setting {
	s := published()
	s.shape = vlm.Shape{
		Hidden: 24, FF: 32, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 12, RopeTheta: 10000, RopeSections: [3]int{2, 2, 2},
		MaxPositions: 1024, VisionHidden: 16, VisionFF: 16, VisionDepth: 1, VisionHeads: 2, Window: 112, FullBlocks: []int{0},
		Patch: 14, Mean: s.shape.Mean, Std: s.shape.Std, MaxPixels: s.shape.MaxPixels,
	}
	s.episodes, s.group, s.steps, s.every, s.maps, s.turns, s.epochs, s.batches = 4, 2, 1, 1, 2, 2, 1, 1
	s.lessons = []lesson{{8, 1, false, 0, imitation(8, 1e-3)}, {4, 2, true, 0, imitation(4, 1e-3)}}
	return s
}

func tinyStudy(t *testing.T, out string, say io.Writer) *study {
	envs := builtin.Registry()
	require.NoError(t, envs.Register(worldName, newToldLake))
	return &study{setting: tiny(), out: out, backend: "go", envs: envs, log: slog.New(slog.DiscardHandler), say: say}
}

// TestAStoppedStudyResumes: a study that is stopped and resumed has the results of an
// uninterrupted one, and repeats no finished run.
func TestAStoppedStudyResumes(t *testing.T) {
	whole := tinyStudy(t, t.TempDir(), io.Discard)
	want, err := whole.run(t.Context(), 2)
	require.NoError(t, errors.Join(err, whole.close()))
	require.Len(t, want, 2*len(presets))
	for _, r := range want {
		require.Len(t, r.Points, 2, "one of the warm start and one of training")
		require.Equal(t, want[r.Seed*uint64(len(presets))].Points[0], r.Points[0], "all presets begin with the seed's warm start")
	}

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := tinyStudy(t, dir, writerFunc(func(line []byte) {
		if bytes.HasPrefix(line, []byte(turnPPO)) {
			cancel()
		}
	}))
	done, err := stopped.run(ctx, 2)
	require.ErrorIs(t, errors.Join(err, stopped.close()), context.Canceled)
	require.Less(t, len(done), len(want))
	first := filepath.Join(dir, "seed0", presets[0], "result.json")
	before, err := os.Stat(first)
	require.NoError(t, err)

	again := tinyStudy(t, dir, io.Discard)
	got, err := again.run(t.Context(), 2)
	require.NoError(t, errors.Join(err, again.close()))
	require.Equal(t, want, got)
	after, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())

	for name, change := range map[string]func(*study){"rollout_manager.max_turns: 2 → 3": func(s *study) { s.turns++ }, "warm start: noise 0.7": func(s *study) { s.noise = 0.5 }} {
		other := tinyStudy(t, dir, io.Discard)
		change(other)
		_, err = other.run(t.Context(), 2)
		require.ErrorContains(t, errors.Join(err, other.close()), "results of another configuration")
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, os.Remove(first)) // as if the study had been stopped before its first result
	other := tinyStudy(t, dir, io.Discard)
	other.noise = 0.5
	_, err = other.run(t.Context(), 1)
	require.ErrorContains(t, errors.Join(err, other.close()), "another warm start")
	require.ErrorContains(t, err, "noise 0.7")
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestPresetsDifferInNothingElse: configurations of all presets are equal once the keys
// that presets set are made equal, and state pay is vagen_full's alone.
func TestPresetsDifferInNothingElse(t *testing.T) {
	s := published()
	want, err := s.configure(full, 3, "auto")
	require.NoError(t, err)
	require.Equal(t, published().pay, want.Env.Config[optionPay])
	estimators := map[string]bool{}
	for _, preset := range presets {
		c, err := s.configure(preset, 3, "auto")
		require.NoError(t, err, preset)
		require.Equal(t, s.episodes, c.Data.TrainBatch*c.Rollout.Trajectories, "%s plays the same number of episodes", preset)
		require.Equal(t, preset == full, c.Env.Config[optionPay] != 0.0, preset)
		require.InDelta(t, 1, c.Algorithm.Lambda, 0, preset)
		estimators[c.Algorithm.Estimator] = true
		c.Env.Config[optionPay] = s.pay
		c.Algorithm.Estimator, c.Algorithm.TurnGamma = want.Algorithm.Estimator, want.Algorithm.TurnGamma
		c.Rollout.LossMask, c.Rollout.GAEMask, c.Rollout.MultiTurnReward = true, true, true
		c.Rollout.Trajectories, c.Data.TrainBatch = want.Rollout.Trajectories, want.Data.TrainBatch
		if preset == grpo {
			c.Critic = want.Critic
		}
		c.Critic.OnTurnEnds, c.Trainer.Experiment = want.Critic.OnTurnEnds, want.Trainer.Experiment
		require.Equal(t, want, c, preset)
	}
	require.Len(t, estimators, 4, "Vanilla PPO and Turn-PPO use the same estimator")
}

// TestMapsOfASeedAreItsOwn: lessons, training and validation share no map.
func TestMapsOfASeedAreItsOwn(t *testing.T) {
	s := published()
	end := int64(s.maps)
	for seed := range uint64(20) {
		c, err := s.configure(full, seed, "auto")
		require.NoError(t, err)
		first := c.Env.Seed
		for _, l := range s.lessons {
			first -= int64(l.episodes)
		}
		require.GreaterOrEqual(t, first, end)
		end = c.Env.Seed + int64(s.steps*s.episodes)
	}
}

// TestStatementsArePaidOnlyIfAsked, but compared with the truth in any case.
func TestStatementsArePaidOnlyIfAsked(t *testing.T) {
	report, err := env.Check(t.Context(), newToldLake, env.CheckOptions{Config: world(0.5), Responses: []string{"<answer>Left</answer>", "what?"}})
	require.NoError(t, errors.Join(err, report.Err()))
	sum := map[float64]float64{}
	for _, pay := range []float64{0.5, 0} {
		e, err := newToldLake(world(pay))
		require.NoError(t, err)
		_, err = e.Reset(t.Context(), 7)
		require.NoError(t, err)
		lake, ok := e.(*toldLake)
		require.True(t, ok)
		out, err := e.Step(t.Context(), lake.Script(rng.New(1, rng.Script), frozenlake.ShortestPath, 1))
		require.NoError(t, err)
		require.InDelta(t, 1, out.Turn["observation_score"], 0)
		require.InDelta(t, 1, out.Turn["prediction_score"], 0)
		sum[pay] = out.Reward.Sum()
	}
	require.InDelta(t, 2*0.5*(1-fair), sum[0.5]-sum[0], 1e-9, "what is above fair, twice")
	for pay, want := range map[float64]float64{0.5: -0.1 - 2*0.5*fair, 0: -0.1} {
		e, err := newToldLake(world(pay))
		require.NoError(t, err)
		_, err = e.Reset(t.Context(), 7)
		require.NoError(t, err)
		out, err := e.Step(t.Context(), "<answer>Left</answer>")
		require.NoError(t, err)
		require.InDelta(t, want, out.Reward.Sum(), 1e-9, "a malformed response has no right word")
	}
	for name, bad := range map[string]map[string]any{"not a number": {optionPay: "yes"}, "unknown": {"speed": 1}, "weights": nil} {
		_, err := newToldLake(bad)
		require.ErrorIs(t, err, env.ErrOption, name)
	}
}

// TestNoTurnPaysMoreThanItCosts without state pay, and a hole costs more than all turns.
func TestNoTurnPaysMoreThanItCosts(t *testing.T) {
	w := world(0)
	number := func(name string) float64 {
		x, ok := w[name].(float64)
		require.True(t, ok, name)
		return x
	}
	turn := number("turn_cost") - number("format_reward")
	require.Positive(t, turn)
	require.Greater(t, number("hole_penalty"), turn*float64(published().turns))
}

// TestWholeEpisodesTeachValues: every response token of a batch has the same weight, and the
// sum of the rewards from it on as its return.
func TestWholeEpisodesTeachValues(t *testing.T) {
	episode := func(rewards ...float64) *rollout.Trajectory {
		tr := &rollout.Trajectory{Rows: make([]rollout.Row, 1)}
		row := &tr.Rows[0].Sequence
		require.NoError(t, row.AppendContext(mask.Prompt, 1, 2))
		for k, r := range rewards {
			if k > 0 {
				require.NoError(t, row.AppendContext(mask.Observation, 3))
			}
			require.NoError(t, row.AppendResponse(4, 5))
			tr.Turns = append(tr.Turns, rollout.Turn{Reward: reward.Parts{{Name: "all", Value: r}}})
		}
		return tr
	}
	b, err := valued([]*rollout.Trajectory{episode(1, 2), episode(8)})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 4, 5, 3, 4, 5, 1, 2, 4, 5}, b.Tokens)
	require.Equal(t, []int{0, 7, 11}, b.Offsets)
	require.Equal(t, []float32{3, 3, 3, 3, 2, 2, 2, 8, 8, 8, 8}, b.Returns)
	sixth := float32(1) / 6
	require.Equal(t, []float32{0, 0, sixth, sixth, 0, sixth, sixth, 0, 0, sixth, sixth}, b.Weight)
	require.Equal(t, []float32{0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1}, b.Advantages)

	_, err = valued([]*rollout.Trajectory{{}})
	require.ErrorContains(t, err, "has 0 rows")
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{"-seeds 1": "-seeds is 1, must be 2 or more", "now": "only flags are allowed", "-seed 3": "not defined: -seed"} {
		var said bytes.Buffer
		_, err := parse(strings.Fields(args), &said)
		require.Error(t, err)
		require.Contains(t, said.String(), want)
	}
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{seeds: 5, out: filepath.Join("runs", "ablation"), report: filepath.Join("docs", "ablation.md"), backend: "auto"}, o)
}
