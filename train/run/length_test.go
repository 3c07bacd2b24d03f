package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/config"
)

// TestStepsThatDependOnTheirNumberAreNamed, with the settings that are the reason: the last one of a line.
func TestStepsThatDependOnTheirNumberAreNamed(t *testing.T) {
	reasons := func(set string) []string {
		c := config.Default()
		traintest.Set(t, &c, set)
		return dependsOnSteps(&c)
	}
	const optim = "actor_rollout_ref.actor.optim."
	for _, set := range []string{
		optim + "warmup_style=cosine", optim + "lr_warmup_steps_ratio=0.1", "critic.optim.warmup_style=linear",
		"stability.clip_schedule.style=cosine", "stability.kl_schedule.style=linear", "data.gen_batch_size=8",
		"run.async=true", "stability.early_stopping.metric=val/success",
		"stability.spike.metric=actor/grad_norm stability.spike.action=rollback",
	} {
		last := set[strings.LastIndex(set, " ")+1:]
		require.Equal(t, []string{strings.Replace(last, "=", " is ", 1)}, reasons(set))
	}
	for name, set := range map[string]string{
		"the defaults":                  "",
		"a warm-up of so many steps":    optim + "lr_warmup_steps=5 " + optim + "lr_warmup_steps_ratio=0.1",
		"a critic without an optimiser": "critic.kind=shared critic.optim.warmup_style=cosine",
		"the next levels of a file":     "data.gen_batch_size=8 data.train_files=[levels.yaml]",
		"a spike that stops":            "stability.spike.metric=actor/grad_norm stability.spike.action=stop",
		"reinforcement learning in the supervised stage": "trainer.stage=sft " + optim + "warmup_style=cosine " +
			"run.async=true sft.optim.warmup_style=constant sft.optim.lr_warmup_steps_ratio=0",
	} {
		require.Empty(t, reasons(set), name)
	}
	require.Equal(t, []string{"sft.optim.warmup_style is cosine", "sft.optim.lr_warmup_steps_ratio is 0.05"},
		reasons("trainer.stage=sft"))
}
