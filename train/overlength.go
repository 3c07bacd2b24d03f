package train

import (
	"context"
	"fmt"

	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
)

// dropOverlong implements data.filter_overlong_prompts: it removes the start states of files
// whose first prompt has more tokens than data.max_prompt_length. If an environment fails,
// its start state is kept; the error is reported when it is played.
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
		lengths, err := player.OpeningLengths(ctx, all)
		if err != nil {
			return fmt.Errorf("train: data.filter_overlong_prompts: %w", err)
		}
		var kept []rollout.Episode
		var of []int // their entries
		mixed := l.mixture != nil && part.levels == &l.train
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
