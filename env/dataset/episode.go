package dataset

import (
	"maps"
	"slices"

	"vagen/reward/judge"
)

// Split separates the episodes for training from those for evaluation.
type Split string

// The splits.
const (
	Train Split = "train"
	Test  Split = "test"
)

// Limits are the limits of an episode. 0 and nil mean the caller's limit.
type Limits struct {
	MaxTurns       int      `yaml:"max_turns" count:"0"`
	ResponseTokens int      `yaml:"response_length_per_turn" count:"0"`  // of one response
	ObserveTokens  int      `yaml:"max_env_response_per_turn" count:"0"` // of one observation; was env_response_length
	RegionTokens   int      `yaml:"max_response_length" count:"0"`       // of a conversation's responses and observations
	ThinkTokens    *int     `yaml:"thinking_token_budget" count:"0"`     // of a response's reasoning; 0 disables reasoning
	Stop           []string `yaml:"stop_strings"`                        // end a response, and are part of it
}

// Episode is one entry of an expanded dataset: an environment, its options and the level.
type Episode struct {
	// Name is the environment's name in the file, on which drawn seeds depend. Env is its
	// name in the registry, or Name if Options.Known is nil.
	Name, Env string
	Config    map[string]any // shared by the episodes of an entry; must not be changed
	Seed      int64
	Limits
	StateReward *StateReward // nil if there is none

	Tag    string // name of the results; "" for none
	Source string // groups metrics
	Split  string
	Legacy bool // the environment follows the rules of the legacy system
	Entry  int  // index of its entry in the file; 0 in parquet files

	Weight, RewardScale float64 // as in Spec; 0 if not given. Parquet files have none
}

// choosesRules lists the environments whose option "rules" selects legacy behaviour.
var choosesRules = []string{"frozenlake", "navigation", "primitiveskill", "sokoban"}

// Options returns the environment's options: Config with the block StateReward, and
// for an episode of the legacy system the rules of that system, if the environment
// supports both.
func (e *Episode) Options() map[string]any {
	_, given := e.Config["rules"]
	legacy := !given && e.Legacy && slices.Contains(choosesRules, fold(e.Env))
	if !legacy && e.StateReward == nil {
		return e.Config
	}
	options := make(map[string]any, len(e.Config)+2)
	maps.Copy(options, e.Config)
	if legacy {
		options["rules"] = "legacy"
	}
	if e.StateReward != nil {
		options[judge.Key] = e.StateReward.Tree()
	}
	return options
}
