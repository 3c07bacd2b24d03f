package policy_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
)

func TestSamplingSettingsAreChecked(t *testing.T) {
	nan := math.NaN()
	for want, s := range map[string]policy.Sampling{
		"temperature is -1":           {Temperature: -1},
		"temperature is 1e-50":        {Temperature: 1e-50},
		"temperature is NaN":          {Temperature: nan},
		"temperature is +Inf":         {Temperature: math.Inf(1)},
		"top-k is -2":                 {TopK: -2},
		"top-p is 1.5":                {TopP: 1.5},
		"top-p is NaN":                {TopP: nan},
		"min-p is 1":                  {MinP: 1},
		"min-p is NaN":                {MinP: nan},
		"stop string 1 is empty":      {StopStrings: []string{"a", ""}},
		"Thinking.Tokens is -1":       {Thinking: policy.Thinking{Tokens: -1, Close: "x"}},
		"but Thinking.Close is empty": {Thinking: policy.Thinking{Tokens: 1}},
	} {
		err := s.Check()
		testkit.Error(t, err, policy.ErrSampling, want)
	}
	require.NoError(t, policy.Sampling{Temperature: 0.5, TopK: 3, TopP: 1, MinP: 0.5, StopStrings: []string{"a"}}.Check())
}

func TestPromptsOfACallAreChecked(t *testing.T) {
	for want, prompts := range map[string][]policy.Prompt{
		"prompts 0 and 2 continue the same conversation, 1": {{Conversation: 1}, {Conversation: 2}, {Conversation: 1}},
		"prompt 0: the response may have -3 tokens":         {{MaxTokens: -3}},
		"prompt 1: bad sampling: stop string 0 is empty":    {{}, {Conversation: 1, StopStrings: []string{""}}},
	} {
		_, err := policy.Sampling{MaxTokens: 5}.Limits(prompts)
		require.ErrorContains(t, err, want)
	}
	limits, err := policy.Sampling{MaxTokens: 5}.Limits([]policy.Prompt{{}, {Conversation: 1, MaxTokens: 7}})
	require.NoError(t, err)
	require.Equal(t, []int{5, 7}, limits)
	_, err = policy.Sampling{}.Limits([]policy.Prompt{{}})
	require.ErrorContains(t, err, "the response may have 0 tokens, must be at least 1")
}
