package train_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
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
	testkit.Error(t, err, config.ErrConfig, "data.filter_overlong_prompts leaves 0 of 14 episodes of data.train_files")

	byStep := func(a *traintest.Arena) (out [][]int64) {
		for part := range slices.Chunk(slices.Clone(a.Seeds[:12+2]), 3) {
			slices.Sort(part)
			out = append(out, part)
		}
		return out
	}
	tr, a = open("data.filter_overlong_prompts=true")
	_, err = tr.Task("one at a time")
	require.NoError(t, err)
	want := byStep(a)
	tr, a = open("data.filter_overlong_prompts=true", "run.workers=0")
	tr.Envs.SetRemote("guess")
	_, err = tr.Task("as many as a step has")
	require.NoError(t, err)
	require.Equal(t, want, byStep(a), "not all remote environments are open at once")
}

func TestStartStatesThatCannotBeMeasuredAreErrors(t *testing.T) {
	file := traintest.WriteFile(t, `
envs:
  - {name: guess, n_envs: 4, config: {turns: 2}}
  - {name: guess, n_envs: 1, seed_list: [77], config: {turns: 0}}
`)
	c, err := fromFiles(t, file, "trainer.total_training_steps=1", "data.max_prompt_length=8",
		"data.filter_overlong_prompts=true")
	require.NoError(t, err)
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	_, err = tr.Task("val")
	require.ErrorContains(t, err, "data.filter_overlong_prompts: data.train_files: rollout: the opening of guess, seed 77: ")
	require.ErrorContains(t, err, "turns is 0")
}
