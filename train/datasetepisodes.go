package train

import (
	"errors"
	"fmt"

	"vagen/env/dataset"
	"vagen/rollout"
	"vagen/train/config"
)

// DatasetEpisodes converts the entries of a dataset to episodes, numbered in Group. Their own
// options override those in shared. The returned block state_reward is nil if there is none;
// it must be the same for all entries.
func DatasetEpisodes(
	lines []dataset.Episode, options map[string]any,
) (episodes []rollout.Episode, state *dataset.StateReward, err error) {
	l := &Levels{config: &config.Config{Env: config.EnvConfig{Config: options}}}
	made := map[optionsKey]map[string]any{}
	for i := range lines {
		e, err := l.episode(&lines[i], made)
		if lines[i].ThinkTokens != nil {
			err = errors.New("thinking_token_budget is set, but is supported only in training")
		}
		if err == nil {
			err = onlyTraining(&lines[i])
		}
		if err != nil {
			return nil, nil, fmt.Errorf("train: %w: episode %d (%s): %w", config.ErrConfig, i, lines[i].Name, err)
		}
		e.Group = i
		episodes = append(episodes, e)
	}
	return episodes, l.State, nil
}
