package main

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEstimatesAreThoseOfStudent: 4.604 and 2.776 are Student's t for 4 degrees of
// freedom at 99 % and 95 %, from printed tables.
func TestEstimatesAreThoseOfStudent(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5} // deviation √2.5
	e := estimateOf(x)
	require.InDelta(t, 3, e.mean, 1e-12)
	half := 2.7764 * math.Sqrt(2.5/5)
	require.InDelta(t, 3-half, e.low, 1e-3)
	require.InDelta(t, 3+half, e.high, 1e-3)

	zero := make([]float64, 5)
	shift := 4.6041*math.Sqrt(2.5/5) - 3 // moves the mean to where p is 0.01
	for i := range x {
		x[i] += shift
	}
	d, p := paired(x, zero)
	require.InDelta(t, 0.01, p, 1e-5)
	require.InDelta(t, 3+shift, d.mean, 1e-12)
	_, q := paired(zero, x)
	require.InDelta(t, p, q, 1e-12, "two-sided")
	_, p = paired(zero, zero)
	require.InDelta(t, 1, p, 0)
	_, p = paired([]float64{2, 2}, []float64{1, 1})
	require.InDelta(t, 0, p, 0)
}

// TestHolmStepsDown checks an example computed by hand: 0.01·4, 0.02·3, 0.03·2, 0.2,
// where the third must not be smaller than the second.
func TestHolmStepsDown(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.06, 0.04, 0.2, 0.06}, holm([]float64{0.03, 0.01, 0.2, 0.02}), 1e-12)
	require.InDeltaSlice(t, []float64{1, 1}, holm([]float64{0.9, 0.8}), 0)
	require.Empty(t, holm(nil))
}

// TestTheReportSaysWhatTheNumbersSay with a preset that is always worse, one that is
// always better, and two without a significant difference.
func TestTheReportSaysWhatTheNumbersSay(t *testing.T) {
	level := map[string][]float64{
		"vanilla_ppo": {0.30, 0.31, 0.29, 0.33}, "masked_grpo": {0.5, 0.7, 0.4, 0.8}, "turn_ppo": {0.8, 0.82, 0.79, 0.81},
		"vagen_base": {0.6, 0.62, 0.58, 0.60}, "vagen_full": {0.6, 0.61, 0.59, 0.61},
	}
	var all []result
	for seed := range 4 {
		for _, preset := range presets {
			x := level[preset][seed]
			all = append(all, result{Preset: preset, Seed: uint64(seed), Seconds: 30, Points: []point{{Step: 0, Success: 0.2}, {Step: 3, Success: x / 2}, {Step: 6, Success: x}}})
		}
	}
	path := filepath.Join(t.TempDir(), "docs", "ablation.md")
	require.NoError(t, report(options{report: path, note: "On a fast machine."}, all, []uint64{2, 7}, published()))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{
		"with 4 seeds each", "here 2, 7.", "| vagen_full | 0.603 |", "0.60 0.61 0.59 0.61", "![success over training](ablation.png)",
		"success at the end, vagen_full against vanilla_ppo: higher by 0.295 (p < 0.001)", "success at the end, vagen_full against turn_ppo: **lower** by 0.203 (p < 0.001)",
		"success at the end, vagen_full against masked_grpo: **not significant**", "success at the end, vagen_full against vagen_base: **not significant**",
		"mean success over training, vagen_full against vanilla_ppo: higher by 0.221", "took 10 minutes", "On a fast machine.",
	} {
		require.Contains(t, string(raw), want)
	}
	picture, err := os.Open(filepath.Join(filepath.Dir(path), "ablation.png"))
	require.NoError(t, err)
	defer picture.Close()
	_, err = png.Decode(picture)
	require.NoError(t, err)
}
