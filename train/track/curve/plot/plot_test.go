package plot_test

import (
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/track"
	"vagen/train/track/curve"
	"vagen/train/track/curve/plot"
)

// drawn writes a curve and decodes it.
func drawn(t *testing.T, c *curve.Curve) image.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "curve.png")
	require.NoError(t, plot.PNG(c, path))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	im, err := png.Decode(f)
	require.NoError(t, err)
	require.Greater(t, im.Bounds().Dx(), 400)
	require.Greater(t, im.Bounds().Dy(), 240)
	return im
}

// ink counts the pixels of a colour.
func ink(im image.Image, want color.RGBA) (n int) {
	b := im.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := im.At(x, y).RGBA()
			if uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(bl>>8) == want.B {
				n++
			}
		}
	}
	return n
}

var (
	inkVal   = color.RGBA{24, 78, 150, 255}
	inkTrain = color.RGBA{150, 186, 226, 255}
)

// TestTheCurveShowsTrainingAndValidation looks for pixels of both lines' colours, which
// exist once there are points.
func TestTheCurveShowsTrainingAndValidation(t *testing.T) {
	c := &curve.Curve{Train: "train/success", Val: "val/success", Title: "T", Label: "success",
		Marks: []curve.Mark{{Name: "chance", Value: 0.2}, {Name: "best", Value: 1.5}}}
	im := drawn(t, c)
	require.Zero(t, ink(im, inkVal)+ink(im, inkTrain), "nothing has been collected")
	for step := range 20 {
		x := float64(step) / 20
		require.NoError(t, c.Event(track.Event{Kind: "step", Step: step + 1,
			Metrics: track.Metrics{"train/success": x, "train/score": 5}}))
		if step%5 == 0 {
			require.NoError(t, c.Event(track.Event{Kind: "validate", Step: step, Metrics: track.Metrics{"val/success": x / 2}}))
		}
		require.NoError(t, c.Event(track.Event{Kind: "save", Step: step}))
	}
	im = drawn(t, c)
	require.Positive(t, ink(im, inkVal))
	require.Positive(t, ink(im, inkTrain))
	first, last := c.Ends()
	require.Equal(t, 0.0, first)
	require.Equal(t, 0.375, last)
	require.NoError(t, c.Close())
}

// TestGapsInACurveStayGaps: an event without the metric, or with a value that is not
// finite, adds no point: it draws no 0 and does not end the line.
func TestGapsInACurveStayGaps(t *testing.T) {
	c := &curve.Curve{Train: "a", Val: "b"}
	for step, y := range []float64{0.5, math.NaN(), math.Inf(1), math.Inf(-1), 0.75} {
		require.NoError(t, c.Event(track.Event{Kind: "validate", Step: step, Metrics: track.Metrics{"b": y}}))
		require.NoError(t, c.Event(track.Event{Kind: "step", Step: step, Metrics: track.Metrics{"a": y}}))
	}
	require.NoError(t, c.Event(track.Event{Kind: "validate", Step: 9}))
	first, last := c.Ends()
	require.Equal(t, 0.5, first)
	require.Equal(t, 0.75, last)
	drawn(t, c)
}

func TestCurvesReportWhatTheyCannotDraw(t *testing.T) {
	c := new(curve.Curve)
	require.ErrorContains(t, plot.PNG(c, filepath.Join(t.TempDir(), "absent", "curve.png")), "plot: ")
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 250)) // there is no room for the name of a temporary file
	testkit.Write(t, path, "of an earlier step")
	require.ErrorContains(t, plot.PNG(c, path), "plot: ")
	require.Equal(t, "of an earlier step", testkit.Text(t, path))
	c.Marks = []curve.Mark{{Name: "bad", Value: math.NaN()}}
	require.ErrorContains(t, plot.PNG(c, filepath.Join(t.TempDir(), "curve.png")), "plot: ")
}

// TestMarksOfOneValueShareALabel, which would cover each other otherwise.
func TestMarksOfOneValueShareALabel(t *testing.T) {
	of := func(marks ...curve.Mark) image.Image { return drawn(t, &curve.Curve{Marks: marks}) }
	low, high := curve.Mark{Name: "random", Value: 0.1}, curve.Mark{Name: "greedy", Value: 1}
	two := of(low, high, curve.Mark{Name: "optimum", Value: 0.999})
	require.Equal(t, of(low, curve.Mark{Name: "greedy, optimum", Value: 1}), two)
	require.NotEqual(t, of(low, high), two)
}
