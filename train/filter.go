package train

import (
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	"vagen/rollout/filter"
	"vagen/train/track"
)

// applyFilter leaves out of the update the episodes that the filter drops, and scales
// the advantages of the rest. name is the filter's. Groups are compared by the returns of the environment.
func (k *methods) applyFilter(b *batch, name string, m track.Metrics, log *slog.Logger) error {
	if k.filter == nil {
		return nil
	}
	in := filter.Batch{}
	for _, episode := range b.used {
		in.Group = append(in.Group, strconv.Itoa(episode.Group))
		in.Return = append(in.Return, episode.Return())
	}
	var out filter.Result
	if err := k.filter.Filter(&out, &in); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	last := -1
	for _, i := range out.Keep {
		if i <= last || i >= len(b.used) {
			return fmt.Errorf("train: filter %s: it keeps episode %d after %d, of %d", name, i, last, len(b.used))
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
	m["filter/dropped"], m["filter/scale"] = float64(len(b.used)-len(b.kept)), out.Scale
	if len(b.kept) == 0 {
		log.Warn("the filter left no episode: this step updates nothing", "filter", name)
	}
	return nil
}
