package judge

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/field"
	"vagen/internal/golden"
)

func TestBlocksAreSeparatedFromOptions(t *testing.T) {
	options := map[string]any{"size": 4}
	s, rest, err := TakeStateReward(options)
	require.NoError(t, err)
	require.Nil(t, s)
	require.Equal(t, options, rest)
	require.False(t, s.Enabled())

	options[Key] = map[string]any{"state_estimation": map[string]any{"enable": true, "reward": 0.25}, "scorer": "exact",
		"credit_site": "per_span"}
	s, rest, err = TakeStateReward(options)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": 4}, rest)
	require.Contains(t, options, Key, "the caller's map stays as it is")
	want := DefaultStateReward()
	want.Estimation, want.Scorer = Section{Enable: true, Reward: 0.25}, ByExactRules
	require.Equal(t, &want, s, "per_span is the old name of section_end")
	require.True(t, s.Enabled())

	again, _, err := TakeStateReward(map[string]any{Key: s.Tree()})
	require.NoError(t, err)
	require.Equal(t, s, again)

	s, rest, err = TakeStateReward(map[string]any{Key: nil})
	require.NoError(t, err)
	require.Nil(t, s)
	require.Empty(t, rest)
}

func TestBlocksOfOneJudgeDifferInPaymentAlone(t *testing.T) {
	read := func(block map[string]any) *StateReward {
		s, _, err := TakeStateReward(map[string]any{Key: block})
		require.NoError(t, err)
		return s
	}
	on := map[string]any{"enable": true, "reward": 0.5}
	a := read(map[string]any{"enabled": true, "scorer": "rules", "state_estimation": on})
	for _, other := range []map[string]any{
		{"enabled": true, "scorer": "rules", "state_estimation": on}, // a pointer of its own to the same value
		{"scorer": "rules", "transition_prediction": on},
		{"enabled": false, "scorer": "rules"},
	} {
		require.True(t, a.SameJudge(read(other)), "%v", other)
	}
	require.NotNil(t, a.On, "the comparison changes neither block")
	require.False(t, a.SameJudge(read(map[string]any{"enabled": true, "scorer": "exact", "state_estimation": on})))
	require.False(t, a.SameJudge(read(map[string]any{"enabled": true, "scorer": "rules", "score_base": 0.25})))
}

func TestBlocksBecomeOptions(t *testing.T) {
	s := DefaultStateReward()
	s.Estimation, s.Transition = Section{Enable: true, Reward: 0.25}, Section{Reward: 3}
	out, err := s.Apply(map[string]any{"size": 4})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": 4, "use_state_reward": true, "grounding_reward_weight": 0.25,
		"worldmodeling_reward_weight": 0.0}, out)
	for _, name := range []string{"use_state_reward", "grounding_reward_weight", "worldmodeling_reward_weight"} {
		_, err = s.Apply(map[string]any{name: 1})
		require.ErrorContains(t, err, name)
	}
}

func TestBadBlocksAreRefused(t *testing.T) {
	for want, block := range golden.Table[map[string]any](t, "badblocks.yaml") {
		_, _, err := TakeStateReward(map[string]any{Key: block})
		require.ErrorContains(t, err, want)
	}
}

// TestErrorsNameTheKeysOfTheBlock, so that a configuration can say where they were given.
func TestErrorsNameTheKeysOfTheBlock(t *testing.T) {
	for key, block := range map[string]map[string]any{
		"state_reward.judge.timeout": {"judge": map[string]any{"timeout": -1}},
		"state_reward.scorer":        {"scorer": "me"},
		"state_reward.scorrer":       {"scorrer": "exact"},
		"state_reward.guard":         {"guard": []any{}},
		"state_reward":               {"stock_phrases": map[string]any{"keep": 0}},
	} {
		_, _, err := TakeStateReward(map[string]any{Key: block})
		require.Equal(t, []string{key}, slices.Compact(field.Keys(err))[:1])
	}
}
