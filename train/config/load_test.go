package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/config"
)

func TestOffloadingWithoutWhatItMovesIsNoted(t *testing.T) {
	offloads := []string{"env=x", "actor_rollout_ref.ref.fsdp_config.param_offload=True",
		"actor_rollout_ref.actor.fsdp_config.optimizer_offload=True", "critic.model.fsdp_config.optimizer_offload=True",
		"critic.model.fsdp_config.param_offload=True"}
	notes := func(more ...string) (keys []string) {
		c, err := config.Load("", append(more, offloads...)...)
		require.NoError(t, err)
		require.True(t, c.Agent.Actor.FSDP.OptimizerOffload)
		for _, n := range c.Notes {
			keys = append(keys, n.Keys...)
		}
		return keys
	}
	require.Equal(t, []string{"actor_rollout_ref.ref.fsdp_config.param_offload"}, notes())
	require.Empty(t, notes("actor_rollout_ref.actor.use_kl_loss=true"))
	require.ElementsMatch(t, []string{"actor_rollout_ref.ref.fsdp_config.param_offload",
		"critic.model.fsdp_config.optimizer_offload", "critic.model.fsdp_config.param_offload"}, notes("critic.kind=shared"))
}

func TestKeysOfOtherSystemsAreNotedAndLogged(t *testing.T) {
	path := traintest.WriteFile(t,
		"env: frozenlake\nactor_rollout_ref:\n  actor: {fsdp_config: {param_offload: true}, strategy: fsdp}\n  rollout: {gpu_memory_utilization: 0.4, n: 8}\n")
	c, err := config.Load(path, "trainer.nnodes=1")
	require.NoError(t, err)
	require.Equal(t, "frozenlake", c.Env.Name)
	require.Equal(t, 8, c.Rollout.Trajectories)
	var keys []string
	for _, n := range c.Notes {
		require.NotEmpty(t, n.About)
		keys = append(keys, n.Keys...)
	}
	require.Equal(t, []string{"actor_rollout_ref.actor.fsdp_config.param_offload", "actor_rollout_ref.actor.strategy",
		"actor_rollout_ref.rollout.gpu_memory_utilization", "trainer.nnodes"}, keys)
	require.NoError(t, c.Override("trainer.device=cuda"))
	require.Len(t, c.Notes, 4, "notes of equal text are put together in one source, and kept apart between two")
	raw, err := c.YAML()
	require.NoError(t, err)
	require.NotContains(t, string(raw), "gpu_memory_utilization", "what sets nothing is not written")

	for _, bad := range []string{"custom_reward_function.path=f.py", "reward_model.enable=true",
		"actor_rollout_ref.model.external_lib=mine"} {
		_, err := config.Load("", "env=x", bad)
		testkit.Error(t, err, config.ErrConfig, "override 2: ", "which is not supported: ")
	}
}

func TestContradictionsNameWhereTheirKeysWereGiven(t *testing.T) {
	path := traintest.WriteFile(t, "env: {name: x}\nalgorithm:\n  gamma: 2\ncritic:\n  kind: none\n")
	_, err := config.Load(path, "trainer.critic_warmup=3")
	require.ErrorContains(t, err, "algorithm.gamma is 2, must be in [0, 1] ("+path+": line 3)")
	require.ErrorContains(t, err, "trainer.critic_warmup is 3, but critic.kind is none (override 1, "+path+": line 5)")
}

func TestEveryKeyIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range config.Settings() {
		require.NotEmpty(t, s.About, s.Key)
		require.False(t, seen[s.Key], s.Key)
		seen[s.Key] = true
	}
	s, ok := config.Explain("algorithm.gamma")
	require.True(t, ok)
	require.Equal(t, "setting", s.Kind)
	require.Equal(t, 1.0, s.Default)
	s, ok = config.Explain("actor_rollout_ref.actor.fsdp_config.wrap_policy.min_num_params")
	require.True(t, ok)
	require.Equal(t, "noted", s.Kind)
	_, ok = config.Explain("algorithm.gama")
	require.False(t, ok)
}

// TestErrorsHaveOneOrder, the same for every reading of a file.
func TestErrorsHaveOneOrder(t *testing.T) {
	load := func() string {
		const e = "actor_rollout_ref.rollout.engine."
		_, err := config.Load("", "env=frozenlake", "critic.grad_clip=-1", "critic.grad_norm_threshold=-1", e+"timeout=0", e+
			"sync_timeout=0",
			e+"outage_timeout=0", "sft.messages_key=", "sft.prompt_key=", "sft.response_key=", "sft.images_key=",
			"algorithm.gamma=2", "algorithm.lam=2")
		require.ErrorIs(t, err, config.ErrConfig)
		return err.Error()
	}
	first := load()
	for range 20 {
		require.Equal(t, first, load())
	}
}
