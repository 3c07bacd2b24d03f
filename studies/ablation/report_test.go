package main

import (
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/stats"
	"vagen/internal/testkit"
)

// TestPairsAreThoseOfStudent: 4.604 is Student's t for 4 degrees of freedom at 99 %, from a
// printed table.
func TestPairsAreThoseOfStudent(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5} // deviation √2.5
	zero := make([]float64, 5)
	shift := 4.6041*math.Sqrt(2.5/5) - 3 // moves the mean to where p is 0.01
	for i := range x {
		x[i] += shift
	}
	d, p := stats.Paired(x, zero)
	require.InDelta(t, 0.01, p, 1e-5)
	require.InDelta(t, 3+shift, d.Mean, 1e-12)
	_, q := stats.Paired(zero, x)
	require.InDelta(t, p, q, 1e-12, "two-sided")
	_, p = stats.Paired(zero, zero)
	require.InDelta(t, 1, p, 0)
	_, p = stats.Paired([]float64{2, 2}, []float64{1, 1})
	require.InDelta(t, 0, p, 0)
}

// TestHolmStepsDown checks an example computed by hand: 0.01·4, 0.02·3, 0.03·2, 0.2,
// where the third must not be smaller than the second.
func TestHolmStepsDown(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.06, 0.04, 0.2, 0.06}, stats.Holm([]float64{0.03, 0.01, 0.2, 0.02}), 1e-12)
	require.InDeltaSlice(t, []float64{1, 1}, stats.Holm([]float64{0.9, 0.8}), 0)
	require.Empty(t, stats.Holm(nil))
}

// TestTheReportSaysWhatTheNumbersSay with a preset that is always better, one that is always
// worse, and neighbours without a significant difference.
func TestTheReportSaysWhatTheNumbersSay(t *testing.T) {
	end := map[string][]float64{
		vanilla: {0.30, 0.31, 0.29, 0.33}, grpo: {0.5, 0.7, 0.4, 0.8}, turnPPO: {0.8, 0.82, 0.79, 0.81},
		base: {0.6, 0.62, 0.58, 0.60}, full: {0.7, 0.73, 0.69, 0.71},
	}
	var all []result
	for seed := range 4 {
		for _, preset := range presets {
			x := end[preset][seed]
			all = append(all, result{Preset: preset, Seed: uint64(seed),
				Points: []point{{Step: 0, Success: 0.2, Observation: 0.5}, {Step: 3, Success: x / 2},
					{Step: 6, Success: x, Observation: x}}})
		}
	}
	o := options{seeds: 4, report: filepath.Join(t.TempDir(), "docs", "ablation.md")}
	require.NoError(t, report(o, nil, published()))
	require.Contains(t, testkit.Text(t, o.report), "There are none yet")
	require.NoError(t, report(o, all, published()))
	raw := testkit.Text(t, o.report)
	for _, want := range []string{
		"with 4 seeds each, 0 to 3,", "| vagen_full | 0.708 |", "0.70 0.73 0.69 0.71",
		"![success over training](ablation.png)", "(ablation-seeing.png)",
		"| vagen_full − vagen_base | +0.107 | +0.100 to +0.115 | < 0.001 | < 0.001 | higher |",
		"| vagen_base − turn_ppo | -0.205 |", "**lower** |",
		"not significant |", "| observation, first turn: vagen_full, end − warm start | +0.207 |",
	} {
		require.Contains(t, raw, want)
	}
	for _, name := range []string{"ablation.png", "ablation-seeing.png"} {
		picture, err := os.Open(filepath.Join(filepath.Dir(o.report), name))
		require.NoError(t, err)
		defer picture.Close()
		_, err = png.Decode(picture)
		require.NoError(t, err)
	}
}

// TestTheLongerStudyComparesTwoPresets: its page has the two, their one contrast, and names its
// own command.
func TestTheLongerStudyComparesTwoPresets(t *testing.T) {
	o, err := parse([]string{"-long", "-seeds", "2"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join("runs", "ablation-long"), filepath.Join("docs", "ablation-long.md")},
		[]string{o.out, o.report})
	s := o.setting()
	require.Equal(t, 24, s.steps)
	o.report = filepath.Join(t.TempDir(), "ablation-long.md")
	var all []result
	for seed := range uint64(2) {
		for k, preset := range s.presets {
			x := 0.5 + 0.1*float64(k) + 0.01*float64(seed)
			all = append(all, result{Preset: preset, Seed: seed, Points: []point{{}, {Step: 24, Success: x, Observation: x}}})
		}
	}
	require.NoError(t, report(o, all, s))
	text := testkit.Text(t, o.report)
	for _, want := range []string{
		"`go run ./studies/ablation -long -seeds 2` wrote this page. It trains vagen_base and vagen_full with 2 seeds",
		"| vagen_full − vagen_base | +0.100 |", "(ablation-long.png)", "chosen after those\nresults were seen"} {
		require.Contains(t, text, want)
	}
	for _, other := range []string{"| masked_grpo", "| turn_ppo", "− vanilla_ppo", "NaN"} {
		require.NotContains(t, text, other)
	}

	o, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, filepath.Join("docs", "ablation.md"), o.report)
	require.Equal(t, presets, o.setting().presets)
}
