package train

import (
	"errors"
	"fmt"

	"vagen/env/dataset"
	"vagen/rollout"
	"vagen/train/config"
)

// DatasetEpisodes makes episodes of lines of a dataset, numbered in Group, with options
// that all of them share below their own. State is how their environments pay for
// words about the state, which has to be the same for all; nil if they don't.
func DatasetEpisodes(lines []dataset.Episode, options map[string]any) (episodes []rollout.Episode, state *dataset.StateReward, err error) {
	l := &Levels{config: &config.Config{Env: config.EnvConfig{Config: options}}}
	made := map[int]map[string]any{}
	for i := range lines {
		e, err := l.episode(&lines[i], made)
		if lines[i].ThinkTokens != nil {
			err = errors.New("thinking_token_budget is for training: nothing can be written into a response here")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("train: %w: episode %d (%s): %w", config.ErrConfig, i, lines[i].Name, err)
		}
		e.Group = i
		episodes = append(episodes, e)
	}
	return episodes, l.State, nil
}
