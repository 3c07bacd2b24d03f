package generate_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// packedTypes are the types of packed weights with a limit on how far log-probs of about 5 may be off: logits are sums
// of a few dozen products of numbers that are rounded by 1/256 of them, or 1/254 of the largest in their row.
var packedTypes = map[dtypes.DType]float64{dtypes.BFloat16: 0.1, dtypes.Int8: 0.3}

// Responses have the log-probs of rounded weights, which differ from those of training by little, but differ, in
// models with a head of their own and without, with adapters, and with programs of one layer. They are the same again,
// also with other rows beside them, and change with the weights. Nothing stays in memory.
func TestPackedWeightsWriteLikeTheWeights(t *testing.T) {
	for name, c := range map[string]struct {
		family  model.Family
		options Options
	}{
		"own head": {model.Qwen2, Options{}},
		"adapters": {model.Qwen25VL, Options{LoRA: Adapters()}},
		"divided":  {model.Qwen2, Options{Devices: 2, ShardWeights: true}},
		"by layer": {model.Qwen35Text, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(t, c.family, c.options)
			before, _ := m.Dev.Live()
			for to, limit := range packedTypes {
				m.Gen.Packed = to
				o := policy.Sampling{Temperature: 1, MaxTokens: 9}
				prompts := questions(3, false)
				written := Stories{}
				written.Play(t, m, prompts, o)
				_, during := m.Dev.Live()
				require.GreaterOrEqual(t, during, generate.PackedBytes(m.Net, to))
				m.Forget(KeysOf(prompts)...)
				off := mismatch(t, m, written)
				require.Less(t, off, limit, to)
				require.Greater(t, off, 1e-4, to)

				alone := Stories{}
				for _, p := range prompts {
					alone.Play(t, m, []policy.Prompt{p}, o)
				}
				m.Forget(KeysOf(prompts)...)
				for key, s := range written {
					alone[key].RequireLike(t, s)
				}
				m.Train(t, 1)
				after, _ := m.Dev.Live()
				require.Empty(t, m.Gen.Narrowed, "copies of weights that have changed")
				again := Stories{}
				again.Play(t, m, prompts, o)
				require.NotEqual(t, written, again, "with new weights")
				require.Less(t, mismatch(t, m, again), limit, "the copies are made again")
				m.Forget(KeysOf(prompts)...)
				m.Gen.DropSessions()
				now, _ := m.Dev.Live()
				require.Equal(t, after, now)
				require.GreaterOrEqual(t, now, before)
			}
		})
	}
}

// On XLA, where kernels read packed weights and round activations, one token and several in a loop are the same bit for
// bit, and the log-probs are near those of training.
func TestKernelsWriteWithPackedWeights(t *testing.T) {
	dir, o := Folder(t, model.Qwen3, shallow), policy.Sampling{Temperature: 1, MaxTokens: 5}
	var all []Stories
	for _, options := range []Options{xlaOptions(t, Options{}), xlaOptions(t, Options{TokensPerCall: 4})} {
		m := Open(t, dir, options)
		m.Gen.Packed = dtypes.Int8
		s := Stories{}
		s.Play(t, m, questions(1, false), o)
		all = append(all, s)
		require.Less(t, mismatch(t, m, s), packedTypes[dtypes.Int8])
	}
	require.Equal(t, all[0], all[1])
}

// mismatch is the largest difference between the log-probs of responses and those of training.
func mismatch(t *testing.T, m *Model, s Stories) (most float64) {
	t.Helper()
	rows, want, written := s.Rows(s.Keys())
	scores, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)
	for i, w := range want {
		if w {
			most = max(most, math.Abs(float64(scores.LogProbs[i])-float64(written[i])))
		}
	}
	return most
}
