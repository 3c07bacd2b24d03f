package diagnose

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

const file = "algorithms/presets.json"

func TestDataMetricsAgreeWithVAGEN(t *testing.T) {
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			tally.Case()
			got := map[string]float64{}
			require.NoError(t, Data(got, presetBatch(t, c, false)))
			// The originals measure length by the loss mask where it is used,
			// and everything else over all tokens.
			masked := golden.Value[bool](t, c.Params, "use_loss_mask")
			require.NoError(t, ResponseLength(got, presetBatch(t, c, masked)))
			want := golden.Value[map[string]float64](t, c.Expected, "data_metrics")
			for name, w := range want {
				if name == "prompt_length/clip_ratio" {
					continue // rows here hold several prompts; there is no longest one
				}
				v, ok := got[name]
				if !ok {
					t.Errorf("%s is missing", name)
				}
				tally.Float(t, name, v, w, c.Tolerance)
			}
		})
	}
}

// presetBatch drops the padding of a recorded case. Counted tokens are those of
// the loss mask, or all.
func presetBatch(t *testing.T, c golden.Case, masked bool) *Batch {
	t.Helper()
	matrix := func(fields map[string]json.RawMessage, name string) [][]float64 {
		m := golden.Value[[][]float64](t, fields, name)
		return m
	}
	prompt := golden.Value[int](t, c.Params, "prompt_length")
	attention, loss := matrix(c.Inputs, "attention_mask"), matrix(c.Inputs, "loss_mask")
	score, shaped := matrix(c.Expected, "token_level_scores"), matrix(c.Expected, "token_level_rewards")
	advantage, target, value := matrix(c.Expected, "advantages"), matrix(c.Expected, "returns"), matrix(c.Inputs, "values")
	b := &Batch{Offsets: []int{0}, MaxLength: len(score[0])}
	for r := range attention {
		var sum, sumShaped float64
		for i := range score[r] {
			sum += score[r][i]
			sumShaped += shaped[r][i]
			if attention[r][prompt+i] == 0 {
				continue
			}
			b.Mask = append(b.Mask, !masked || loss[r][prompt+i] != 0)
			b.Advantage = append(b.Advantage, float32(advantage[r][i]))
			b.Target = append(b.Target, float32(target[r][i]))
			b.Value = append(b.Value, float32(value[r][i]))
		}
		b.Score, b.Shaped = append(b.Score, sum), append(b.Shaped, sumShaped)
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	return b
}
