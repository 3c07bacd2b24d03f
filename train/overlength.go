package train

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
)

// dropOverlong implements data.filter_overlong_prompts: it removes the start states of files
// whose first prompt has more tokens than data.max_prompt_length. At most as many environments
// are open as a step has start states. One that fails is an error: later start states would have
// other positions if it were dropped or kept by chance.
func (k *collector) dropOverlong(ctx context.Context, p policy.Policy) error {
	c, l := k.config, k.levels
	if !c.Data.DropLong || l.dropped {
		return nil
	}
	player := k.player(p, greedy(c))
	for _, part := range []struct {
		key    string
		levels *[]rollout.Episode
		least  int
	}{{"data.train_files", &l.train, c.Data.TrainBatch}, {"data.val_files", &l.val, 1}} {
		all := *part.levels
		if len(all) == 0 {
			continue
		}
		var lengths []int
		for batch := range slices.Chunk(all, c.Data.TrainBatch) {
			some, err := player.OpeningLengths(ctx, batch)
			if err != nil {
				return fmt.Errorf("train: data.filter_overlong_prompts: %s: %w", part.key, err)
			}
			lengths = append(lengths, some...)
		}
		var kept []rollout.Episode
		var of []int // their entries
		mixed := part.levels == &l.train
		for i, e := range all {
			if lengths[i] <= c.Data.MaxPrompt {
				if kept = append(kept, e); mixed {
					of = append(of, l.mixture.of[i])
				}
			}
		}
		if mixed {
			l.mixture.of = of
			if err := l.mixture.group(); err != nil {
				return fmt.Errorf("train: %w: data.filter_overlong_prompts: data.train_files: %w", config.ErrConfig, err)
			}
		}
		k.log.Info("dropped start states with too long prompts", "key", part.key, "dropped", len(all)-len(kept), "kept",
			len(kept), "data.max_prompt_length", c.Data.MaxPrompt)
		if len(kept) < part.least {
			return fmt.Errorf("train: %w: data.filter_overlong_prompts leaves %d of %d episodes of %s, at least %d are needed",
				config.ErrConfig, len(kept), len(all), part.key, part.least)
		}
		*part.levels = kept
	}
	l.dropped, l.orders = true, nil
	return nil
}
