package vlm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/processor"
)

func writeGeneration(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(text), 0o644))
}

func TestEveryEndTokenOfGenerationConfigEndsAResponse(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	prompt := policy.Prompt{Conversation: 1, Seed: 5, Messages: vlmtest.Say("left?")}
	o := policy.Sampling{Temperature: 1, MaxTokens: 8}
	generate := func() (*Model, policy.Completion) {
		m := openTiny(t, dir, Options{})
		out, err := m.Generate(t.Context(), []policy.Prompt{prompt}, o)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		return m, out[0]
	}
	m, free := generate()
	require.Len(t, free.Tokens, 8)
	writeGeneration(t, dir, fmt.Sprintf(`{"eos_token_id": [%d, %d]}`, m.text.Tok.Special().TurnEnd, free.Tokens[2]))
	m, ended := generate()
	require.Equal(t, free.Tokens[:3], ended.Tokens)
	require.Equal(t, policy.StopEnd, ended.Stop)
	require.NotContains(t, free.Tokens[:2], free.Tokens[2])
	prompt.Messages = vlmtest.Say("right?")
	next, err := m.Generate(t.Context(), []policy.Prompt{prompt}, o)
	require.NoError(t, err)
	require.Equal(
		t, m.text.Tok.Special().TurnEnd, next[0].Context[0], "it is not the template's end of a turn, which follows",
	)
}

func TestModelFoldersWithUnusableGenerationConfigsAreRefused(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	writeGeneration(t, dir, `{"eos_token_id": [1, 272]}`)
	_, err := describe(dir, Options{})
	require.ErrorContains(t, err, "generation_config.json: eos_token_id is 272, must be in [0, 272)")
}

// What the device computes from pixels and what Processor.Normalize computes have the same settings.
func TestTheDeviceRescalesPixelsAsTheProcessorDoes(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	c := processor.Qwen25VL()
	c.PatchSize, c.MinPixels, c.MaxPixels = 4, 64, 4096
	c.Rescale, c.Mean, c.Std = 1.0/127.5, [3]float64{1, 0.9, 0.8}, [3]float64{0.3, 0.2, 0.1}
	require.NoError(t, c.Save(dir))
	m, err := describe(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, c.Rescale, m.cfg.Rescale) // TestGradientsOfPatchEmbedding computes with it
	require.Equal(t, c.Mean, m.cfg.NormMean)
	require.Equal(t, c.Std, m.cfg.NormStd)
}
