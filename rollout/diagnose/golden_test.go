package diagnose

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func TestDataMetricsAgreeWithVAGEN(t *testing.T) {
	golden.Each(t, "algorithms/presets.json", func(c *golden.Run) {
		got := map[string]float64{}
		require.NoError(c, Data(got, presetBatch(c, false)))
		// The originals measure length by the loss mask where it is used,
		// and everything else over all tokens.
		require.NoError(c, ResponseLength(got, presetBatch(c, golden.Param[bool](c, "use_loss_mask"))))
		for name, want := range golden.Expected[map[string]float64](c, "data_metrics") {
			if name == "prompt_length/clip_ratio" {
				continue // rows here hold several prompts; there is no longest one
			}
			require.Contains(c, got, name)
			c.Float(name, got[name], want)
		}
	})
}

// presetBatch drops the padding of a recorded case. Counted tokens are those of
// the loss mask, or all.
func presetBatch(c *golden.Run, masked bool) *Batch {
	c.Helper()
	input := func(name string) [][]float64 { return golden.Input[[][]float64](c, name) }
	expected := func(name string) [][]float64 { return golden.Expected[[][]float64](c, name) }
	prompt := golden.Param[int](c, "prompt_length")
	attention, loss := input("attention_mask"), input("loss_mask")
	score, shaped := expected("token_level_scores"), expected("token_level_rewards")
	advantage, target, value := expected("advantages"), expected("returns"), input("values")
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
