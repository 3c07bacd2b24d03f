package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// Every step shows pictures that no step before has shown.
func TestProcessedPicturesDoNotPileUpOverSteps(t *testing.T) {
	m := newTiny(t, model.Qwen3VL, Options{MicroTokens: 64})
	var shown [][32]byte // two a step
	for step := range uint64(5) {
		out, err := m.Generate(t.Context(), []policy.Prompt{
			{Conversation: 1, Messages: vlmtest.Say("<image> left?", vlmtest.Drawing(100+2*step, 24, 24)), Seed: step},
			{Conversation: 2, Messages: vlmtest.Say("<image> left?", vlmtest.Drawing(101+2*step, 24, 24)), Seed: step},
		}, policy.Sampling{Temperature: 1, MaxTokens: 4})
		require.NoError(t, err)
		shown = append(shown, out[0].Images[0].Hash, out[1].Images[0].Hash)
		for i, hash := range shown {
			_, fresh := m.text.Pictures.Fresh[hash]
			_, old := m.text.Pictures.Old[hash]
			require.Equal(t, i/2+1 >= int(step), fresh || old, "in step %d, a picture of step %d", step, i/2)
		}
		partsOf(m).Train(t, 1)
	}
}
