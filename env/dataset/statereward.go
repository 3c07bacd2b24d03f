package dataset

import (
	"fmt"

	"vagen/reward/judge"
)

// StateReward is the block state_reward of an environment's options, which is kept
// apart from the others.
type StateReward = judge.StateReward

// Section says whether and how much one kind of statement is paid for.
type Section = judge.Section

// DefaultStateReward returns the block without entries.
func DefaultStateReward() StateReward { return judge.DefaultStateReward() }

// takeStateReward separates the block from an environment's own options.
func takeStateReward(options map[string]any) (*StateReward, error) {
	s, _, err := judge.TakeStateReward(options)
	delete(options, judge.Key)
	if err != nil {
		return nil, fmt.Errorf("config.%w", err)
	}
	return s, nil
}
