package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tokens that Chosen names are those at which the gradient is another than
// that of the loss without the choice.
func TestChosenNamesTheTokensThatALossTreatsApart(t *testing.T) {
	for name, c := range map[string]struct{ loss, plain Policy }{
		"clip_cov": {ClipCov{Low: 0.2, High: 0.2, Ratio: 0.1, CovLow: 0.05, CovHigh: 50}, PPO{Low: 0.2, High: 0.2}},
		"kl_cov":   {KLCov{Ratio: 0.1, Coef: 0.7}, KLCov{Ratio: 0.1}},
		"ppo":      {LitePPO(), LitePPO()},
	} {
		t.Run(name, func(t *testing.T) {
			var dst []bool
			chosen := 0
			for seed := range uint64(20) {
				b := randomBatch(seed)
				b.Weight = nil
				var err error
				dst, err = Chosen(dst, c.loss, b)
				require.NoError(t, err)
				got, plain := mustEval(t, c.loss, Aggregation{}, b), mustEval(t, c.plain, Aggregation{}, b)
				for i, on := range dst {
					require.Equal(t, on, got.Grad[i] != plain.Grad[i], "token %d", i)
					if on {
						chosen++
					}
				}
				again, err := Chosen(nil, c.loss, narrow(b))
				require.NoError(t, err)
				require.Equal(t, dst, again, "storage does not matter here")
			}
			if name == "ppo" {
				require.Zero(t, chosen)
			} else {
				require.Greater(t, chosen, 20)
			}
		})
	}
}

func TestChosenChecksWhatItReads(t *testing.T) {
	b := randomBatch(1)
	_, err := Chosen(nil, ClipCov{Ratio: 2, CovHigh: 1}, b)
	require.ErrorIs(t, err, ErrSetting)
	_, err = Chosen(nil, KLCov{}, b)
	require.ErrorIs(t, err, ErrSetting)
	short := *b
	short.OldLogProb = short.OldLogProb[1:]
	_, err = Chosen(nil, DefaultClipCov(), &short)
	require.ErrorIs(t, err, ErrLength)
	at := slices.Index(b.Mask, true)
	b.LogProb[at], b.OldLogProb[at] = math.MaxFloat64, -math.MaxFloat64
	_, err = Chosen(nil, DefaultKLCov(), b)
	require.ErrorIs(t, err, ErrNotFinite)
}

func TestModeOfIsTheModeThatEvalUses(t *testing.T) {
	for name, want := range map[string]Mode{
		"vanilla": "", "ppo": "", "cispo": "", "reinforce": "", "gpg": "", "clip_cov": "", "kl_cov": "",
		"gspo": SeqMeanTokenMean, "sapo": SeqMeanTokenMean, "gmpo": SeqMeanTokenMean, "geo_mean": SeqMeanTokenMean,
		"turn_gspo": SeqMeanTokenSum, "turn_ppo": SeqMeanTokenSum,
	} {
		p, err := Builtin().New(name, DefaultOptions())
		require.NoError(t, err)
		got, err := ModeOf(p)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
		if want == "" {
			continue
		}
		b := randomBatch(3)
		require.Equal(t, mustEval(t, p, Aggregation{Mode: want}, b).Grad, mustEval(t, p, Aggregation{}, b).Grad, name)
	}
	_, err := ModeOf(nil)
	require.ErrorIs(t, err, ErrSetting)
	_, err = ModeOf(PPO{Low: -1})
	require.ErrorIs(t, err, ErrSetting)
}
