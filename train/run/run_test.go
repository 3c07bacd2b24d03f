package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/track"
	"vagen/train/track/curve"
	"vagen/train/track/curve/plot"
)

func TestModelsFollowTheConfiguration(t *testing.T) {
	c := config.Default()
	require.Equal(t, vlm.Options{Backend: "auto", Devices: vlm.AllDevices, Recompute: vlm.RecomputeNothing,
		Critic: vlm.SeparateCritic, CompileCache: vlm.CompileCacheAuto,
		RolloutDType: vlm.RolloutFloat32}, ModelOptions(&c, nil))
	for _, change := range []func(){func() { c.Algorithm.KLInReward = true }, func() { c.Agent.Actor.UseKLLoss = true }} {
		c = config.Default()
		change()
		require.True(t, ModelOptions(&c, nil).Reference, "a KL term needs the initial policy")
	}
	c.Run.Seed, c.Critic.Model.Path, c.Model.BFloat16, c.Model.CompileCache = 7, "critic", true, "/kept"
	o := ModelOptions(&c, nil)
	require.Equal(t, []any{uint64(7), "critic", true, "/kept"}, []any{o.Seed, o.CriticPath, o.BFloat16, o.CompileCache})
	without := c
	without.Critic.Kind = "none"
	require.Empty(t, ModelOptions(&without, nil).CriticPath, "the path of a critic that is off")
	c.Agent.Model = config.AgentModelConfig{LoRARank: 8, LoRAAlpha: 32, Targets: []string{"q_proj"}}
	c.Agent.Actor.Freeze = true
	o = ModelOptions(&c, nil)
	require.Equal(t, &vlm.LoRA{Rank: 8, Alpha: 32, Targets: []string{"q_proj"}}, o.LoRA)
	require.Equal(t, []string{"model.visual.*"}, o.Freeze)
	c.Agent.Model = config.AgentModelConfig{Adapter: "stored"}
	require.Equal(t, "stored", ModelOptions(&c, nil).Adapter)
	c.Agent.Model = config.AgentModelConfig{LoRARank: 8, LoRAAlpha: 32, Targets: []string{"all-linear"}}
	require.Empty(t, ModelOptions(&c, nil).LoRA.Targets, "all of the decoder")
	c.Model.PerCall, c.Model.DraftTokens = 2, 3
	o = ModelOptions(&c, nil)
	require.Equal(t, []int{2, 3}, []int{o.TokensPerCall, o.DraftTokens})
	served := c
	served.Agent.Rollout.Engine.Addresses = []string{"http://h:1"}
	o = ModelOptions(&served, nil)
	require.Zero(t, o.TokensPerCall+o.DraftTokens, "servers generate, so no model is refused for them")
	offloads := func() []bool {
		o := ModelOptions(&c, nil)
		return []bool{o.OffloadMoments, o.OffloadReference, o.OffloadCriticMoments, o.OffloadCritic}
	}
	require.Equal(t, []bool{false, false, false, false}, offloads())
	c.Agent.Actor.UseKLLoss = false
	c.Critic.Model.FSDP.ParamOffload = true
	c.Agent.Actor.FSDP.OptimizerOffload, c.Agent.Ref.FSDP.ParamOffload, c.Critic.Model.FSDP.OptimizerOffload = true, true,
		true
	require.Equal(t, []bool{true, false, true, true}, offloads(), "there is no reference")
	c.Agent.Actor.UseKLLoss, c.Critic.Kind = true, "shared"
	require.Equal(t, []bool{true, true, false, false}, offloads(), "the policy's moments are those of a shared critic")
	c.Data.Template = map[string]any{"enable_thinking": false}
	require.Equal(t, c.Data.Template, ModelOptions(&c, nil).Template)
}

func TestMicroBatchesAreSizedByRowsOrByTokens(t *testing.T) {
	type sizes struct{ tokens, rows, criticTokens, criticRows int }
	for _, x := range []struct {
		overrides []string
		want      sizes
	}{
		{nil, sizes{}},
		{[]string{"model.micro_tokens=99"}, sizes{tokens: 99}},
		{[]string{"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"}, sizes{rows: 2}},
		{[]string{"actor_rollout_ref.actor.ppo_micro_batch_size=2", "critic.ppo_micro_batch_size=3"},
			sizes{rows: 2, criticRows: 3}},
		{[]string{"actor_rollout_ref.actor.use_dynamic_bsz=true"}, sizes{tokens: 16384, criticTokens: 32768}},
		{[]string{"actor_rollout_ref.actor.use_dynamic_bsz=true", "actor_rollout_ref.actor.ppo_micro_batch_size=2",
			"critic.use_dynamic_bsz=false", "critic.ppo_micro_batch_size=3"}, sizes{tokens: 16384, criticRows: 3}},
		{[]string{"actor_rollout_ref.actor.use_dynamic_bsz=true", "critic.kind=shared"}, sizes{tokens: 16384}},
	} {
		c, err := config.Load("", append(x.overrides, "env=x")...)
		require.NoError(t, err)
		o := ModelOptions(&c, nil)
		require.Equal(t, x.want, sizes{o.MicroTokens, o.MicroRows, o.CriticMicroTokens, o.CriticMicroRows}, "%v", x.overrides)
	}
}

func TestEventsOfARunGoToItsFolder(t *testing.T) {
	var console bytes.Buffer
	o := guessing(t)
	o.Curve, o.Console = curve.Curve{Title: "title"}, &console
	c := traintest.Small()
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	for _, s := range r.Sinks {
		require.NoError(t, s.Event(track.Event{Kind: "validate", Step: 0, Total: 1,
			Metrics: track.Metrics{"val/success": 0.25}}))
		require.NoError(t, s.Event(track.Event{Kind: "validate", Step: 1, Total: 1,
			Metrics: track.Metrics{"val/success": 0.75}}))
	}
	require.NoError(t, r.Close())
	first, last := r.Curve.Ends()
	require.Equal(t, []float64{0.25, 0.75}, []float64{first, last})
	require.Contains(t, console.String(), "success 0.75")
	require.Contains(t, testkit.Text(t, filepath.Join(r.Folder.Path, "metrics.jsonl")), `"val/success":0.75`)

	o.Learner = func(context.Context, string) (policy.Learner, error) {
		return struct{ policy.Learner }{traintest.Guesser()}, nil // without Restore
	}
	_, err = Open(t.Context(), c, o)
	require.ErrorIs(t, err, ErrExists)
	o.Dir, o.MustResume = filepath.Join(t.TempDir(), "none"), true
	_, err = Open(t.Context(), c, o)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// guessing are options with a learner and an environment of tests, and a new folder.
func guessing(t *testing.T) Options {
	t.Helper()
	return Options{
		Dir: filepath.Join(t.TempDir(), "run"), Envs: new(traintest.Arena).Registry(t),
		Learner: func(context.Context, string) (policy.Learner, error) { return traintest.Guesser(), nil },
	}
}

// TestPartsOfOnesOwnAreUsed: the run uses a learner, an environment, a sink and a harness
// that are given to Open.
func TestPartsOfOnesOwnAreUsed(t *testing.T) {
	o := guessing(t)
	var learner *traintest.Bandit
	o.Learner = func(_ context.Context, dir string) (policy.Learner, error) {
		require.Equal(t, o.Dir, dir)
		require.FileExists(t, filepath.Join(dir, "config.yaml"))
		learner = traintest.Guesser()
		return learner, nil
	}
	journal := &traintest.Journal{}
	o.Sinks, o.DrawCurve = []track.Sink{journal}, plot.PNG
	c := traintest.Small()
	c.Trainer.Steps, c.Trainer.SaveFreq = 2, -1
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context()))
	require.NoError(t, r.Close())
	require.NotEmpty(t, learner.Updates)
	require.Len(t, journal.Steps(), 2)
	require.FileExists(t, filepath.Join(o.Dir, "curve.png"))
}

// A run records the sum of the kernels it begins with, and resumes with the same ones only. One that measured kernels
// resumes with the file that it wrote, and is bound to it from then on. A second stage was started with a file, or
// measured with the first one.
func TestARunResumesWithItsKernels(t *testing.T) {
	o := guessing(t)
	c := traintest.Small()
	c.Trainer.Steps, c.Model.Backend, c.Model.Autotune = 1, "cuda", filepath.Join(t.TempDir(), "kernels.txt")
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, appendix B.1
	for _, sums := range [][]string{{"", abc, abc}, {abc, abc}} {
		o.Dir = filepath.Join(t.TempDir(), "run")
		for _, want := range sums {
			r, err := Open(t.Context(), c, o)
			require.NoError(t, err)
			require.Equal(t, want, r.Config.Model.AutotuneSum)
			m := ModelOptions(&r.Config, nil)
			require.Equal(t, []string{c.Model.Autotune, want}, []string{m.Autotune, m.AutotuneSHA256})
			require.NoError(t, r.Close())
			testkit.Write(t, c.Model.Autotune, "abc")
		}
		testkit.Write(t, c.Model.Autotune, "abd")
		_, err := Open(t.Context(), c, o)
		testkit.Error(t, err, ErrOtherConfig, `model.autotune_sha256: "`+abc)
		testkit.Write(t, c.Model.Autotune, "abc")
	}

	o.measuring, o.Dir = true, filepath.Join(t.TempDir(), "second")
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.Empty(t, r.Config.Model.AutotuneSum, "the file is incomplete until the process ends")
	require.NoError(t, r.Close())

	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		return // the model of the stages below would be opened
	}
	stages := taughtRun(t, config.StageSFTThen)
	stages.Model.Backend, stages.Model.Autotune = "cuda", c.Model.Autotune
	for _, measured := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "run")
		second := stages.Reinforced(filepath.Join(dir, supervisedFolder, resultFolder))
		if !measured {
			require.NoError(t, second.PinAutotune())
		}
		_, err := CreateFolder(dir, &second)
		require.NoError(t, err)
		_, _, err = (&Options{Dir: dir}).checkStages(t.Context(), &stages)
		require.NotErrorIs(t, err, ErrOtherConfig, "measured: %v", measured)
		require.ErrorContains(t, err, "no NVIDIA GPU", "which is checked after the folder; the test needs none")
	}
}

// down is an environment that can be made but not played.
type down struct{ env.Env }

var errDown = errors.New("the service is down")

func (down) System(context.Context) (env.Observation, error) { return env.Observation{}, errDown }
func (down) Close() error                                    { return nil }

func TestPreflightSaysAllThatIsWrong(t *testing.T) {
	c := config.Default()
	c.Env.Name, c.Critic.Model.Path = "lake", "none"
	c.Agent.Actor.UseKLLoss, c.Agent.Ref.Model.Path = true, "lost"
	err := preflightOf(t, &c, builtin.Registry())
	require.ErrorIs(t, err, config.ErrConfig)
	for _, want := range []string{"actor_rollout_ref.model.path is empty", "critic.model.path: none is not a folder",
		"actor_rollout_ref.ref.model.path: lost is not a folder", `"lake"`} {
		require.ErrorContains(t, err, want)
	}

	dir := tinymodel.Create(t, tinymodel.Shape(), nil, 1)
	c.Agent.Model.Path, c.Critic.Model.Path, c.Env.Name, c.Agent.Ref.Model.Path = dir, "", "frozenlake", ""
	require.NoError(t, preflightOf(t, &c, builtin.Registry()))
	for want, change := range map[string]func(c *config.Config){
		"actor_rollout_ref.ref.model.path: vlm: bad option: ReferencePath": func(c *config.Config) {
			other := tinymodel.Shape()
			other.Family = "qwen2"
			c.Agent.Actor.UseKLLoss, c.Agent.Ref.Model.Path = true, tinymodel.Create(t, other, nil, 1)
		},
		"actor_rollout_ref.model.target_modules: vlm: bad option: LoRA": func(c *config.Config) {
			c.Agent.Model = config.AgentModelConfig{Path: dir, LoRARank: 2, LoRAAlpha: 4, Targets: []string{"conv1d"}}
		},
	} {
		changed := c
		change(&changed)
		testkit.Error(t, preflightOf(t, &changed, builtin.Registry()), config.ErrConfig, want)
	}

	var r env.Registry
	require.NoError(t, r.Register("frozenlake", func(map[string]any) (env.Env, error) { return down{}, nil }))
	err = preflightOf(t, &c, &r)
	require.ErrorIs(t, err, errDown)
	require.NotErrorIs(t, err, config.ErrConfig, "nothing is wrong with the configuration")
}

func preflightOf(t *testing.T, c *config.Config, envs *env.Registry) error {
	t.Helper()
	levels, err := openLevels(t.Context(), c, envs, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return Preflight(t.Context(), c, envs, levels)
}
