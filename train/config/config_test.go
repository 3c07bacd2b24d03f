package config_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/traintest"
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
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorContains(t, err, `unknown key "trainer.total_steps"`)
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

// TestRangesAreChecked makes one setting of a valid configuration invalid at a time, where
// TestErrorsOfEverySetting does not.
func TestRangesAreChecked(t *testing.T) {
	for override, want := range map[string]string{
		"actor_rollout_ref.rollout.val_kwargs.n=20000":       "data.val_batch_size is 256 and actor_rollout_ref.rollout.val_kwargs.n is 20000: a validation may have at most 4194304 episodes",
		"rollout_manager.n_trajectory=1000000000":            "data.train_batch_size is 1024 and rollout_manager.n_trajectory is 1000000000: a step may have at most 4194304 episodes",
		"data.gen_batch_size=4194305":                        "data.gen_batch_size is 4194305 and rollout_manager.n_trajectory is 1",
		"sft.lessons.episodes=4194305":                       "sft.lessons.episodes is 4194305, must be at most 4194304",
		"sft.train_batch_size=9223372036854775807":           "sft.train_batch_size is 9223372036854775807, must be at most 4194304",
		"env.train_seed=2305843009213693953":                 "env.train_seed is 2305843009213693953, must be in [-2^61, 2^61]",
		"env.val_seed=-2305843009213693953":                  "env.val_seed is -2305843009213693953, must be in [-2^61, 2^61]",
		"actor_rollout_ref.rollout.thinking_token_budget=-1": "thinking_token_budget is -1, must not be negative",
		"algorithm.kl_ctrl.type=adaptive":                    "algorithm.kl_ctrl: reward: adaptive kl controller: target 0 and horizon 0 must be above 0",
		"actor_rollout_ref.actor.optim.warmup_style=fast":    `actor_rollout_ref.actor.optim.warmup_style is "fast", must be one of`,
		"actor_rollout_ref.actor.optim.min_lr_ratio=2":       "actor_rollout_ref.actor.optim.min_lr_ratio is 2, must be in [0, 1]",
		"actor_rollout_ref.rollout.temperature=0":            "actor_rollout_ref.rollout.temperature is 0, must be above 0 in training",
		"algorithm.gamma_turn=2":                             "algorithm.high_level_gamma is 2, must be in [0, 1]",
		"trainer.metrics=[entropie]":                         `trainer.metrics: "entropie" is not a metric, did you mean "entropy"?`,
		"trainer.metrics=[all,entropy]":                      `trainer.metrics: "all" is not a metric`,
		"data.gen_batch_size=-1":                             "data.gen_batch_size is -1, must not be negative",
		"trainer.harness=conct":                              `trainer.harness: rollout: harness "conct": unknown name, did you mean "concat"?`,
	} {
		_, err := config.Load("", "env.name=x", override)
		require.ErrorIs(t, err, config.ErrConfig, override)
		require.ErrorContains(t, err, want, override)
		require.NotContains(t, err.Error(), "\n", "%s: one mistake, one line", override)
	}
	_, err := config.Load("", "env.name=x", "model.backend=go", "model.tokens_per_call=2")
	require.ErrorContains(t, err, "model.tokens_per_call is 2, must be 0 or 1 with model.backend go")
	c := config.Default()
	c.Env.Name, c.Algorithm.Gamma, c.Agent.Rollout.Temperature = "x", math.NaN(), math.Inf(1)
	require.ErrorContains(t, c.Validate(), "algorithm.gamma is NaN")
	require.ErrorContains(t, c.Validate(), "temperature is +Inf")
}

// TestContradictionsAreRefused makes settings that contradict each other, and then a
// setting that resolves the contradiction.
func TestContradictionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  []string
		says string
		cure string
	}{
		"values without a critic": {[]string{"critic.kind=none"},
			"algorithm.adv_estimator gae needs values, but critic.kind is none", "algorithm.adv_estimator=reinforce_plus_plus"},
		"a group of one": {[]string{"algorithm.adv_estimator=grpo"},
			"algorithm.adv_estimator grpo compares episodes of one start state, but rollout_manager.n_trajectory is 1",
			"rollout_manager.n_trajectory=2"},
		"shaped baselines": {[]string{"algorithm.adv_estimator=remax", "reward.clip_low=0"},
			"algorithm.adv_estimator remax subtracts the reward of the greedy episode, but the group reward changes the rewards of the others", "reward.clip_low=null"},
		"KL in no part": {[]string{"algorithm.adv_estimator=gdpo", "rollout_manager.n_trajectory=2",
			"algorithm.gdpo_reward_keys=[success]", "algorithm.use_kl_in_reward=true"},
			"without the KL of algorithm.use_kl_in_reward: set it to false", "algorithm.gdpo_reward_keys=[]"},
		"shaped parts": {[]string{"algorithm.adv_estimator=gdpo_trl", "rollout_manager.n_trajectory=2",
			"algorithm.gdpo_reward_keys=[success]", "reward.normalize=batch"},
			`gdpo_reward_keys is ["success"]: algorithm.adv_estimator gdpo_trl reads these parts`, "reward.normalize=none"},
		"a discount for nothing": {[]string{"algorithm.adv_estimator=trajectory_bi_level_gae", "algorithm.gamma=0.9"},
			"algorithm.adv_estimator trajectory_bi_level_gae has no discount per token, but algorithm.gamma is 0.9",
			"algorithm.gamma=1"},
		"no GAE mask": {[]string{"algorithm.adv_estimator=masked_gae", "rollout_manager.use_gae_mask=false"},
			"algorithm.adv_estimator masked_gae computes advantages over the GAE mask, but rollout_manager.use_gae_mask is false", "rollout_manager.use_gae_mask=true"},
		"no loss mask": {[]string{"algorithm.adv_estimator=masked_grpo", "rollout_manager.n_trajectory=2",
			"rollout_manager.use_loss_mask=false"},
			"algorithm.adv_estimator masked_grpo needs a loss mask, but rollout_manager.use_loss_mask is false",
			"rollout_manager.use_loss_mask=true"},
		"turn-wise, all tokens": {[]string{"algorithm.adv_estimator=turn_wise_gae"}, "set critic.use_reward_mask",
			"critic.use_reward_mask=true"},
		"warming up a shared head": {[]string{"critic.kind=shared", "trainer.critic_warmup=2"},
			"trainer.critic_warmup is 2, but a shared critic cannot be trained without the policy", "trainer.critic_warmup=0"},
		"warming up nothing": {[]string{"critic.kind=none", "algorithm.adv_estimator=reinforce_plus_plus",
			"trainer.critic_warmup=2"}, "trainer.critic_warmup is 2, but critic.kind is none",
			"critic.kind=separate algorithm.adv_estimator=gae"},
		"warming up without values": {[]string{"algorithm.adv_estimator=grpo", "rollout_manager.n_trajectory=2",
			"trainer.critic_warmup=2"}, "trainer.critic_warmup is 2, but algorithm.adv_estimator grpo trains no critic",
			"trainer.critic_warmup=0"},
		"two adapters": {[]string{"actor_rollout_ref.model.lora_rank=8",
			"actor_rollout_ref.model.lora_adapter_path=/x"},
			"lora_rank is 8, but the adapter in actor_rollout_ref.model.lora_adapter_path has its own rank",
			"actor_rollout_ref.model.lora_rank=0"},
		"a path for nothing": {[]string{"critic.kind=shared", "critic.model.path=/x"},
			"critic.model.path is set, but critic.kind is shared", "critic.kind=separate"},
		"KL twice": {[]string{"algorithm.use_kl_in_reward=true", "actor_rollout_ref.actor.use_kl_loss=true"},
			"both penalise the KL to the reference policy: enable only one", "algorithm.use_kl_in_reward=false"},
		"large mini-batches": {[]string{"data.train_batch_size=4", "rollout_manager.n_trajectory=3",
			"actor_rollout_ref.actor.ppo_mini_batch_size=13"},
			"actor_rollout_ref.actor.ppo_mini_batch_size is 13, but a step has only 12 episodes",
			"actor_rollout_ref.actor.ppo_mini_batch_size=12"},
		"an unknown filter": {[]string{"filter.enable=true", "filter.name=reward_varianc",
			"rollout_manager.n_trajectory=2"},
			`configuration: filter: filter "reward_varianc": unknown name, did you mean "reward_variance"?`,
			"filter.name=reward_variance"},
		"a filter's setting": {[]string{"filter.enable=true", "filter.filter_kwargs={topp: 0.5}",
			"rollout_manager.n_trajectory=2"}, `did you mean "top_p"?`, `filter.filter_kwargs={"top_p":0.5}`},
		"a filter without groups": {[]string{"filter.enable=true"},
			"filter.name reward_variance_top_p compares the episodes of a group, but rollout_manager.n_trajectory is 1",
			"filter.name=none"},
		"clipping to nothing": {[]string{"reward.clip_low=1", "reward.clip_high=0.5"},
			"reward.clip_low is 1, but reward.clip_high is 0.5", "reward.clip_high=1"},
		"a block's sections at the end": {
			[]string{"env.config={state_reward: {state_estimation: {enable: true, reward: 1}, scorer: exact}}",
				"rollout_manager.use_multi_turn_reward=false"},
			"reward.credit_site is section_end, but rollout_manager.use_multi_turn_reward is false",
			`env.config={"state_reward":{"scorer":"exact","credit_site":"turn_end"}}`},
		"sections, all at the end": {[]string{"reward.credit_site=section_end",
			"rollout_manager.use_multi_turn_reward=false"},
			"reward.credit_site is section_end, but rollout_manager.use_multi_turn_reward is false, which puts all rewards at the end of the row", "reward.credit_site=turn_end"},
		"running groups": {[]string{"reward.normalize=group", "reward.running=true"},
			"reward.running keeps statistics from step to step, but reward.normalize is group, and groups last one step",
			"reward.running=false"},
		"groups of one reward": {[]string{"reward.normalize=group", "rollout_manager.use_multi_turn_reward=false"},
			"reward.normalize compares the episodes of a group, but rollout_manager.n_trajectory is 1",
			"rollout_manager.n_trajectory=2"},
		"rows and episodes": {[]string{"trainer.harness=no_concat"},
			"algorithm.adv_estimator with trainer.harness no_concat: settings cannot be used together: the estimator gae treats a row as a whole episode", "algorithm.adv_estimator=no_concat_gae"},
		"rows of compaction": {[]string{"trainer.harness=compact"},
			"the estimator gae treats a row as a whole episode", "algorithm.adv_estimator=default_gae"},
		"two names of a harness": {[]string{"trainer.concat_multi_turn=true", "trainer.harness=no_concat",
			"algorithm.adv_estimator=no_concat_gae"},
			"trainer.concat_multi_turn is true, but trainer.harness is no_concat (override 3): they are two names of one setting", "trainer.concat_multi_turn=false"},
		"no window": {[]string{"trainer.harness=window", "algorithm.adv_estimator=default_gae"},
			"trainer.harness window needs rollout_manager.window_size", "rollout_manager.window_size=2"},
		"a window without use": {[]string{"rollout_manager.window_size=4"},
			"rollout_manager.window_size is 4, but trainer.harness concat shows the model all turns, up to 5: set trainer.harness to window", "rollout_manager.window_size=5"},
		"compaction of nothing": {[]string{"trainer.harness=compact", "algorithm.adv_estimator=default_gae",
			"trainer.compact_budget=0"}, "trainer.harness is compact, but there is no length at which to summarise",
			"trainer.compact_budget=900"},
		"long summaries": {[]string{"trainer.harness=compact", "algorithm.adv_estimator=default_gae",
			"trainer.compact_summary_budget=513"}, "a summary may be longer than a response: 513 and 512 tokens",
			"trainer.compact_summary_budget=512"},
		"long openings of nothing": {[]string{"data.filter_overlong_prompts=true", "data.max_prompt_length=9"},
			"data.filter_overlong_prompts is true, but data.train_files and data.val_files, which it filters, are empty",
			"data.filter_overlong_prompts=false"},
		"which is no limit": {[]string{"data.filter_overlong_prompts=true"},
			"data.filter_overlong_prompts is true, but data.max_prompt_length is 0", "data.filter_overlong_prompts=false"},
		"thinking without an end": {[]string{"actor_rollout_ref.rollout.thinking_token_budget=5",
			"actor_rollout_ref.rollout.thinking_close=''"},
			"thinking_token_budget is 5, but actor_rollout_ref.rollout.thinking_close is empty",
			"actor_rollout_ref.rollout.thinking_close=</t>"},
		"thinking for too long": {[]string{"actor_rollout_ref.rollout.thinking_token_budget=512"},
			"thinking_token_budget is 512, but a response has at most 512 tokens",
			"actor_rollout_ref.rollout.thinking_token_budget=511"},
		"long responses": {[]string{"rollout_manager.max_trajectory_length=600", "data.max_prompt_length=100"},
			"a response may be longer than the response region: 512 of 500 tokens", "data.max_response_length=500"},
		"unknown prompts": {[]string{"rollout_manager.max_trajectory_length=600"},
			"rollout_manager.max_trajectory_length is 600, but data.max_prompt_length is 0: the length of a conversation includes its initial prompt", "data.max_prompt_length=80"},
		"long prompts": {[]string{"rollout_manager.max_trajectory_length=600", "data.max_prompt_length=600"},
			"rollout_manager.max_trajectory_length is 600, but data.max_prompt_length is 600: it must be larger",
			"data.max_prompt_length=80"},
		"fewer than enough": {[]string{"data.gen_batch_size=1000"},
			"data.gen_batch_size is 1000, but data.train_batch_size is 1024", "data.gen_batch_size=1024 env.train_seed=9000000"},
		"no greedy episodes": {[]string{"algorithm.adv_estimator=remax", "data.gen_batch_size=2000"},
			"algorithm.adv_estimator remax plays greedy episodes only for the start states of data.train_batch_size",
			"data.gen_batch_size=0"},
		"levels that overlap": {[]string{"env.val_seed=999745"},
			"validation levels [999745, 1000001) overlap training levels [1000000, 1102400)", "env.val_seed=999744"},
		"levels that overlap after": {[]string{"env.val_seed=1102399"},
			"validation levels [1102399, 1102655) overlap training levels [1000000, 1102400)", "env.val_seed=1102400"},
	} {
		set := append([]string{"env.name=x"}, c.set...)
		_, err := config.Load("", set...)
		require.ErrorIs(t, err, config.ErrConfig, name)
		require.ErrorContains(t, err, c.says, name)
		require.NotContains(t, err.Error(), "\n", "%s: one mistake, one line", name)
		_, err = config.Load("", append(set, strings.Fields(c.cure)...)...)
		require.NoError(t, err, "%s: cured", name)
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

// TestEveryEstimatorHasAConfiguration: each name of package advantage can be
// trained with.
func TestEveryEstimatorHasAConfiguration(t *testing.T) {
	for _, name := range advantage.Names() {
		c := config.Default()
		c.Env.Name, c.Algorithm.Estimator, c.Rollout.Trajectories = "x", name, 2
		c.Critic.OnTurnEnds = name == "turn_wise_gae"
		require.NoError(t, c.Validate(), name)
	}
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
