package run

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/evaluation"
	"vagen/train/proof"
	"vagen/train/rundir"
	"vagen/train/track"
)

// taughtRun is tinyRun after a supervised stage of six steps on lessons.
func taughtRun(t *testing.T, stage string) config.Config {
	t.Helper()
	c := tinyRun("concat")
	c.Agent.Model.Path = tinymodel.Create(t, tinymodel.Shape(), lakeWords, 3)
	c.Trainer.Stage, c.Rollout.MaxTurns = stage, 2
	s := &c.SFT
	s.Lessons.Teacher, s.Lessons.Episodes, s.Lessons.Noise = "shortest_path", 12, 0.3
	s.Batch, s.Steps, s.TestFreq, s.SaveFreq, s.ValFraction = 4, 6, 3, 2, 0.2
	s.Optim.Rate, s.Optim.Style = 2e-2, "constant"
	return c
}

// leaves are the files of a folder, without times and what depends on the folder's name.
func leaves(t *testing.T, dir string) map[string]string {
	t.Helper()
	return traintest.Files(t, dir, proof.FileName, ".lock", "curve.png", rundir.ConfigName, rundir.ManifestName,
		"adapter_config.json")
}

// stopping cancels a context after a step of the supervised stage.
func stopping(step int, cancel context.CancelFunc) track.Sink {
	return track.SinkFunc(func(e track.Event) error {
		if _, ok := e.Metrics["sft/loss"]; ok && e.Step == step {
			cancel()
		}
		return nil
	})
}

func execute(ctx context.Context, c config.Config, o Options) error {
	r, err := Open(ctx, c, o)
	if err != nil {
		return err
	}
	if err := r.Train(ctx); err != nil {
		r.Close()
		return err
	}
	return r.Close()
}

// TestAnInterruptedSupervisedStageEndsWithTheSameBytes, with weights and with adapters; the
// held-out loss falls.
func TestAnInterruptedSupervisedStageEndsWithTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, rank := range []int{0, 2} {
		c := taughtRun(t, config.StageSFT)
		c.Agent.Model.LoRARank = rank
		whole, parts := t.TempDir(), t.TempDir()
		require.NoError(t, execute(t.Context(), c, Options{Dir: filepath.Join(whole, "run")}))
		for _, step := range []int{2, 5} {
			ctx, cancel := context.WithCancel(t.Context())
			require.ErrorIs(t, execute(ctx, c, Options{Dir: filepath.Join(parts, "run"), Sinks: []track.Sink{stopping(step,
				cancel)}}), context.Canceled)
			cancel()
		}
		require.NoError(t, execute(t.Context(), c, Options{Dir: filepath.Join(parts, "run"), MustResume: true}))
		want := leaves(t, filepath.Join(whole, "run"))
		require.Equal(t, want, leaves(t, filepath.Join(parts, "run")), "rank %d", rank)
		require.Contains(t, want, "checkpoints/step_6/state.json")
		var losses []float64
		for e, err := range rundir.Dir(filepath.Join(whole, "run")).Events {
			require.NoError(t, err)
			if x, ok := e.Metrics["sft/val_loss"]; ok {
				losses = append(losses, x)
			}
		}
		require.Len(t, losses, 3)
		require.Less(t, losses[2], losses[0], "rank %d", rank)
		_, _, err := evaluation.ModelAt(filepath.Join(whole, "run", "checkpoints", "step_6", "actor"), "")
		require.NoError(t, err, "vagen train can start from it")
		report, err := proof.Verify(t.Context(), filepath.Join(whole, "run"))
		require.NoError(t, err)
		require.Empty(t, report.Faults())
	}
}

// TestBothStagesAreOneCommand: reinforcement learning starts from the result of the supervised
// stage; interrupted in either stage, the run ends with the same bytes.
func TestBothStagesAreOneCommand(t *testing.T) {
	t.Parallel()
	c := taughtRun(t, config.StageSFTThen)
	c.Agent.Model.LoRARank, c.Agent.Actor.UseKLLoss = 2, true
	dir := t.TempDir()
	p, err := Check(t.Context(), c, Options{Dir: filepath.Join(dir, "run")})
	require.NoError(t, err)
	require.Equal(t, 10, p.Rows)
	require.Equal(t, 2, p.Steps)
	require.NoDirExists(t, filepath.Join(dir, "run"))
	o := Options{Dir: filepath.Join(dir, "run")}
	require.NoError(t, execute(t.Context(), c, o))
	want := leaves(t, o.Dir)
	for _, name := range []string{"sft/metrics.jsonl", "sft/checkpoints/step_6/state.json", "sft/model/config.json",
		"sft/model/model.safetensors", "checkpoints/step_2/actor/adapter_model.safetensors"} {
		require.Contains(t, want, name)
	}
	require.NotContains(t, want, "sft/model/adapter_model.safetensors", "adapters are merged in")
	run, err := config.Load(filepath.Join(o.Dir, "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, config.StageRL, run.Trainer.Stage)
	require.Equal(t, filepath.Join(o.Dir, "sft", "model"), run.Agent.Model.Path)
	ctx, cancel := context.WithCancel(t.Context())
	again := o
	again.Sinks = []track.Sink{stopping(1, cancel)}
	r, err := Open(ctx, c, again)
	require.NoError(t, err, "no step of the supervised stage is repeated")
	require.Equal(t, 2, r.Done())
	require.NoError(t, r.Close())
	cancel()

	parts := Options{Dir: filepath.Join(t.TempDir(), "run")}
	ctx, cancel = context.WithCancel(t.Context())
	stopped := parts
	stopped.Sinks = []track.Sink{stopping(3, cancel)}
	_, err = Open(ctx, c, stopped)
	require.ErrorIs(t, err, context.Canceled)
	cancel()
	require.NoFileExists(t, filepath.Join(parts.Dir, "config.yaml"))
	parts.MustResume = true
	require.NoError(t, execute(t.Context(), c, parts))
	require.Equal(t, want, leaves(t, parts.Dir))
}

// TestStagesAreCheckedBeforeTheFirstBegins.
func TestStagesAreCheckedBeforeTheFirstBegins(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "run")}
	for want, set := range map[string]string{
		"env: ":                                  "env.config.no_such_option=1",
		"must be one of shortest_path":           "sft.lessons.teacher=wizard",
		"actor_rollout_ref.model.path":           "actor_rollout_ref.model.path=nowhere",
		"lora_adapter_path is set":               "actor_rollout_ref.model.lora_adapter_path=adapter",
		"trainer.harness is window: lessons are": "trainer.harness=window rollout_manager.window_size=2",
	} {
		c := taughtRun(t, config.StageSFTThen)
		traintest.Set(t, &c, set)
		_, err := Open(t.Context(), c, o)
		testkit.Error(t, err, config.ErrConfig, want)
		require.NoFileExists(t, filepath.Join(o.Dir, "config.yaml"))
	}
	c := taughtRun(t, config.StageSFTThen)
	_, err := Open(t.Context(), c, Options{Dir: o.Dir, Learner: func(context.Context, string) (policy.Learner, error) {
		return nil, nil
	}})
	require.ErrorContains(t, err, "the learner is the caller's")
	require.False(t, strings.Contains(err.Error(), "supervised stage:"))
}
