package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// TestStartStatesWithLongPromptsAreDropped: colour 0, with which levels start whose seed is a
// multiple of 3, has a long prompt.
func TestStartStatesWithLongPromptsAreDropped(t *testing.T) {
	long := map[string]int{"<image> colour 0": 20}
	open := func(overrides ...string) (*train.Trainer, *traintest.Arena) {
		c, err := fromFiles(t, listed(t, 12), append([]string{"trainer.total_training_steps=4", "data.max_prompt_length=8"},
			overrides...)...)
		require.NoError(t, err)
		a, b := &traintest.Arena{}, traintest.Guesser()
		b.More = long
		tr, _ := traintest.Trainer(t, c, b, a)
		return tr, a
	}
	tr, a := open("data.filter_overlong_prompts=true")
	require.NoError(t, tr.Run(t.Context()))
	const listed = 12 + 2 + 5 // training and validation levels, each looked at once
	first := map[bool]int{}
	for _, seed := range a.Seeds[:listed] {
		first[seed%3 == 0]++
	}
	require.Greater(t, first[true], 1)
	require.Greater(t, first[false], 3)
	require.NotEmpty(t, a.Seeds[listed:])
	for _, seed := range a.Seeds[listed:] {
		require.NotZero(t, seed%3, "a level with a long opening is played")
	}
	require.NotEmpty(t, tr.Levels.Validation())
	played := len(a.Seeds)
	_, err := tr.Task("again")
	require.NoError(t, err)
	require.Len(t, a.Seeds, played, "lengths are measured once")

	tr, _ = open("data.filter_overlong_prompts=true")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = tr.Evaluate(over, policy.Sampling{MaxTokens: 4})
	require.ErrorIs(t, err, context.Canceled)
	_, ts, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
	require.NoError(t, err)
	for _, e := range ts {
		require.NotZero(t, e.Seed%3, "what was stopped while it left them out is begun anew")
	}

	tr, a = open()
	require.NoError(t, tr.Run(t.Context()))
	zero := 0
	for _, seed := range a.Seeds {
		if seed%3 == 0 {
			zero++
		}
	}
	require.Positive(t, zero, "without the key they are played")

	tr, _ = open("data.filter_overlong_prompts=true", "data.max_prompt_length=3")
	err = tr.Run(t.Context())
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorContains(t, err, "data.filter_overlong_prompts leaves 0 of 14 episodes of data.train_files")
}
