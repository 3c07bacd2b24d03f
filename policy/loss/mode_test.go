package loss

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModeOfIsTheModeThatEvalUses(t *testing.T) {
	for name, want := range map[string]Mode{
		"vanilla": "", "ppo": "", "cispo": "", "reinforce": "", "gpg": "", "clip_cov": "", "kl_cov": "",
		"gspo": SeqMeanTokenMean, "sapo": SeqMeanTokenMean, "gmpo": SeqMeanTokenMean, "geo_mean": SeqMeanTokenMean,
		"turn_gspo": SeqMeanTokenSum, "turn_ppo": SeqMeanTokenSum,
	} {
		p := built(t, name, DefaultOptions())
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
