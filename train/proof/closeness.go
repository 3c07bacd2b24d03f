package proof

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"vagen/internal/floats"
	"vagen/rollout"
	"vagen/train/track"
)

// Tolerances for a step that is replayed on another kind of machine than it was trained
// on. Sampled tokens can differ there, because a token is drawn where the cumulated
// probability passes a random number; then only the log-probs up to that token are
// compared, and no metrics.
const (
	LogProbTolerance = 1e-3 // absolute, of a token's log-prob, in float32
	BFloat16Factor   = 50   // the factor by which it is larger with model.bfloat16
	metricTolerance  = 1e-2 // of a metric, relative to the larger of the two values and 0.1
)

// Closeness is how much the numbers of a replayed step differ from the recorded ones.
type Closeness struct {
	Episodes int     // number of episodes with the same tokens
	Tokens   int     // number of tokens before the first one that differs, over all conversations
	LogProb  float64 // largest absolute difference of a log-prob among them

	Metric      string  // the metric with the largest relative difference; "" if all are equal
	MetricRatio float64 // this difference, relative to the larger value and 0.1
}

// Within returns an error that names the first tolerance that is exceeded. all is the
// number of episodes, limit the tolerance for log-probs: LogProbTolerance, or
// BFloat16Factor times that.
func (c *Closeness) Within(all int, limit float64) error {
	if !(c.LogProb <= limit) {
		return fmt.Errorf("proof: log-prob: the largest difference is %.2g, at most %.2g is allowed", c.LogProb, limit)
	}
	if c.Episodes == all && !(c.MetricRatio <= metricTolerance) {
		return fmt.Errorf("proof: %s: the relative difference is %.2g, at most %.2g is allowed", c.Metric, c.MetricRatio,
			metricTolerance)
	}
	if c.Tokens == 0 {
		return fmt.Errorf("proof: no token is equal to the recorded one")
	}
	return nil
}

// AddEpisodes compares log-probs up to the first token that differs. Pairs with a nil episode are not compared.
func (c *Closeness) AddEpisodes(was, is []*rollout.Trajectory) {
	for i := range min(len(was), len(is)) {
		if was[i] == nil || is[i] == nil {
			continue
		}
		same := len(was[i].Rows) == len(is[i].Rows)
		for r := range min(len(was[i].Rows), len(is[i].Rows)) {
			if !c.addRow(&was[i].Rows[r], &is[i].Rows[r]) {
				same = false
				break // later conversations follow from other responses
			}
		}
		if same {
			c.Episodes++
		}
	}
}

// addRow reports whether the tokens of a conversation are equal.
func (c *Closeness) addRow(was, is *rollout.Row) bool {
	a, b := was.Tokens(), is.Tokens()
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return false
		}
		c.Tokens++
		if i >= len(was.LogProbs) || i >= len(is.LogProbs) { // of a row whose policy reports none
			continue
		}
		d := math.Abs(float64(was.LogProbs[i]) - float64(is.LogProbs[i]))
		if d > c.LogProb || math.IsNaN(d) {
			c.LogProb = d
		}
	}
	return len(a) == len(b)
}

// AddMetrics finds the metric with the largest relative difference. Metrics of time and
// machine are not compared.
func (c *Closeness) AddMetrics(was, is track.Metrics) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		x, y := was[name], is[name]
		if track.MachineMetric(name) || x == y || !floats.Finite(x) && !floats.Finite(y) {
			continue
		}
		ratio := math.Abs(x-y) / max(math.Abs(x), math.Abs(y), 0.1)
		if !floats.Finite(ratio) {
			ratio = math.Inf(1)
		}
		if ratio > c.MetricRatio {
			c.Metric, c.MetricRatio = name, ratio
		}
	}
}
