package vlm

import (
	"image"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy"
	servers "vagen/policy/engine"
)

// TestACodecEncodesAsTheModelDoes: tokens, images and ends in plain Go are those of a model.
func TestACodecEncodesAsTheModelDoes(t *testing.T) {
	dir := filepath.Join(golden.Root(t), "vlm/qwen2_5_vl-tied/checkpoint")
	d, err := Check(t.Context(), dir, Options{})
	require.NoError(t, err)
	codec, err := servers.LoadCodec(dir, nil)
	require.NoError(t, err)
	conversation := []policy.Message{
		{Role: policy.System, Text: "Play."},
		{
			Role: policy.User, Text: "See <image> and go.",
			Images: []image.Image{image.NewGray(image.Rect(0, 0, 60, 56))},
		},
		{Role: policy.Assistant, Text: "<think>right</think><answer>Right</answer>"},
		{Role: policy.User, Text: "You fell."},
		{Role: policy.Assistant, Text: "<answer>Up</answer>"},
	}
	want, images, err := d.Encoder.Encode(conversation)
	require.NoError(t, err)
	got, read, err := codec.Encode(conversation)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, read, 1)
	require.Equal(t, images[0].Hash, read[0].Hash)
	for _, p := range got {
		require.Equal(t, d.Encoder.Response(p.Tokens), codec.Response(p.Tokens))
	}
	require.Equal(t, d.Encoder.(policy.Aligner).Ends(got[1].Tokens), codec.Ends(got[1].Tokens))
	_, _, err = codec.Encode(
		[]policy.Message{{Role: policy.Assistant, Images: []image.Image{image.NewGray(image.Rect(0, 0, 9, 9))}}},
	)
	require.ErrorContains(t, err, "engine: message 0: 1 images, but the assistant writes text only")
}
