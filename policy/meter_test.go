package policy_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

type priced struct{}

func (priced) Generate(context.Context, []policy.Prompt, policy.Sampling) ([]policy.Completion, error) {
	return []policy.Completion{{Usage: policy.Usage{PromptTokens: 2, CompletionTokens: 3, Cost: 0.5}},
		{Usage: policy.Usage{PromptTokens: 1}}}, nil
}
func (priced) Forget(...uint64) {}

type counting struct{ priced }

func (counting) Count(policy.Prompt) (int, error) { return 7, nil }

// TestAMeterAddsUpAndCountsTokensIfThePolicyDoes.
func TestAMeterAddsUpAndCountsTokensIfThePolicyDoes(t *testing.T) {
	m, used := policy.Meter(priced{})
	for range 2 {
		_, err := m.Generate(t.Context(), nil, policy.Sampling{})
		require.NoError(t, err)
	}
	require.Equal(t, policy.Usage{PromptTokens: 6, CompletionTokens: 6, Cost: 1}, used())
	_, ok := policy.As[policy.Counter](m)
	require.False(t, ok)
	m, used = policy.Meter(counting{})
	counter, ok := policy.As[policy.Counter](m)
	require.True(t, ok)
	n, err := counter.Count(policy.Prompt{})
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Zero(t, used())
}

// TestAMeterOfNothingHasAnError, as Ask has.
func TestAMeterOfNothingHasAnError(t *testing.T) {
	m, used := policy.Meter(nil)
	_, err := m.Generate(t.Context(), nil, policy.Sampling{})
	require.ErrorContains(t, err, "the policy is nil")
	m.Forget(1)
	require.Zero(t, used())
}
