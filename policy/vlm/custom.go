package vlm

import (
	"errors"
	"fmt"
	"maps"
	"math"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
)

// evalCustom is the second phase of a step with a policy loss that has no graph: it is
// evaluated in plain Go, with the KL term. Entropy and value terms stay in the graph of
// the third phase, as with joint losses.
func evalCustom(s *step, packs []*pack, logProb []float32) (*jointResult, error) {
	b := *s.batch
	b.Weight = make([]float32, len(b.Tokens)) // without the first tokens of rows, which have no log-prob
	for _, at := range jointTokens(s.batch, packs, false).source {
		b.Weight[at] = s.batch.Weight[at]
	}
	r := &jointResult{slopes: make([]float32, len(b.Tokens)), sums: make([]float64, model.Stats)}
	e, err := s.objective.Eval(&b, logProb)
	if errors.Is(err, loss.ErrNotFinite) {
		// As with losses that have a graph, the gradient is not finite, so the step is skipped.
		for i, w := range b.Weight {
			if w != 0 {
				r.slopes[i] = float32(math.NaN())
			}
		}
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("vlm: update: %w", err)
	}
	for i, x := range e.Slope {
		r.slopes[i] = float32(x)
	}
	var stats policy.Stats
	e.Report(&stats, &b)
	weight := total(b.Weight)
	r.sums[model.StatPolicy], r.sums[model.StatKL], r.sums[model.StatApproxKL] = e.Loss, e.KL, e.ApproxKL
	r.sums[model.StatClipped], r.sums[model.StatClippedLow] = stats.ClipFrac*weight, stats.ClipFracLow*weight
	r.sums[model.StatRatioMax] = stats.RatioMax
	r.metrics = maps.Collect(e.Metrics.All())
	return r, nil
}
