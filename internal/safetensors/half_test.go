package safetensors

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
)

func TestEveryHalfSurvivesConversionToFloat32(t *testing.T) {
	for h := range 1 << 16 {
		v := floats.FromHalf(uint16(h))
		if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			require.True(t, math.IsNaN(float64(v)))
			require.True(t, math.IsNaN(float64(floats.FromHalf(toHalf(v)))))
			continue
		}
		require.Equal(t, uint16(h), toHalf(v), "%#x", h)
	}
}

func TestHalfKnownValues(t *testing.T) {
	for h, want := range map[uint16]float64{
		0x0001: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14),
		0x3555: 0.333251953125, 0x7bff: 65504, 0xc000: -2, 0x7c00: math.Inf(1),
	} {
		require.Equal(t, want, float64(floats.FromHalf(h)))
	}
}

// TestRoundingGoesToTheNearestAndTiesToEven for neighbours a and b: the middle is rounded to
// the even one, other numbers to the nearer one.
func TestRoundingGoesToTheNearestAndTiesToEven(t *testing.T) {
	check := func(t *testing.T, lo uint16, widen func(uint16) float32, round func(float32) uint16) {
		a, b := widen(lo), widen(lo+1)
		mid := float32((float64(a) + float64(b)) / 2) // exact: one bit more
		even := lo + lo&1
		require.Equal(t, even, round(mid), "%#x", lo)
		require.Equal(t, lo, round(math.Nextafter32(mid, 0)), "%#x", lo)
		require.Equal(t, lo+1, round(math.Nextafter32(mid, b*2)), "%#x", lo)
		require.Equal(t, even|0x8000, round(-mid), "%#x", lo)
	}
	for lo := uint16(0); lo < 0x7bff; lo++ {
		check(t, lo, floats.FromHalf, toHalf)
	}
	brain := func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
	for lo := uint16(0); lo < 0x7f7f; lo++ {
		check(t, lo, brain, toBFloat16)
	}
	require.Equal(t, uint16(0x7c00), toHalf(65520))
	require.Equal(t, uint16(0x7bff), toHalf(math.Nextafter32(65520, 0)))
	require.True(t, math.IsNaN(float64(brain(toBFloat16(math.Float32frombits(0x7f800001))))), "a NaN with low bits only")
	require.Equal(t, float32(1.0078125), brain(toBFloat16(1.00781)))
}
