package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// stale is ahead with a run.max_staleness.
func stale(c config.Config, n int) config.Config {
	c = ahead(c)
	c.Run.MaxStaleness = n
	return c
}

// TestTheNumberOfAStepDecidesWhichPolicyPlaysIt: step s is played by the policy after step
// s-1-N, the first steps by the policy at the start, and the metrics say how old it was.
func TestTheNumberOfAStepDecidesWhichPolicyPlaysIt(t *testing.T) {
	const steps = 6
	for n := 1; n <= config.MaxStaleness; n++ {
		c := stale(traintest.Small(), n)
		c.Trainer.Steps = steps
		b := traintest.Guesser()
		j := traintest.Run(t, c, b)
		perStep := len(b.Updates) / steps
		var want []int
		for s := 2; s <= steps; s++ {
			want = append(want, perStep*max(0, s-1-n))
		}
		require.Equal(t, want, b.SnapshotsAt, "one copy for each step, in their order, before the update of a step")
		require.Equal(t, steps-1, b.SnapshotsClosed)
		require.Len(t, b.Seeds, 8*2, "the learner itself plays the first step alone")
		for i, e := range j.Steps() {
			age := float64(min(i, n))
			require.Equal(t, []float64{age, age},
				[]float64{e.Metrics["rollout/staleness_mean"], e.Metrics["rollout/staleness_max"]}, "N = %d, step %d", n, e.Step)
			off := e.Metrics["rollout_corr/rollout_is_max"] - 1 // float32 rounds what was sampled
			require.Equal(t, i > 0, off > 1e-3, "step %d: %v", e.Step, off)
		}
	}
	require.NotContains(t, traintest.Run(t, traintest.Small(), traintest.Guesser()).Steps()[0].Metrics,
		"rollout/staleness_mean", "all are of the current policy")
}

// TestOldEpisodesRepeatThemselves: however long collections and updates take, and with any
// number of workers and processors, the results are bit-identical.
func TestOldEpisodesRepeatThemselves(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		for _, harness := range []string{"concat", "compact", "no_concat", "window"}[:2+2/n] {
			play := func(workers int, slow func()) ([]map[string]uint64, []traintest.Update) {
				c := stale(traintest.Split(harness), n)
				c.Run.Workers, c.Trainer.Steps = workers, 6
				b := traintest.Guesser()
				b.OnGenerate = func(context.Context) error { slow(); return nil }
				b.Alter = func(*policy.Batch, *policy.Stats) error { slow(); return nil }
				j := traintest.Run(t, c, b)
				return traintest.Untimed(j), b.Updates
			}
			metrics, updates := play(1, func() {})
			require.NotEqual(t, updates[0].Batch.OldLogProbs, updates[len(updates)-1].Batch.OldLogProbs, "it learns")
			for _, on := range []struct{ workers, procs int }{{2, 1}, {8, 2}} {
				before := runtime.GOMAXPROCS(on.procs)
				m, u := play(on.workers, func() { time.Sleep(rand.N(time.Millisecond)) })
				require.Equal(t, metrics, m, "N = %d, %s: %+v", n, harness, on)
				require.Equal(t, updates, u)
				runtime.GOMAXPROCS(before)
			}
		}
	}
}

// TestSeveralStepsAreCollectedAtTheSameTime: the episodes of all steps ahead are played
// while an update runs, not one step after the other.
func TestSeveralStepsAreCollectedAtTheSameTime(t *testing.T) {
	c := stale(traintest.Small(), 3)
	c.Trainer.Steps = 6
	b := traintest.Guesser()
	var playing atomic.Int32
	all := make(chan struct{})
	first := true
	b.Alter = func(*policy.Batch, *policy.Stats) error {
		if first {
			first = false
			<-all // three collections that wait for each other would block here for ever
		}
		return nil
	}
	tr, _ := traintest.Trainer(t, c, b, nil)
	learner := true
	b.OnGenerate = func(context.Context) error {
		if learner { // the two turns of the first step, before there are copies
			if len(b.Seeds) == 8 {
				learner = false
			}
			return nil
		}
		if playing.Add(1) == 3 {
			close(all)
		}
		<-all
		return nil
	}
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 5, b.SnapshotsClosed)
}

// TestOldEpisodesResumeFromEveryCheckpoint: the episodes of all steps ahead, ReMax's greedy
// episodes included, are part of a checkpoint.
func TestOldEpisodesResumeFromEveryCheckpoint(t *testing.T) {
	t.Parallel()
	remax := brisk()
	remax.Algorithm.Estimator = "remax"
	for n, all := range map[int]map[string]config.Config{
		1: {"remax": stale(remax, 1)}, 2: {"bi_level_gae": stale(brisk(), 2)}, 3: {"remax": stale(remax, 3)},
	} {
		for name, c := range all {
			whole, _ := requireResumesAfterEveryEvent(t, fmt.Sprintf("%s: N = %d", name, n), c, asItIs)
			held := filepath.Join(whole, "checkpoints", "step_4", "ahead")
			last := filepath.Join(held, "episodes.parquet")
			require.FileExists(t, last)
			if n > 1 {
				last = filepath.Join(held, "episodes_6.parquet")
				require.FileExists(t, last)
			}
			p, err := run.OpenCheckpoint(t.Context(), filepath.Dir(held))
			require.NoError(t, err)
			require.Len(t, p.State.Prefetched, min(n, 2), "there are six steps")
			for i, e := range p.State.Prefetched {
				require.Equal(t, []int{5 + i, 4 + i - n}, []int{e.Step, e.Policy})
				require.NotEmpty(t, e.Episodes)
			}
			require.NoDirExists(t, filepath.Join(whole, "checkpoints", "step_6", "ahead"), "no step comes after the last one")
			require.NoError(t, os.Remove(last))
			_, err = run.OpenCheckpoint(t.Context(), filepath.Dir(held))
			require.ErrorIs(t, err, run.ErrTorn)
		}
	}
}

// TestAnInterruptedRunSavesItselfAndLeavesNoTrace cancels a run in every phase of its steps, without episodes that wait
// and with them. Completed steps are saved, with the episodes of the steps ahead, and the final files do not show the
// interruption.
func TestAnInterruptedRunSavesItselfAndLeavesNoTrace(t *testing.T) {
	for staleness := range 4 {
		t.Run(fmt.Sprint("staleness ", staleness), func(t *testing.T) {
			t.Parallel()
			c := childRun(staleness)
			c.Trainer.Steps = 6
			whole := filepath.Join(t.TempDir(), "whole")
			require.NoError(t, trainIn(t.Context(), whole, c, nil))
			want := traintest.Files(t, whole)
			for _, phase := range []string{"collect", "score", "update"} {
				t.Run(phase, func(t *testing.T) { interruptRuns(t, c, staleness, phase, want) })
			}
		})
	}
}

func interruptRuns(t *testing.T, c config.Config, staleness int, phase string, want map[string]string) {
	for call := 1; staleness == 0 || call <= 9; call += 2 {
		dir := filepath.Join(t.TempDir(), "run")
		ctx, cancel := context.WithCancel(t.Context())
		var calls, reached atomic.Int32
		err := trainIn(ctx, dir, c, func(tr *train.Trainer) {
			b := tr.Learner.(*traintest.Bandit)
			act := func(done int) error {
				if calls.Add(1) == int32(call) {
					reached.Store(int32(done))
					cancel()
				}
				return ctx.Err()
			}
			switch phase {
			case "collect":
				b.OnGenerate = func(context.Context) error {
					if staleness > 0 { // in the last collection the run may still end, and others know no step
						return act(0)
					}
					return act(tr.Done())
				}
			case "score":
				b.OnScore = func(context.Context) error { return act(tr.Done()) }
			case "update": // continues
				b.Alter = func(*policy.Batch, *policy.Stats) error { _ = act(tr.Done() + 1); return nil }
			}
		})
		cancel()
		if calls.Load() < int32(call) {
			require.NoError(t, err)
			break
		}
		if staleness == 0 || phase != "collect" {
			require.ErrorIs(t, err, context.Canceled, "call %d", call)
		}
		if reached.Load() > 0 {
			p, err := (&run.Checkpoints{Dir: filepath.Join(dir, "checkpoints")}).Latest(t.Context())
			require.NoError(t, err, "call %d", call)
			require.EqualValues(t, reached.Load(), p.State.Step, "call %d: no completed work is lost", call)
			require.Len(t, p.State.Prefetched, min(staleness, c.Trainer.Steps-p.State.Step))
		}
		require.NoError(t, trainIn(t.Context(), dir, c, nil), "call %d", call)
		require.Equal(t, want, traintest.Files(t, dir), "call %d", call)
	}
}

// TestARollbackDropsTheEpisodesAhead: they are cancelled, also those that are being collected,
// and the steps after the rollback begin with episodes of the restored policy.
func TestARollbackDropsTheEpisodesAhead(t *testing.T) {
	c := stale(brisk(), 2)
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "rollback",
		MaxRollbacks: 2}
	var first map[string]string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "run")
		var b *traintest.Bandit
		require.NoError(t, trainIn(t.Context(), dir, c, func(tr *train.Trainer) {
			b = tr.Learner.(*traintest.Bandit)
			spiked := false
			b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
				s.GradNorm = 1
				if tr.Done() == 3 && !spiked {
					spiked, s.GradNorm = true, 1e6
				}
				return nil
			}
		}))
		require.Equal(t, len(b.SnapshotsAt), b.SnapshotsClosed, "every copy is closed")
		got := traintest.Files(t, dir)
		if first == nil {
			first = got
		}
		require.Equal(t, first, got, "it repeats itself")
		var ages []float64
		for _, line := range lines(t, got["metrics.jsonl"]) {
			if line["kind"] == track.KindStep {
				ages = append(ages, line["rollout/staleness_max"].(float64))
			}
		}
		require.Equal(t, []float64{0, 1, 0, 1, 2, 2}, ages, "steps 1 and 2, and 3 to 6 after the rollback to step 2")
	}
}

// lines reads a file of JSON lines.
func lines(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		m := map[string]any{}
		require.NoError(t, d.Decode(&m))
		out = append(out, m)
	}
	return out
}

// TestFailuresOfOneOfSeveralCollectionsEndTheRun, as those of an update do, and all others have ended when Run returns.
func TestFailuresOfOneOfSeveralCollectionsEndTheRun(t *testing.T) {
	c := stale(traintest.Small(), 3)
	c.Trainer.Steps = 9
	incomplete := 0
	for fail := int32(2); fail < 12; fail++ {
		b := traintest.Guesser()
		if fail == 2 {
			b.Alter = func(*policy.Batch, *policy.Stats) error { return traintest.ErrBroken }
		}
		tr, _ := traintest.Trainer(t, c, b, nil)
		var calls atomic.Int32
		b.OnGenerate = func(context.Context) error {
			if calls.Add(1) == fail && fail > 2 { // two turns are the first step's
				return traintest.ErrBroken
			}
			return nil
		}
		require.ErrorIs(t, tr.Run(t.Context()), traintest.ErrBroken)
		require.Equal(t, len(b.SnapshotsAt), b.SnapshotsClosed, "every snapshot is closed")
		if fail == 2 {
			require.Zero(t, tr.Done())
			continue
		}
		if s, err := tr.State(); err != nil {
			incomplete++
			testkit.Error(t, err, train.ErrIncompleteState, fmt.Sprintf("state after step %d", tr.Done()))
		} else {
			require.Equal(t, tr.Done(), s.Step, "nothing that belongs to it was cancelled")
		}
	}
	require.Positive(t, incomplete)
}

// TestARunThatStopsEarlyHasACompleteState, so that it can resume with more patience.
func TestARunThatStopsEarlyHasACompleteState(t *testing.T) {
	c := stale(traintest.Small(), 3)
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.SaveFreq = 9, 1, -1
	c.Stability.Early = config.EarlyConfig{Metric: "val/success", Patience: 2, MinDelta: 10}
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	require.NoError(t, tr.Run(t.Context()))
	require.Less(t, tr.Done(), 6)
	s, err := tr.State()
	require.NoError(t, err)
	require.Len(t, s.Prefetched, 3)
	for i, p := range s.Prefetched {
		require.Equal(t, s.Step+1+i, p.Step)
		require.Len(t, p.Episodes, 8)
	}
}

// TestPrefetchedStepsAreReadAsEarlierVersionsWroteThem: one step with a staleness of one is an
// object without the key policy.
func TestPrefetchedStepsAreReadAsEarlierVersionsWroteThem(t *testing.T) {
	one := train.PrefetchedSteps{{Step: 4, Policy: 2, Metrics: track.Metrics{"a": 1}, Baselines: map[int]float64{0: 2}}}
	for text, s := range map[string]train.PrefetchedSteps{
		`{"step":4,"metrics":{"a":1},"baselines":{"0":2}}`: one,
		`{"step":4,"policy":0,"metrics":{}}`: {{Step: 4, Policy: 0,
			Metrics: track.Metrics{}}},
		`[{"step":4,"policy":1,"metrics":{}},{"step":5,"policy":2,"metrics":{}}]`: {{Step: 4, Policy: 1,
			Metrics: track.Metrics{}}, {Step: 5, Policy: 2, Metrics: track.Metrics{}}},
	} {
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, text, string(raw))
		back := testkit.JSON[train.PrefetchedSteps](t, raw)
		require.Equal(t, s, back)
	}
	require.Error(t, json.Unmarshal([]byte(`{"step":"x"}`), new(train.PrefetchedSteps)))
	for want, s := range map[string]train.PrefetchedSteps{
		"for step 3":                                               {{Step: 3}},
		"must be for step 5, but is for step 6":                    {{Step: 4, Policy: 2}, {Step: 6, Policy: 2}},
		"those for step 4 are from one of step 4":                  {{Step: 4, Policy: 4}},
		"must be from a policy of a step in [0, 3], but those for": {{Step: 4, Policy: -1}},
	} {
		err := new(train.Trainer).Restore(train.State{Step: 3, Prefetched: s})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "train: ")
	}
}

// TestTooOldEpisodesOfAStateAreNotUsed: those that the limit does not allow are played again.
func TestTooOldEpisodesOfAStateAreNotUsed(t *testing.T) {
	c := stale(traintest.Small(), 1)
	c.Trainer.Steps = 5
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	require.NoError(t, tr.Restore(train.State{Step: 3,
		Prefetched: train.PrefetchedSteps{{Step: 4, Policy: 0, Metrics: track.Metrics{}}}}))
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 0.0, j.Steps()[0].Metrics["rollout/staleness_max"])
}
