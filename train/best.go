package train

import (
	"context"
	"log/slog"
	"math"
	"strings"

	"vagen/train/config"
	"vagen/train/track"
)

// Best is the best validation of a run.
type Best struct {
	Step   int     `json:"step"`
	Metric string  `json:"metric"` // trainer.best_actor_metric
	Value  float64 `json:"value"`
}

// rankedMetric returns a metric by its name, and its rank: the value itself, or its negative
// if the name starts with a minus. A higher rank is better.
func rankedMetric(m track.Metrics, name string) (value, rank float64, ok bool) {
	plain, minus := strings.CutPrefix(name, "-")
	value, ok = m[plain]
	if !ok || math.IsNaN(value) {
		return 0, 0, false
	}
	if minus {
		return value, -value, true
	}
	return value, value, true
}

// improvedBy reports whether a validation is better than the best one before.
func (b *Best) improvedBy(name string, rank float64) bool {
	if b == nil || b.Metric != name {
		return true
	}
	before := b.Value
	if strings.HasPrefix(name, "-") {
		before = -before
	}
	return rank > before
}

// compareBest saves the policy if a validation is better than all before.
func (p *progress) compareBest(
	ctx context.Context, c *config.TrainerConfig, to Checkpointer, step int, m track.Metrics, log *slog.Logger,
) error {
	name := c.BestMetric
	if !c.BestActor || to == nil {
		return nil
	}
	value, rank, ok := rankedMetric(m, name)
	if !ok {
		log.Warn("metric for the best policy not found in the validation", "trainer.best_actor_metric", name, "step", step)
		return nil
	}
	if !p.Best.improvedBy(name, rank) {
		return nil
	}
	b := Best{Step: step, Metric: name, Value: value}
	if err := to.KeepBest(ctx, b); err != nil {
		return err
	}
	p.Best = &b
	return nil
}
