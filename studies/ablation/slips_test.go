package main

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/frozenlake"
	"vagen/internal/testkit"
)

// TestSlipsAreAsFrequentAsAsked: without slips a response states the truth; with them the share
// of wrong words is the asked one within four standard deviations, in both statements. Two words
// of an observation and one of a prediction have no alternative, and are counted as right words.
func TestSlipsAreAsFrequentAsAsked(t *testing.T) {
	const turns = 2000
	for _, slips := range []float64{0, 0.3, 1} {
		play := slippingPlayer(slips, 0.3)
		var observed, predicted float64
		for seed := range int64(turns) {
			e, err := newToldLake(world(0))
			require.NoError(t, err)
			_, err = e.Reset(t.Context(), seed)
			require.NoError(t, err)
			lake, ok := e.(*toldLake)
			require.True(t, ok)
			response, err := play(rand.New(rand.NewPCG(1, uint64(seed))), lake)
			require.NoError(t, err)
			out, err := e.Step(t.Context(), response)
			require.NoError(t, err)
			observed += out.Turn["observation_score"] / turns
			predicted += out.Turn["prediction_score"] / turns
		}
		// The mean of 6 (2) words per turn deviates by sqrt(0.3·0.7/12000) = 0.0042 (0.0072).
		require.InDelta(t, 1-slips*6/8, observed, 0.017, "observation")
		require.InDelta(t, 1-slips*2/3, predicted, 0.029, "prediction")
	}
}

// TestMovesFollowWhatIsStated, not what is true.
func TestMovesFollowWhatIsStated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		told string
		want []frozenlake.Action
	}{
		{"goal up left free Left Down Right Up", []frozenlake.Action{frozenlake.Left, frozenlake.Up}},
		{"goal up left free hole Down Right Up", []frozenlake.Action{frozenlake.Up}},
		{"goal same left free none Down hole hole", []frozenlake.Action{frozenlake.Down}},
		{"goal down same free Left hole Right none", []frozenlake.Action{frozenlake.Left, frozenlake.Right}},
		{"goal down same free none hole none hole", []frozenlake.Action{frozenlake.Up}},
	} {
		var got []frozenlake.Action
		for range 64 {
			if a := follow(r, strings.Fields(c.told), frozenlake.Up); !slices.Contains(got, a) {
				got = append(got, a)
			}
		}
		slices.Sort(got)
		require.Equal(t, c.want, got, c.told)
	}
}

// TestTheStudyFromAStartThatMisreads has the setting of the longer study but for its lessons, and
// its own page.
func TestTheStudyFromAStartThatMisreads(t *testing.T) {
	o, err := parse([]string{"-slips"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join("runs", "ablation-slips"), filepath.Join("docs", "ablation-slips.md")},
		[]string{o.out, o.report})
	s, other := o.setting(), published()
	require.Equal(t, presets, s.presets)
	require.Equal(t, longer().steps, s.steps)
	require.Zero(t, s.lessons[0].slips, "without true statements the model does not learn to see")
	require.Positive(t, s.lessons[1].slips)
	require.Zero(t, other.lessons[1].slips, "the settings share no lessons")
	s.lessons[1].slips = 0
	s.steps, s.noise, s.follows, s.reasons = other.steps, other.noise, other.follows, other.reasons
	require.Equal(t, other, s)

	o.report, o.plan = filepath.Join(t.TempDir(), "page.md"), true
	require.NoError(t, report(o, nil, o.setting()))
	raw := testkit.Text(t, o.report)
	require.Contains(t, raw, "`go run ./studies/ablation -slips` wrote this page. It trains the five presets")
	o.seeds, o.first = 3, 7
	require.Contains(t, introduction(o.setting(), o),
		"`go run ./studies/ablation -slips -seeds 3 -first 7` wrote this page.")

	_, err = parse([]string{"-slips", "-long"}, io.Discard)
	require.ErrorContains(t, err, "-long, -slips and -echo")
}
