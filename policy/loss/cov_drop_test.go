package loss

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tokens that DroppedByClipCov names are those to which ClipCov gives no
// gradient although PPO would.
func TestDroppedByClipCovNamesTheTokensThatClipCovDrops(t *testing.T) {
	p := ClipCov{Low: 0.2, High: 0.2, Ratio: 0.1, CovLow: 0.05, CovHigh: 50}
	var dst []bool
	dropped := 0
	for seed := range uint64(20) {
		b := randomBatch(seed)
		b.Weight = nil
		var err error
		dst, err = DroppedByClipCov(dst, p, b)
		require.NoError(t, err)
		all := mustEval(t, PPO{Low: p.Low, High: p.High}, Aggregation{}, b)
		left := mustEval(t, p, Aggregation{}, b)
		for i, out := range dst {
			want := all.Grad[i]
			if out {
				dropped++
				require.True(t, b.Mask[i])
				require.NotZero(t, want)
				want = 0
			}
			require.Equal(t, want, left.Grad[i])
		}
		again, err := DroppedByClipCov(nil, p, narrow(b))
		require.NoError(t, err)
		require.Equal(t, dst, again, "storage does not matter here")
	}
	require.Greater(t, dropped, 20)
}

func TestDroppedByClipCovChecksWhatItReads(t *testing.T) {
	b := randomBatch(1)
	_, err := DroppedByClipCov(nil, ClipCov{Ratio: 2, CovHigh: 1}, b)
	require.ErrorIs(t, err, ErrSetting)
	short := *b
	short.OldLogProb = short.OldLogProb[1:]
	_, err = DroppedByClipCov(nil, DefaultClipCov(), &short)
	require.ErrorIs(t, err, ErrLength)
	at := slices.Index(b.Mask, true)
	b.LogProb[at], b.OldLogProb[at] = math.MaxFloat64, -math.MaxFloat64
	_, err = DroppedByClipCov(nil, DefaultClipCov(), b)
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
