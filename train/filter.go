package train

import (
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	"vagen/rollout/filter"
	"vagen/train/track"
)

// applyFilter excludes the episodes that the filter drops from the update, and scales the
// advantages of the others. The filter gets the returns of the environment.
func (k *methods) applyFilter(b *batch, name string, m track.Metrics, log *slog.Logger) error {
	if k.filter == nil {
		return nil
	}
	in := filter.Batch{}
	for _, episode := range b.Used {
		in.Group = append(in.Group, strconv.Itoa(episode.Group))
		in.Return = append(in.Return, episode.Return())
	}
	var out filter.Result
	if err := k.filter.Filter(&out, &in); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	last := -1
	for _, i := range out.Keep {
		if i <= last || i >= len(b.Used) {
			return fmt.Errorf("train: filter %s: it returned episode %d after %d, must be increasing and below %d", name, i,
				last, len(b.Used))
		}
		last = i
	}
	b.kept = out.Keep
	if out.Scale != 1 {
		for i, a := range b.result.Advantages {
			b.result.Advantages[i] = float32(float64(a) * out.Scale)
		}
	}
	maps.Copy(m, out.Metrics)
	m["filter/dropped"], m["filter/scale"] = float64(len(b.Used)-len(b.kept)), out.Scale
	if len(b.kept) == 0 {
		log.Warn("the filter dropped all episodes: this step has no update", "filter", name)
	}
	return nil
}
