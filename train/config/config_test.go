package config_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
)

func TestDefaultsNeedAnEnvironmentAndNothingElse(t *testing.T) {
	c := config.Default()
	err := c.Validate()
	require.ErrorIs(t, err, config.ErrConfig)
	require.EqualError(t, err, "bad configuration: env.name is empty")
	c.Env.Name = "frozenlake"
	require.NoError(t, c.Validate())
	got, err := config.Load("", "env.name=frozenlake")
	require.NoError(t, err)
	require.Equal(t, c, got)
}

func TestFilesAndOverridesOverrideTheDefaults(t *testing.T) {
	path := traintest.WriteFile(t,
		"env: {name: sokoban, config: {size: 6}}\nalgorithm.gamma: 0.5\nactor_rollout_ref: {actor: {optim: {lr: 1e-6}, clip_ratio_high: 0.28}}\n")
	got, err := config.Load(path, "env.config.boxes=2", "+algorithm.lam=0.25", "env.name=frozenlake",
		"env.config.deep.er=[a]", "actor_rollout_ref.actor.clip_ratio_high=null")
	require.NoError(t, err)
	want := config.Default()
	want.Env.Name = "frozenlake"
	want.Env.Config = map[string]any{"size": uint64(6), "boxes": uint64(2), "deep": map[string]any{"er": []any{"a"}}}
	want.Algorithm.Gamma, want.Algorithm.Lambda = 0.5, 0.25
	require.Equal(t, want, got)

	require.NoError(t, got.Override("trainer.total_training_steps=7"))
	require.Equal(t, 7, got.Trainer.Steps)
	err = got.Override("trainer.total_steps=7")
	testkit.Error(t, err, config.ErrConfig, `unknown key "trainer.total_steps"`)
}

// TestTheFileOfTheExampleLoads: the file of the package's example.
func TestTheFileOfTheExampleLoads(t *testing.T) {
	c, err := config.Load(traintest.WriteFile(t,
		"env: {name: frozenlake, config: {render_mode: vision}}\nactor_rollout_ref.model.path: /models/Qwen2.5-VL-3B-Instruct\n"))
	require.NoError(t, err)
	require.Equal(t, "/models/Qwen2.5-VL-3B-Instruct", c.Agent.Model.Path)
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "absent.yaml"))
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestAllMistakesAreReportedAtOnce has one of every kind: unknown keys, wrong
// types, ranges, names and contradictions, in the file and in the overrides.
func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	path := traintest.WriteFile(t, `env:
  nam: x
algorithm:
  gama: 0.9
  lam: 1.5
  adv_estimator: maskd_gae
data:
  train_batch_size: many
critic:
  kind: none
trainer:
  critic_warmup: 3
`)
	_, err := config.Load(path, "run.sed=3", "run.waves=0", "oops")
	require.ErrorIs(t, err, config.ErrConfig)
	for _, want := range []string{
		path + ":",
		`line 2: unknown key "env.nam", did you mean "env.name"?`,
		`line 4: unknown key "algorithm.gama", did you mean "algorithm.gamma"?`,
		"line 8: data.train_batch_size is many (string), must be a whole number",
		`unknown key "run.sed", did you mean "run.seed"?`,
		`override "oops" must have the form key=value`,
		"run.waves is 0, must be positive",
		"algorithm.lam is 1.5, must be in [0, 1]",
		`algorithm.adv_estimator: advantage: estimator "maskd_gae": unknown`, `did you mean "masked_gae"?`,
		"env.name is empty",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 1, strings.Count(err.Error(), "bad configuration"), "%v", err)
	_, again := config.Load(path, "run.sed=3", "run.waves=0", "oops")
	require.EqualError(t, again, err.Error(), "in the same order every time")
}

func TestNumbersAreFinite(t *testing.T) {
	c := config.Default()
	c.Env.Name, c.Algorithm.Gamma, c.Agent.Rollout.Temperature = "x", math.NaN(), math.Inf(1)
	require.ErrorContains(t, c.Validate(), "algorithm.gamma is NaN")
	require.ErrorContains(t, c.Validate(), "temperature is +Inf")
}

// TestTemperaturesAreThoseOfASampling: what a policy would refuse is an error before training.
func TestTemperaturesAreThoseOfASampling(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(-1), -1, 0, 1e-12, 1e-9, 1, 1e6, 1.1e6, math.Inf(1)} {
		refused := policy.Sampling{Temperature: x}.Check() != nil
		c := config.Default()
		c.Env.Name = "frozenlake"
		c.Agent.Rollout.Val.Temperature = x
		require.Equal(t, refused, c.Validate() != nil, "validation: %v", x)
		c = config.Default()
		c.Env.Name = "frozenlake"
		c.Agent.Rollout.Temperature = x
		require.Equal(t, refused || x == 0, c.Validate() != nil, "training: %v", x)
	}
}

// TestContradictionsAreRefused makes settings that contradict each other, and then, where the
// table has one, a setting that resolves the contradiction. Those without an error do not contradict each other.
func TestContradictionsAreRefused(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Name, Says, Cure string
		Given, Set       []string
	}](t, "contradictions.yaml") {
		set := slices.Concat([]string{"env.name=x"}, c.Given, c.Set)
		_, err := config.Load("", set...)
		if c.Says == "" {
			require.NoError(t, err, c.Set)
			continue
		}
		testkit.Error(t, err, config.ErrConfig, c.Says)
		require.NotContains(t, err.Error(), "\n", "%s: one mistake, one line", c.Set)
		if c.Cure != "" {
			_, err = config.Load("", append(set, strings.Fields(c.Cure)...)...)
			require.NoError(t, err, "%s: cured", c.Set)
		}
	}
}

// TestLevelsOverlapWhenTheyDo compares the check with counting, in a small world.
func TestLevelsOverlapWhenTheyDo(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	overlaps := 0
	for range 600 {
		c := config.Default()
		c.Env.Name, c.Data.TrainBatch, c.Data.ValBatch, c.Trainer.Steps = "x", 1+r.IntN(3), 1+r.IntN(4), r.IntN(4)
		c.Agent.Actor.MiniBatch = 1
		c.Env.Seed, c.Env.ValSeed = r.Int64N(20)-10, r.Int64N(20)-10
		train := map[int64]bool{}
		for i := range int64(c.Trainer.Steps * c.Data.TrainBatch) {
			train[c.Env.Seed+i] = true
		}
		overlap := false
		for i := range int64(c.Data.ValBatch) {
			overlap = overlap || train[c.Env.ValSeed+i]
		}
		if overlap {
			overlaps++
		}
		require.Equal(t, overlap, c.Validate() != nil, "%+v %+v %+v", c.Env, c.Data, c.Trainer)
	}
	require.Greater(t, overlaps, 60, "both cases occur")
	require.Less(t, overlaps, 540)
	c := config.Default()
	c.Env.Name, c.Env.Seed, c.Env.ValSeed, c.Data.TrainBatch, c.Trainer.Steps = "x", 1<<61, -1<<61, config.MaxEpisodes,
		1<<30
	require.NoError(t, c.Validate(), "no sum overflows")
}

// TestConfigurationsComeBackFromYAML writes configurations of random settings,
// reads them, and compares.
func TestConfigurationsComeBackFromYAML(t *testing.T) {
	for seed := range uint64(50) {
		want := random(rand.New(rand.NewPCG(seed, 1)))
		require.NoError(t, want.Validate(), "seed %d", seed)
		raw, err := want.YAML()
		require.NoError(t, err)
		got, err := config.Load(traintest.WriteFile(t, string(raw)))
		require.NoError(t, err, "%s", raw)
		got.Notes = nil // on settings that the random others leave without effect
		require.Equal(t, want, got)
		again, err := got.YAML()
		require.NoError(t, err)
		require.Equal(t, string(raw), string(again))
	}
	d := config.Default()
	raw, err := d.YAML()
	require.NoError(t, err)
	for _, key := range []string{"\nrollout_manager:", "\nalgorithm:", "  high_level_gamma: 0.99\n",
		"    clip_ratio_low: null\n", "      lr: 1.0e-06\n"} {
		require.Contains(t, string(raw), key)
	}
}

// random is a valid configuration with many settings that differ from their defaults.
func random(r *rand.Rand) config.Config {
	c := config.Default()
	flip := func() bool { return r.IntN(2) == 0 }
	c.Run = config.RunConfig{Seed: r.Uint64(), Workers: 1 + r.IntN(64), Waves: 1 + r.IntN(4), MaxStaleness: 1}
	c.Env = config.EnvConfig{Name: "lake", Seed: 1 << 40, ValSeed: r.Int64N(1 << 30), Config: map[string]any{
		"size": r.Uint64N(9), "p": r.Float64(), "desc": []any{"SF", "FG"},
		"mode": []string{"on", "text", "1e5", "a: b"}[r.IntN(4)], "nested": map[string]any{"x": flip(), "none": nil},
	}}
	c.Model = config.ModelConfig{Backend: "go", Nodes: 1, NodeTimeout: 1 + r.IntN(99), BFloat16: flip(),
		RolloutDType: "float32", Recompute: "blocks", MicroTokens: r.IntN(9999), CacheTokens: r.IntN(9999)}
	c.Algorithm.Gamma, c.Algorithm.Lambda, c.Algorithm.TurnGamma = r.Float64(), r.Float64(), r.Float64()
	c.Algorithm.KLCtrl = config.KLConfig{Type: "adaptive", Coef: r.ExpFloat64() * 1e-9, Target: r.ExpFloat64() + 1e-3,
		Horizon: 1e4}
	c.Agent.Model.Path = fmt.Sprintf("/models/%d é \"x\"", r.IntN(9))
	c.Agent.Actor.Optim.Rate, c.Agent.Actor.Optim.WarmupRatio = r.Float64()*1e-5, r.Float64()
	if flip() {
		low, high := r.Float64(), 1+r.Float64()
		c.Agent.Actor.ClipLow, c.Agent.Actor.ClipHigh = &low, &high
	}
	c.Agent.Actor.UseKLLoss, c.Agent.Rollout.TopK, c.Agent.Rollout.Val.Temperature = flip(), r.IntN(50)-1, 0
	c.Critic.ZeroHead, c.Critic.OnTurnEnds = flip(), flip()
	c.Trainer.Project = []string{"", "null", "yes", "1.0", "- a", "日本"}[r.IntN(6)]
	c.Trainer.ValBefore = flip()
	return c
}

// FuzzLoadConfig: no bytes make LoadConfig panic; what it accepts, it writes and
// accepts again, and every refusal is an ErrConfig.
func FuzzLoadConfig(f *testing.F) {
	d := config.Default()
	raw, err := d.YAML()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(raw), "", "env: {name: x}",
		"env: {name: x, config: {a: [1, {b: c}]}}\nenv.config.d: 5", "algorithm: {gamma: .nan}",
		`{"run": {"seed": 18446744073709551615}, "env": {"name": "x"}}`, "a: &b [*b]"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path)
		if err != nil {
			if !errors.Is(err, config.ErrConfig) {
				t.Fatalf("%q: %v is no ErrConfig", raw, err)
			}
			return
		}
		once, err := c.YAML()
		if err != nil {
			t.Fatalf("%q is accepted, but cannot be written: %v", raw, err)
		}
		if err := os.WriteFile(path, once, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path); err != nil {
			t.Fatalf("%q is written as %s, which is refused: %v", raw, once, err)
		}
	})
}

func TestNumbersOfKeptCheckpointsFollowTheirKeys(t *testing.T) {
	for _, c := range []struct {
		overrides     []string
		whole, actors int
	}{
		{nil, 1, 1},
		{[]string{"trainer.max_actor_ckpt_to_keep=null", "trainer.max_critic_ckpt_to_keep=null"}, 0, 0},
		{[]string{"trainer.max_actor_ckpt_to_keep=5"}, 1, 5},
		{[]string{"trainer.max_actor_ckpt_to_keep=5", "trainer.max_critic_ckpt_to_keep=3"}, 3, 5},
		{[]string{"trainer.max_actor_ckpt_to_keep=5", "critic.kind=shared"}, 5, 5},
		{[]string{"trainer.max_actor_ckpt_to_keep=5", "trainer.remove_previous_ckpt_in_save=true"}, 1, 1},
	} {
		cfg, err := config.Load("", append([]string{"env.name=sokoban"}, c.overrides...)...)
		require.NoError(t, err)
		whole, actors := cfg.Kept()
		require.Equal(t, []int{c.whole, c.actors}, []int{whole, actors}, "%v", c.overrides)
	}
}
