package chat

import (
	"image"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// TestCountsAreEstimates: four tokens a message, one for three bytes, and for images the
// number in the options.
func TestCountsAreEstimates(t *testing.T) {
	m := &Model{o: Options{ImageTokens: 50}}
	n, err := m.Count(policy.Prompt{Messages: []policy.Message{{Role: policy.System, Text: "Guess."},
		{Role: policy.User, Text: "now <image>", Images: []image.Image{image.NewGray(image.Rect(0, 0, 2, 2))}}}})
	require.NoError(t, err)
	require.Equal(t, (4+2)+(4+2)+50, n)
	_, err = m.Count(policy.Prompt{Messages: []policy.Message{{Role: policy.User, Text: "<image>"}}})
	require.ErrorContains(t, err, "chat: message 0: the text has 1 image marks")
}
