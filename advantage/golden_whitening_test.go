package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestGoldenWhitening(t *testing.T) {
	const file = "algorithms/masked_stats.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		full, width := flat(t, c.Inputs, "values")
		mask, _ := flat(t, c.Inputs, "mask")
		x, in := narrow(full), bools(mask)
		tol := storage(c.Tolerance, 1)
		var w Whitening
		var flavour string
		if golden.Need(t, c.Params, "flavour", &flavour); flavour != "fork" {
			w = GuardedWhitening()
		}
		m := momentsOf(x, in)
		number := func(name string, got float64) {
			var want float64
			if golden.Decode(t, c.Expected, name, &want) {
				tally.Float(t, c.Name+" "+name, got, want, tol)
			}
		}
		n := float64(m.N)
		guarded := w.moments(m)
		number("sum", n*m.Mean)
		number("mean", guarded.Mean)
		number("var_biased", guarded.M2/n)
		number("var", guarded.M2/(n-1))
		var want []float64
		if golden.Decode(t, c.Expected, "row_mean", &want) {
			got := make([]float64, 0, len(want))
			for lo := 0; lo < len(x); lo += width {
				got = append(got, w.moments(momentsOf(x[lo:lo+width], in[lo:lo+width])).Mean)
			}
			golden.Floats(t, tally, c.Name+" row_mean", got, want, tol)
		}
		for name, keep := range map[string]bool{"whiten": false, "whiten_keep_mean": true} {
			want, _ := flat(t, c.Expected, name)
			w.KeepMean = keep
			got := make([]float32, len(x))
			_, err := w.Apply(got, x, in)
			require.NoError(t, err, c.Name)
			golden.Floats(t, tally, c.Name+" "+name, got, want, tol)
		}
	}
}
