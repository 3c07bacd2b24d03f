package plan

import (
	"encoding/json"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/create"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/tokenizer"
)

// The recorded model qwen2_5_vl-tied has 3 layers of width 64 with 4 heads and 2 key heads of
// width 16, FF 128, 1408 tokens. A layer has matrices of (64+32+32)·64, 64·64, 2·128·64 and
// 128·64, together 36,864 numbers, and vectors of 64+128+64; the head 1408·64 = 90,112 and 64.
// Together 200,704 numbers in matrices and 832 in vectors, 806,144 bytes in float32; a token
// has 3·2·32 = 192 keys and values. The figures below follow from these by hand.
func TestCostsOfTheRecordedModelFollowFromItsShape(t *testing.T) {
	cfg, err := model.ReadConfig("../../../../testdata/vlm/qwen2_5_vl-tied/checkpoint")
	require.NoError(t, err)
	matrices, vectors := cfg.DecoderNumbers()
	require.Equal(t, [2]int64{200704, 832}, [2]int64{matrices, vectors})

	for _, c := range []struct {
		name string
		step Step
		rule CostRule
		rows int
		want Cost
	}{
		// 2·200,704 products for each of 2 tokens, and 4·64 per layer, row and key; 6 keys.
		// All weights, and of 2 rows the 5 tokens read and the one written.
		{"decode", StepDecode, CostRule{}, 2, Cost{Bytes: 806144 + 2*6*192*4, FLOPs: 2*2*200704 + 4*64*3*2*6,
			HardwareFLOPs: 2*2*200704 + 4*64*3*2*6}},
		{"decode in bfloat16", StepDecode, CostRule{Compute: dtypes.BFloat16, Narrow: true}, 2,
			Cost{Bytes: 2*200704 + 4*832 + 2*6*192*2, FLOPs: 812032, HardwareFLOPs: 812032}},
		// Layers for 10 tokens, the head for 2, and 1+2+3+4+5 of 5·5 pairs of tokens.
		{"prefill", StepPrefill, CostRule{}, 2, Cost{Bytes: 806144 + 2*5*192*4,
			FLOPs: 2*10*110592 + 2*2*90112 + 4*64*3*2*15, HardwareFLOPs: 2*10*110592 + 2*2*90112 + 4*64*3*2*25}},
		// The head for 8 tokens; the weights are read in each of 2 micro-batches.
		{"score", StepScore, CostRule{Micro: 2}, 2, Cost{Bytes: 2 * 806144,
			FLOPs: 2*10*110592 + 2*8*90112 + 23040, HardwareFLOPs: 2*10*110592 + 2*8*90112 + 38400}},
		// Three times as many. Weights twice, gradients written, read for the norm, and 7
		// numbers per weight in AdamW.
		{"train", StepTrain, CostRule{Micro: 1}, 2, Cost{Bytes: 2*806144 + (1+1+7)*806144,
			FLOPs: 6*10*110592 + 6*8*90112 + 3*23040, HardwareFLOPs: 6*10*110592 + 6*8*90112 + 3*38400}},
		// A second micro-batch reads and writes the gradients once more.
		{"train, 2 micro-batches", StepTrain, CostRule{Micro: 2}, 2,
			Cost{Bytes: 4*806144 + (3+1+7)*806144, FLOPs: 11030016, HardwareFLOPs: 11076096}},
		{"train, attention again", StepTrain, CostRule{Micro: 1, Keep: net.KeepMost}, 2,
			Cost{Bytes: 11 * 806144, FLOPs: 11030016, HardwareFLOPs: 11076096 + 38400/2}},
		{"train, blocks again", StepTrain, CostRule{Micro: 1, Keep: net.KeepInputs}, 2,
			Cost{Bytes: 11 * 806144, FLOPs: 11030016, HardwareFLOPs: 11076096 + 2*10*110592 + 38400}},
	} {
		if c.rule.Compute == 0 {
			c.rule.Compute = dtypes.Float32
		}
		c.rule.Spec = cfg
		got, err := c.rule.Cost(c.step, c.rows, 5)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.name)
	}
	_, err = CostRule{Spec: cfg, Compute: dtypes.Float32}.Cost("nap", 1, 1)
	require.ErrorContains(t, err, `"nap"`)
}

// Of Qwen2.5-VL-3B, 36 layers of 77,070,336 numbers in matrices and a tied head of
// 311,164,928 are read in each decoding step: 6.2 GB in bfloat16.
func TestADecodingStepOfQwen3BReadsSixGigabytes(t *testing.T) {
	s, err := create.Named("qwen2_5_vl-3b")
	require.NoError(t, err)
	tok, err := tokenizer.NewTiny(nil)
	require.NoError(t, err)
	object, err := create.Config(s, tok)
	require.NoError(t, err)
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	cfg, err := model.ParseConfig(raw)
	require.NoError(t, err)
	matrices, vectors := cfg.DecoderNumbers()
	require.Equal(t, int64(36*77070336+311164928), matrices)
	require.Equal(t, int64(36*(2048+2560+2048)+2048), vectors)
	got, err := CostRule{Spec: cfg, Compute: dtypes.BFloat16, Narrow: true}.Cost(StepDecode, 1, 512)
	require.NoError(t, err)
	const weights, token = 2*3085697024 + 4*241664, 36 * 2 * 2 * 128 * 2
	require.EqualValues(t, weights+513*token, got.Bytes)
	require.InEpsilon(t, 6.2e9, float64(got.Bytes), 0.01)
	require.EqualValues(t, 2*3085697024+36*4*2048*513, got.FLOPs)
}
