package config

import (
	"maps"

	"vagen/internal/settings"
	"vagen/reward/judge"
)

// The sections of a block state_reward, with the options that pay for them without a block.
var paidSections = map[string]string{"state_estimation": "grounding_reward_weight",
	"transition_prediction": "worldmodeling_reward_weight"}

// partialBlock returns the block state_reward of an environment's options if it has settings
// but does not say which statements are paid.
func partialBlock(options map[string]any) (map[string]any, bool) {
	block, ok := options[judge.Key].(map[string]any)
	if !ok || len(block) == 0 || block["enabled"] == false {
		return nil, false
	}
	for name := range paidSections {
		if _, given := block[name]; given {
			return nil, false
		}
	}
	return block, true
}

// completeBlock completes a partial block state_reward in options if those below it have
// use_state_reward: the block then pays the same, scored and placed in the same way, except
// for what it sets. Options are changed in place.
func completeBlock(options, below map[string]any, environment string) {
	block, partial := partialBlock(options)
	if !partial || below["use_state_reward"] != true {
		return
	}
	weight := 0.5
	if below["rules"] == "next" {
		weight = 0.006
	}
	own := map[string]any{"scorer": judge.ByRules, "score_base": 0.0, "credit_site": judge.TurnEnd,
		"guard": judge.GuardOff}
	for section, option := range paidSections {
		var reward any = weight
		if given, ok := below[option]; ok {
			reward = given
		}
		own[section] = map[string]any{"enable": true, "reward": reward}
	}
	_, scoring := block["scoring"]
	_, phrases := block["stock_phrases"]
	if environment == "sokoban" && !scoring {
		own["scoring"] = judge.ExactMatches
		if !phrases {
			own["stock_phrases"] = map[string]any{"top": 0}
		}
	}
	options[judge.Key] = settings.Merge(own, maps.Clone(block), "")
}
