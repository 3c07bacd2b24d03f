package train

import (
	"log/slog"
	"slices"

	"vagen/train/config"
	"vagen/train/internal/difficulty"
	"vagen/train/track"
)

// rejected returns the groups that the gate of data.pools leaves out.
func (b *batch) rejected(p *config.PoolsConfig, m track.Metrics) map[int]bool {
	if p.Gate != config.GateAdvantageRange {
		return nil
	}
	advantages := map[int][]float32{}
	for row, t := range b.Of {
		group := b.Used[t].Group
		for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
			if b.Loss[i] {
				advantages[group] = append(advantages[group], b.result.Advantages[i])
			}
		}
	}
	out := map[int]bool{}
	for group, all := range advantages {
		if !difficulty.Admits(p, all) {
			out[group] = true
		}
	}
	m["gate/rejected"] = float64(len(out))
	return out
}

// leaveOut excludes the episodes of groups from the update.
func (b *batch) leaveOut(groups map[int]bool, log *slog.Logger) {
	if len(groups) == 0 {
		return
	}
	b.kept = slices.DeleteFunc(b.kept, func(i int) bool { return groups[b.Used[i].Group] })
	if len(b.kept) == 0 {
		log.Warn("the gate rejected all groups that the filter kept: this step has no update",
			"gate", config.GateAdvantageRange)
	}
}
