package advantage

import (
	"testing"

	"vagen/internal/golden"
)

func TestGoldenLite(t *testing.T) {
	const file = "algorithms/lite_gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss = r.mask(t, "response_mask")
		est := Lite{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: true}
		raw := est
		raw.Whiten = false
		r.compare(t, tally, est, raw)
	}
}

func TestGoldenRLOO(t *testing.T) {
	const file = "algorithms/rloo.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss = r.mask(t, "eos_mask")
		r.batch.Group = ids(t, c.Inputs, "index")
		r.compare(t, tally, RLOO{}, nil)
	}
}

func TestGoldenReinforcePlusPlus(t *testing.T) {
	const file = "algorithms/reinforce_plus_plus.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss = r.mask(t, "eos_mask")
		r.compare(t, tally, ReinforcePlusPlus{Gamma: r.param(t, "gamma"), Whiten: true}, nil)
	}
}

func TestGoldenReMax(t *testing.T) {
	const file = "algorithms/remax.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss = r.mask(t, "eos_mask")
		golden.Need(t, c.Inputs, "reward_baselines", &r.batch.Baselines)
		r.compare(t, tally, ReMax{}, nil)
	}
}

func TestGoldenNoConcat(t *testing.T) {
	const file = "algorithms/no_concat_gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_scores")
		r.batch.Loss = r.mask(t, "response_mask")
		r.batch.Group = ids(t, c.Inputs, "group_idx")
		r.batch.Trajectory = ids(t, c.Inputs, "traj_idx")
		golden.Need(t, c.Inputs, "turn_idx", &r.batch.Turn)
		var variant string
		golden.Need(t, c.Params, "variant", &variant)
		if ignore := r.param(t, "ignore_value"); ignore != IgnoreReturn {
			t.Fatalf("%s: ignore_value %v, want %v", c.Name, ignore, IgnoreReturn)
		}
		est := NoConcat{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: true}
		switch variant {
		case "no_concat_gae":
		case "no_concat_gae_last":
			est.Last = true
		default:
			t.Fatalf("%s: variant %q", c.Name, variant)
		}
		r.compare(t, tally, est, nil)
	}
}

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
		if want, _ := flatRow(t, c, "row_mean"); want != nil {
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
			if _, err := w.Apply(got, x, in); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			golden.Floats(t, tally, c.Name+" "+name, got, want, tol)
		}
	}
}

func flatRow(t testing.TB, c golden.Case, name string) ([]float64, bool) {
	t.Helper()
	var out []float64
	ok := golden.Decode(t, c.Expected, name, &out)
	return out, ok
}
