package dataset

import (
	"fmt"

	"vagen/reward/judge"
)

// StateReward is the block state_reward of an environment's options, which is kept
// apart from the others.
type StateReward = judge.StateReward

// Section sets the reward of one kind of statement.
type Section = judge.Section

// splitStateReward removes the block from an environment's options and returns it.
func splitStateReward(options map[string]any) (*StateReward, error) {
	s, _, err := judge.TakeStateReward(options)
	delete(options, judge.Key)
	if err != nil {
		return nil, fmt.Errorf("config.%w", err)
	}
	return s, nil
}
