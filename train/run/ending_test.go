package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// exported is a learner whose checkpoints have a policy.
type exported struct{ *traintest.Bandit }

func (e exported) Save(ctx context.Context, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "actor"), 0o755); err != nil {
		return err
	}
	if err := e.Bandit.Save(ctx, filepath.Join(dir, "actor")); err != nil {
		return err
	}
	return e.Bandit.Save(ctx, dir)
}

// TestTheEndOfARunIsExported, whether it has done all its steps or stops early.
func TestTheEndOfARunIsExported(t *testing.T) {
	for _, early := range []bool{false, true} {
		o := guessing(t)
		o.Learner = func(context.Context, string) (policy.Learner, error) { return exported{traintest.Guesser()}, nil }
		c := traintest.Small()
		often, last := 100, "hf/step_4"
		c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq, c.Hub.Freq = 4, 1, 1, &often
		if early {
			c.Agent.Actor.Optim.Rate, last = 0, "hf/step_2" // nothing is learned
			c.Stability.Early = config.EarlyConfig{Metric: "val/score", Patience: 1}
		}
		r, err := Open(t.Context(), c, o)
		require.NoError(t, err)
		require.NoError(t, r.Train(t.Context()))
		require.NoError(t, r.Close())
		require.FileExists(t, filepath.Join(o.Dir, last, "hf_model", "table.json"))
		exports, err := os.ReadDir(filepath.Join(o.Dir, "hf"))
		require.NoError(t, err)
		require.Len(t, exports, 1)
	}
}

// ended is a sink that records the end of its run.
type ended struct {
	*traintest.Journal
	errs []error
}

func (e *ended) Ended(err error) { e.errs = append(e.errs, err) }

// TestSinksGetTheErrorOfARunThatDoesNotBegin, here because its checkpoint's state is impossible.
func TestSinksGetTheErrorOfARunThatDoesNotBegin(t *testing.T) {
	o, e := guessing(t), &ended{Journal: &traintest.Journal{}}
	o.Sinks = []track.Sink{e}
	r, err := Open(t.Context(), traintest.Small(), o)
	require.NoError(t, err)
	r.from = &Checkpoint{State: train.State{Step: -1}}
	err = r.Train(t.Context())
	require.ErrorContains(t, err, "step -1")
	require.Equal(t, []error{err}, e.errs)
	require.NoError(t, r.Close())
}

// TestASpikeOfTheSupervisedStageGetsOtherExamples.
func TestASpikeOfTheSupervisedStageGetsOtherExamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	var file strings.Builder
	for i := range 32 {
		fmt.Fprintf(&file, `{"prompt":"question %d","response":"1"}`+"\n", i)
	}
	testkit.Write(t, path, file.String())
	c := config.Default()
	c.Trainer.Stage, c.SFT.TrainFiles = config.StageSFT, []string{path}
	c.SFT.Batch, c.SFT.Steps, c.SFT.TestFreq, c.SFT.ValFraction, c.SFT.SaveFreq = 4, 4, 0, 0, 2
	c.Stability.Spike = config.SpikeConfig{Metric: "sft/grad_norm", Window: 4, Deviations: 20, Action: "rollback",
		MaxRollbacks: 1}
	b := traintest.Guesser()
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
		s.GradNorm = 1
		if len(b.Updates) == 3 {
			s.GradNorm = math.Inf(1)
		}
		return nil
	}
	o := guessing(t)
	o.Learner = func(context.Context, string) (policy.Learner, error) { return b, nil }
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, errors.Join(r.Train(t.Context()), r.Close()))
	require.Len(t, b.Updates, 5, "the third step is done twice")
	require.NotEqual(t, b.Updates[2].Batch.Tokens, b.Updates[3].Batch.Tokens)
}

// TestASpikeBeforeTheFirstSaveReturnsToTheCheckpointOfAnotherRun.
func TestASpikeBeforeTheFirstSaveReturnsToTheCheckpointOfAnotherRun(t *testing.T) {
	o := guessing(t)
	c := traintest.Small()
	c.Trainer.Steps, c.Trainer.SaveFreq = 2, 2
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, errors.Join(r.Train(t.Context()), r.Close()))

	c.Trainer.ResumeMode, c.Trainer.ResumeFrom, c.Trainer.AllowChange = "resume_path", r.points.path(2), true
	c.Trainer.Steps, c.Trainer.SaveFreq = 5, 5
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "rollback",
		MaxRollbacks: 1}
	o.Dir = filepath.Join(t.TempDir(), "next")
	episodes := filepath.Join(t.TempDir(), "episodes")
	c.Trainer.RolloutDir = &episodes
	b, j := traintest.Guesser(), &traintest.Journal{}
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
		if len(*j) == 2 { // the save is repeated, and one step was done
			s.GradNorm = math.Inf(1)
		}
		if len(*j) == 4 { // step 3 again
			require.NoFileExists(t, filepath.Join(episodes, "step_4.parquet"))
		}
		return nil
	}
	o.Learner = func(context.Context, string) (policy.Learner, error) { return b, nil }
	o.Sinks = []track.Sink{j}
	r, err = Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, errors.Join(r.Train(t.Context()), r.Close()))
	require.Equal(t, "save 2,step 3,step 4,rollback 2,step 3,step 4,step 5,save 5", strings.Join(j.Kinds(), ","))
}
