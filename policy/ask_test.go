package policy_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// answering is a policy that returns the same completions to any prompts.
type answering struct {
	policy.Policy
	out []policy.Completion
}

func (a answering) Generate(context.Context, []policy.Prompt, policy.Sampling) ([]policy.Completion, error) {
	return a.out, nil
}

func (answering) Forget(...uint64) {}

// TestEveryQuestionNeedsAnAnswer: callers look answers up by the number of their question.
func TestEveryQuestionNeedsAnAnswer(t *testing.T) {
	p := answering{out: []policy.Completion{{Text: "a"}, {Text: "b"}}}
	answers, errs, err := policy.Ask(p, policy.Sampling{})(t.Context(), []string{"1", "2"})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, answers)
	require.Equal(t, []error{nil, nil}, errs)
	for _, questions := range [][]string{{"1"}, {"1", "2", "3"}} {
		_, _, err = policy.Ask(p, policy.Sampling{})(t.Context(), questions)
		require.ErrorContains(t, err, "the policy returned 2 completions for")
	}
}
