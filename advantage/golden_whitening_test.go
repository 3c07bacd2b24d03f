package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestGoldenWhitening(t *testing.T) {
	golden.Each(t, "algorithms/masked_stats.json", func(c *golden.Run) {
		full, width := flat(c, c.Inputs, "values")
		x, in := narrow(full), bools(c.Flat(c.Inputs, "mask"))
		c.Tolerance = storage(c.Tolerance, 1)
		var w Whitening
		if golden.Param[string](c, "flavour") != "fork" {
			w = GuardedWhitening()
		}
		m := momentsOf(x, in)
		number := func(name string, got float64) {
			if c.Expected[name] != nil {
				c.Number(name, got)
			}
		}
		n := float64(m.N)
		guarded := w.moments(m)
		number("sum", n*m.Mean)
		number("mean", guarded.Mean)
		number("var_biased", guarded.M2/n)
		number("var", guarded.M2/(n-1))
		if c.Expected["row_mean"] != nil {
			var got []float64
			for lo := 0; lo < len(x); lo += width {
				got = append(got, w.moments(momentsOf(x[lo:lo+width], in[lo:lo+width])).Mean)
			}
			golden.Numbers(c, "row_mean", got)
		}
		for name, keep := range map[string]bool{"whiten": false, "whiten_keep_mean": true} {
			w.KeepMean = keep
			got := make([]float32, len(x))
			_, err := w.Apply(got, x, in)
			require.NoError(c, err)
			golden.Numbers(c, name, got)
		}
	})
}
