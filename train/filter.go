package train

import (
	"fmt"
	"maps"
	"strconv"

	"vagen/rollout/filter"
	"vagen/train/track"
)

// applyFilter excludes the episodes that the filter drops from the update, and scales the
// advantages of the others. The filter gets the returns of the environment.
func (t *Trainer) applyFilter(b *batch, m track.Metrics) error {
	if t.methods.filter == nil {
		return nil
	}
	in := filter.Batch{}
	for _, episode := range b.used {
		in.Group = append(in.Group, strconv.Itoa(episode.Group))
		in.Return = append(in.Return, episode.Return())
	}
	var out filter.Result
	if err := t.methods.filter.Filter(&out, &in); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	last := -1
	for _, i := range out.Keep {
		if i <= last || i >= len(b.used) {
			return fmt.Errorf("train: filter %s: it returned episode %d after %d, must be increasing and below %d", t.Config.Filter.Name, i, last, len(b.used))
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
		t.Log.Warn("the filter dropped all episodes: this step has no update", "filter", t.Config.Filter.Name)
	}
	return nil
}
