package plot_test

import (
	"bytes"
	"image/png"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/track/curve/plot"
)

// TestLinesAreDrawnInTheFormatOfTheName: PNG and SVG, equal bytes for equal lines, and an
// error for a format that does not exist.
func TestLinesAreDrawnInTheFormatOfTheName(t *testing.T) {
	l := plot.Lines{Title: "success", Label: "share", Lines: []plot.Line{
		{Name: "first run", Points: [][2]float64{{1, 0.2}, {2, math.NaN()}, {3, 0.6}}},
		{Name: "second run", Points: [][2]float64{{1, 0.1}, {2, 0.4}}},
		{Name: "nothing finite", Points: [][2]float64{{1, math.Inf(1)}}},
	}}
	dir := t.TempDir()
	read := func(name string) []byte {
		require.NoError(t, l.Write(filepath.Join(dir, name)))
		return testkit.Read(t, filepath.Join(dir, name))
	}
	m, err := png.Decode(bytes.NewReader(read("a.png")))
	require.NoError(t, err)
	require.Greater(t, m.Bounds().Dx(), m.Bounds().Dy())
	drawing := string(read("a.svg"))
	require.Contains(t, drawing, "second run")
	require.NotContains(t, drawing, "nothing finite", "a run without values has no entry in the legend")
	require.Equal(t, drawing, string(read("b.svg")))
	require.Error(t, l.Write(filepath.Join(dir, "a.bmp2")))
}
