package learn_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// lossCases are objectives for every policy loss, and for the KL terms, with ranges so
// narrow that the batch exceeds them.
func lossCases() map[string]policy.Objective {
	cases := map[string]policy.Objective{
		"loss=":            {Policy: loss.PPO{Low: 0.1, High: 0.15, Dual: 1.3, Clamp: true}},
		"loss=custom":      {Policy: ownPPO{0.1, 0.15, 1.3}},
		"loss=custom turn": {Policy: ownLoss{Policy: loss.TurnGSPO{Low: 0.1, High: 0.15}}},
		"loss=custom gmpo": {Policy: ownLoss{Policy: loss.GMPO{Low: 0.1, High: 0.15}}},
	}
	options := loss.DefaultOptions()
	options.ClipLow, options.ClipHigh, options.DualClip = 0.1, 0.15, 1.3
	options.ClipCov.Ratio, options.ClipCov.CovLow, options.KLCov.Ratio, options.KLCov.Coef = 0.2, -0.05, 0.2, 0.7
	for _, name := range loss.Builtin().Names() {
		p, err := loss.Builtin().New(name, options)
		if err != nil {
			panic(err)
		}
		if loss.ChoiceOf(p) != (loss.Choice{}) { // compares tokens, which these batches do not have
			continue
		}
		if p != cases["loss="].Policy { // aliases are one loss
			cases["loss="+name] = policy.Objective{Policy: p}
		}
	}
	delete(cases, "loss=geo_mean")
	delete(cases, "loss=gpg")
	cases["unclamped"] = policy.Objective{Policy: loss.PPO{Low: 0.1, High: 0.1}}
	for name, o := range cases {
		o.Temperature, o.KL, o.KLCoef, o.EntropyCoef = 0.8, "k3", 0.2, 0.05
		cases[name] = o
	}
	for kind, name := range map[loss.KL]string{"kl": "gspo", "abs": "", "mse+": "custom", "low_var_kl+": "gspo"} {
		o := cases["loss="+name]
		o.KL = kind
		cases[name+", "+string(kind)] = o
	}
	return cases
}

// lossRows are rows of several turns with context between them.
func lossRows() (rows policy.Rows, mask []bool, turn []int32) {
	r := rand.New(rand.NewPCG(5, 6))
	rows.Offsets = []int{0}
	token := func(on bool, id int32) {
		rows.Tokens, mask, turn = append(rows.Tokens, r.Int32N(256)), append(mask, on), append(turn, id)
	}
	for _, turns := range []int32{3, 1, 4, 0, 2} {
		for id := range turns {
			for range 1 + r.IntN(3) {
				token(false, id)
			}
			for range 1 + r.IntN(5) {
				token(true, id)
			}
		}
		if turns == 0 { // a row without a counted token
			token(false, 0)
			token(false, 0)
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	return rows, mask, turn
}

// lossBatch is a batch with numbers near the model's current ones.
func lossBatch(t *testing.T, m *Model, temperature float64) (b *policy.Batch, mask []bool, s *policy.Scores) {
	t.Helper()
	rows, mask, turn := lossRows()
	s, err := m.Score(t.Context(), &rows, mask, policy.ScoreRequest{LogProbs: true, Entropy: true}, temperature)
	require.NoError(t, err)
	b = &policy.Batch{Rows: rows, Turn: turn, Seed: 3}
	r := rand.New(rand.NewPCG(8, 9))
	around := func(spread float64) []float32 {
		out := make([]float32, len(mask))
		for i := range out {
			out[i] = s.LogProbs[i] + float32(spread*r.NormFloat64())
		}
		return out
	}
	b.OldLogProbs, b.Reference = around(0.3), around(0.4)
	b.Advantages, b.RolloutWeight = make([]float32, len(mask)), make([]float32, len(mask))
	for i := range mask {
		b.Advantages[i], b.RolloutWeight[i] = float32(r.NormFloat64()), float32(0.4+r.Float64())
	}
	return b, mask, s
}

// weigh fills in the weights of a batch for an objective.
func weigh(t *testing.T, b *policy.Batch, o policy.Objective, mask []bool) {
	t.Helper()
	mode, err := loss.ModeOf(o.PolicyLoss())
	require.NoError(t, err)
	share := func(mode loss.Mode) []float32 {
		w, err := loss.Aggregation{Mode: mode}.Weights(nil, b.Offsets, mask)
		require.NoError(t, err)
		out := make([]float32, len(w))
		for i, x := range w {
			out[i] = float32(x)
		}
		return out
	}
	b.Weight, b.AuxWeight = share(mode), nil
	if mode != "" {
		b.AuxWeight = share(loss.SeqMeanTokenMean)
	}
}

// plain is the same step in plain Go: its value, its slopes, and what it reports.
func plain(t *testing.T, b *policy.Batch, o policy.Objective, s *policy.Scores) (*policy.Evaluation, policy.Stats) {
	t.Helper()
	e, err := o.Eval(b, s)
	require.NoError(t, err)
	var stats policy.Stats
	e.Report(&stats)
	return e, stats
}

// gradientsBy returns the gradients of the policy by name, and the statistics.
func gradientsBy(t *testing.T, m *Model, b *policy.Batch, o policy.Objective) (map[string][]float32, policy.Stats) {
	t.Helper()
	stats, err := m.Accumulate(t.Context(), b, o)
	require.NoError(t, err)
	defer m.Sets.Actor.DropGradients()
	return Read(t, OpenSums(m.Sets.Actor.Open)), stats
}

// chained is the gradient of a loss whose derivatives by log-prob are given: imitation
// with the derivatives as weights, which other tests compare with recorded
// gradients.
func chained(t *testing.T, m *Model, b *policy.Batch, temperature float64, slopes []float64) map[string][]float32 {
	t.Helper()
	w := make([]float32, len(slopes))
	for i, x := range slopes {
		w[i] = float32(-x)
	}
	g, _ := gradientsBy(t, m, &policy.Batch{Rows: b.Rows, Weight: w},
		policy.Objective{Imitate: true, Temperature: temperature})
	return g
}

// TestEveryLossHasThePlainGradientHoweverItIsPacked compares Update's gradient with the
// derivatives that package loss computes from Score's log-probs, passed backward through the
// network: for all rows in one pack, and for packs and chunks of the head that divide the
// rows of a step.
func TestEveryLossHasThePlainGradientHoweverItIsPacked(t *testing.T) {
	dir := Folder(t, model.Qwen3, nil)
	whole := Open(t, dir, Options{HeadTokens: 64})
	split := Open(t, dir, Options{MicroTokens: 32, HeadTokens: 16})
	var batches [][]*net.Pack
	for _, m := range []*Model{whole, split} {
		rows, mask, _ := lossRows()
		packs, err := m.Sets.Packer(m.Net).Packs(&rows, mask)
		require.NoError(t, err)
		batches = append(batches, packs)
	}
	require.Greater(t, len(batches[1]), len(batches[0]), "the second model must see several packs")
	for name, o := range lossCases() {
		t.Run(name, func(t *testing.T) {
			b, mask, scores := lossBatch(t, whole, o.Temperature)
			weigh(t, b, o, mask)
			e, want := plain(t, b, o, scores)
			require.NoError(t, learn.CheckUpdate(b, &o, false))
			switch o.Policy.(type) {
			case loss.PPO, loss.GSPO, loss.TurnGSPO, loss.TurnPPO, loss.CISPO, loss.GMPO, loss.ClipCov, loss.M2PO, loss.LUSPO,
				ownPPO, ownLoss:
				require.Positive(t, want.ClipFrac, "the batch must reach the clip")
			}
			noEntropy := o
			noEntropy.EntropyCoef = 0
			grads := chained(t, whole, b, o.Temperature, e.Slopes.LogProbs)
			for _, m := range []*Model{whole, split} {
				got, s := gradientsBy(t, m, b, noEntropy)
				requireGradients(t, grads, got)
				require.InDelta(t, want.PolicyLoss, s.PolicyLoss, 1e-5, "policy loss")
				require.InDelta(t, want.KL, s.KL, 1e-5, "KL")
				require.InDelta(t, want.RatioMax, s.RatioMax, 1e-4, "largest ratio")
				require.InDelta(t, want.Entropy, s.Entropy, 1e-5*want.Entropy, "entropy")
				require.ElementsMatch(t, slices.Collect(maps.Keys(want.Metrics)), slices.Collect(maps.Keys(s.Metrics)))
				for key, x := range want.Metrics {
					require.InDelta(t, x, s.Metrics[key], 1e-4, key)
				}
			}

			// The entropy term is a term of its own, the same next to every loss.
			if name == "loss=" || name == "loss=gspo" || name == "loss=custom turn" {
				got, _ := gradientsBy(t, split, b, o)
				requireGradients(t, sum(grads, entropyGradient(t, whole, b, o)), got)
			}
		})
	}
}

func sum(a, b map[string][]float32) map[string][]float32 {
	out := map[string][]float32{}
	for name, x := range a {
		out[name] = make([]float32, len(x))
		for i := range x {
			out[name][i] = x[i] + b[name][i]
		}
	}
	return out
}

// entropyGradient is that of PPO without advantages: of the entropy alone.
func entropyGradient(t *testing.T, m *Model, b *policy.Batch, o policy.Objective) map[string][]float32 {
	t.Helper()
	c := *b
	c.Advantages, c.RolloutWeight = make([]float32, len(b.Tokens)), nil
	if b.AuxWeight != nil {
		c.Weight, c.AuxWeight = b.AuxWeight, nil
	}
	g, _ := gradientsBy(t, m, &c, policy.Objective{Temperature: o.Temperature, EntropyCoef: o.EntropyCoef})
	return g
}
