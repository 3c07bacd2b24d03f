package train

import (
	"context"
	"math"
	"strings"

	"vagen/train/track"
)

// Best is the best validation of a run.
type Best struct {
	Step   int     `json:"step"`
	Metric string  `json:"metric"` // trainer.best_actor_metric
	Value  float64 `json:"value"`
}

// figure is a metric by its name; with a minus in front it is turned around, so
// that more is always better.
func figure(m track.Metrics, name string) (value, rank float64, ok bool) {
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

// compareBest keeps the policy if a validation was better than all before it.
func (t *Trainer) compareBest(ctx context.Context, step int, m track.Metrics) error {
	name := t.Config.Trainer.BestMetric
	if !t.Config.Trainer.BestActor || t.KeepBest == nil {
		return nil
	}
	value, rank, ok := figure(m, name)
	if !ok {
		t.Log.Warn("the validation does not have the metric that tells the best policy", "trainer.best_actor_metric", name, "step", step)
		return nil
	}
	if b := t.best; b != nil && b.Metric == name {
		was := b.Value
		if strings.HasPrefix(name, "-") {
			was = -was
		}
		if rank <= was {
			return nil
		}
	}
	b := Best{Step: step, Metric: name, Value: value}
	if err := t.KeepBest(ctx, b); err != nil {
		return err
	}
	t.best = &b
	return nil
}
