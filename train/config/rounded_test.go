package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// Rounded weights without a correction are a warning, and an error where nothing would use them. What VAGEN's scripts
// set for their engines loads as before.
func TestRoundedWeightsAreCorrectedOrNoted(t *testing.T) {
	load := func(overrides ...string) (config.Config, error) {
		return config.Load("", append([]string{"env.name=frozenlake"}, overrides...)...)
	}
	c, err := load("model.rollout_dtype=int8")
	require.NoError(t, err)
	require.Len(t, c.Notes, 1)
	require.True(t, c.Notes[0].Warn)
	require.Contains(t, c.Notes[0].String(),
		"weights in int8 and learned from as if in float32: set algorithm.rollout_correction.rollout_is")
	for _, corrected := range []string{
		"algorithm.rollout_correction.rollout_is=token", "algorithm.rollout_correction.bypass_mode=true",
		"model.rollout_dtype=float32", "actor_rollout_ref.actor.policy_loss.loss_mode=dppo_prime",
	} {
		c, err := load("model.rollout_dtype=bfloat16", corrected)
		require.NoError(t, err)
		require.Empty(t, c.Notes, corrected)
	}

	c, err = load("actor_rollout_ref.rollout.dtype=bfloat16")
	require.NoError(t, err)
	require.Equal(t, "float32", c.Model.RolloutDType)
	_, err = load("actor_rollout_ref.rollout.quantization=fp8")
	require.ErrorContains(t, err, "model.rollout_dtype")
}

// TestLossesOfVerlWithoutItsBoundGetAWarning: it has one for all of them.
func TestLossesOfVerlWithoutItsBoundGetAWarning(t *testing.T) {
	const actor = "actor_rollout_ref.actor."
	teacher := []string{"env=x", "algorithm.adv_estimator=reinforce_plus_plus", "critic.kind=none",
		"actor_rollout_ref.ref.model.path=T"}
	for set, warned := range map[string]bool{
		"dppo_tv": true, "dppo_kl " + actor + "clip_ratio_c=3": false, "vanilla": false,
		"opd": true, "opd " + actor + "policy_loss.use_policy_gradient=false": false,
	} {
		sets := strings.Fields(actor + "policy_loss.loss_mode=" + set)
		if strings.HasPrefix(set, "opd") {
			sets = append(sets, teacher...)
		}
		c, err := config.Load("", append([]string{"env=x"}, sets...)...)
		require.NoError(t, err, set)
		require.Equal(t, warned, strings.Contains(warnings(c), "verl has 3"), set)
	}
}

// TestEntropyBesideATeacherGetsAWarning: the default has some, the losses' originals have none.
func TestEntropyBesideATeacherGetsAWarning(t *testing.T) {
	const actor = "actor_rollout_ref.actor."
	for set, warned := range map[string]bool{
		"opd": true, "ref_kl": true, "sdft " + actor + "entropy_coeff=0": false, "vanilla": false,
		"vanilla " + actor + "policy_loss.distillation_loss_coef=1": false,
	} {
		c, err := config.Load("", append([]string{"env=x", "algorithm.adv_estimator=reinforce_plus_plus",
			"critic.kind=none", "actor_rollout_ref.ref.model.path=T"},
			strings.Fields(actor+"policy_loss.loss_mode="+set)...)...)
		require.NoError(t, err, set)
		require.Equal(t, warned, strings.Contains(warnings(c), "entropy is learned beside the teacher of "+
			c.Agent.Actor.Loss.Mode), set)
	}
}

// TestEqualStatesAreNoted: with the default discount graphgpo compares episodes only.
func TestEqualStatesAreNoted(t *testing.T) {
	for set, warned := range map[string]bool{"algorithm.gamma=1": true, "algorithm.gamma=0.1": false} {
		c, err := config.Load("", "env=x", "algorithm.adv_estimator=graphgpo", "rollout_manager.n_trajectory=2", set)
		require.NoError(t, err)
		require.Equal(t, warned, strings.Contains(warnings(c), "count alike for graphgpo"), set)
	}
}
