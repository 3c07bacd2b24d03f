package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

func TestContradictionsOfSavingAreRefused(t *testing.T) {
	for want, overrides := range map[string][]string{
		`trainer.resume_mode is "always"`:                     {"trainer.resume_mode=always"},
		"resume_path, but trainer.resume_from_path is empty":  {"trainer.resume_mode=resume_path"},
		"but trainer.resume_mode is auto":                     {"trainer.resume_from_path=a/step_1"},
		"trainer.max_actor_ckpt_to_keep is 0":                 {"trainer.max_actor_ckpt_to_keep=0"},
		"trainer.max_critic_ckpt_to_keep is -1":               {"trainer.max_critic_ckpt_to_keep=-1"},
		"a checkpoint includes its policy":                    {"trainer.max_critic_ckpt_to_keep=2"},
		"keeps more checkpoints than the 1":                   {"trainer.max_critic_ckpt_to_keep=null"},
		`trainer.best_actor_metric is "-"`:                    {"trainer.best_actor_metric='-'"},
		"must be a multiple of trainer.save_freq, which is 4": {"huggingface_hub.hf_save_freq=6", "trainer.save_freq=4"},
		"trainer.save_freq, which is 0":                       {"huggingface_hub.hf_save_freq=6"},
		"huggingface_hub.hf_save_freq is 0":                   {"huggingface_hub.hf_save_freq=0", "trainer.save_freq=1"},
		"upload_contents is empty": {"huggingface_hub.hf_save_freq=6", "trainer.save_freq=1",
			"huggingface_hub.upload_contents=[]"},
		"has adapter, but the policy has none": {"huggingface_hub.hf_save_freq=6", "trainer.save_freq=1",
			"huggingface_hub.upload_contents=[adapter]"},
		`upload_contents is "hf"`: {"huggingface_hub.upload_contents=[hf]"},
		`huggingface_hub.repo_id is "a b"`: {"huggingface_hub.repo_id=a b",
			"huggingface_hub.hf_save_freq=1", "trainer.save_freq=1"},
		"trainer.save_best_actor needs validations": {"trainer.save_best_actor=true", "trainer.test_freq=0",
			"trainer.val_before_train=false"},
	} {
		_, err := config.Load("", append([]string{"env.name=sokoban"}, overrides...)...)
		require.ErrorIs(t, err, config.ErrConfig, want)
		require.ErrorContains(t, err, want)
	}
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
