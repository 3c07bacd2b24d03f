package rays

import (
	"image/color"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSolidsAreHitWhereTheyAre(t *testing.T) {
	for _, f := range []Form{Box, Tube, Globe} {
		s := Solid{Form: f, Lo: Vec{-1, 0, 4}, Hi: Vec{1, 2, 8}}
		at, normal, ok := s.Hit(Vec{0, 1, 0}, Vec{0, 0, 1})
		require.True(t, ok)
		require.InDelta(t, 4, at, 1e-12)
		require.InDelta(t, -1, normal.Z, 1e-12)
		at, normal, ok = s.Hit(Vec{0, 5, 6}, Vec{0, -2, 0})
		require.True(t, ok)
		require.InDelta(t, 1.5, at, 1e-12)
		require.InDelta(t, 1, normal.Y, 1e-12)
		for _, miss := range []Vec{{0, 0, -1}, {1, 0, 0}, {0, 1, 0}, {1, 0, 1}} {
			_, _, ok = s.Hit(Vec{0, 1, 0}, miss)
			require.False(t, ok, "%v %v", f, miss)
		}
		// The corner of the box belongs to the box alone.
		_, _, ok = s.Hit(Vec{-0.95, 5, 4.1}, Vec{0, -1, 0})
		require.Equal(t, f == Box, ok)
	}
}

// A box of 2 by 4, turned by a right angle, is one of 4 by 2; turned by 45
// degrees, a square box shows an edge.
func TestTurnedSolidsAreHitWhereTheyTurned(t *testing.T) {
	s := Solid{Lo: Vec{-1, 0, 4}, Hi: Vec{1, 2, 8}, Yaw: 90}
	at, normal, ok := s.Hit(Vec{1.9, 1, 0}, Vec{0, 0, 1})
	require.True(t, ok)
	require.InDelta(t, 5, at, 1e-12)
	require.InDelta(t, -1, normal.Z, 1e-12)
	s = Solid{Lo: Vec{-1, 0, 4}, Hi: Vec{1, 2, 6}, Yaw: 45}
	at, _, ok = s.Hit(Vec{1e-9, 1, 0}, Vec{0, 0, 1})
	require.True(t, ok)
	require.InDelta(t, 5-math.Sqrt2, at, 1e-6)
	_, normal, ok = s.Hit(Vec{0.5, 1, 0}, Vec{0, 0, 1})
	require.True(t, ok)
	require.InDelta(t, math.Sqrt2/2, normal.X, 1e-9, "to the right of the edge one sees the side that faces right")
	require.InDelta(t, -math.Sqrt2/2, normal.Z, 1e-9)
	_, _, ok = s.Hit(Vec{1.5, 1, 0}, Vec{0, 0, 1})
	require.False(t, ok)
	// Clockwise from above: a long box that points ahead then points to the right.
	s = Solid{Lo: Vec{-0.1, 0, 0}, Hi: Vec{0.1, 1, 10}, Yaw: 45}
	_, _, ok = s.Hit(Vec{2, 5, 7}, Vec{0, -1, 0})
	require.True(t, ok)
	_, _, ok = s.Hit(Vec{-2, 5, 7}, Vec{0, -1, 0})
	require.False(t, ok)
}

func TestProjectAgreesWithWhatIsDrawn(t *testing.T) {
	red := color.RGBA{255, 0, 0, 255}
	w := World{
		Solids:     []Solid{{Form: Globe, Lo: Vec{0.8, 0.8, 2.8}, Hi: Vec{1.2, 1.2, 3.2}, Color: red}},
		Background: func(Vec, Vec) (float64, color.RGBA, int32) { return math.Inf(1), color.RGBA{0, 0, 0, 255}, 1 },
		Shade:      func(c color.RGBA, _ Vec, _ float64) color.RGBA { return c },
	}
	for _, eye := range []Eye{{FOV: 60}, {FOV: 90, Pitch: 10}, {FOV: 60, Yaw: 30, Pitch: -20}, {FOV: 60, Yaw: 180},
		{FOV: 100, At: Vec{0, 2, -1}, Pitch: 30}} {
		const size = 150
		img := w.Draw(eye, size)
		n, cx, cy := 0.0, 0.0, 0.0
		for y := range size {
			for x := range size {
				if img.RGBAAt(x, y).R > 127 {
					n, cx, cy = n+1, cx+float64(x)+0.5, cy+float64(y)+0.5
				}
			}
		}
		px, py, ahead := eye.Project(Vec{1, 1, 3})
		if ahead < 0 {
			require.Zero(t, n)
			continue
		}
		require.Greater(t, n, 20.0, "%v", eye)
		require.InDelta(t, (px+1)*size/2, cx/n, 1.5, "%v", eye)
		require.InDelta(t, (1-py)*size/2, cy/n, 1.5, "%v", eye)
		require.Equal(t, img, w.Draw(eye, size))
	}
}

func TestFirstIsTheNearest(t *testing.T) {
	solids := []Solid{{Lo: Vec{-1, -1, 5}, Hi: Vec{1, 1, 6}}, {Lo: Vec{-1, -1, 2}, Hi: Vec{1, 1, 3}},
		{Lo: Vec{-1, -1, -3}, Hi: Vec{1, 1, -2}}}
	i, at := First(solids, Vec{}, Vec{0, 0, 1})
	require.Equal(t, 1, i)
	require.InDelta(t, 2, at, 1e-12)
	i, _ = First(solids, Vec{}, Vec{0, 1, 0})
	require.Equal(t, -1, i)
}

func TestRightAnglesAreExact(t *testing.T) {
	for _, c := range []struct{ degrees, sin, cos float64 }{{0, 0, 1}, {90, 1, 0}, {180, 0, -1}, {270, -1, 0},
		{-90, -1, 0}, {450, 1, 0}} {
		sin, cos := SinCos(c.degrees)
		require.Equal(t, c.sin, sin)
		require.Equal(t, c.cos, cos)
	}
	sin, cos := SinCos(30)
	require.InDelta(t, 0.5, sin, 1e-12)
	require.InDelta(t, math.Sqrt(3)/2, cos, 1e-12)
}
