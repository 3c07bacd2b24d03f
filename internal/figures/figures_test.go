package figures

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
	"vagen/reward"
)

var update = flag.Bool("update", false, "write the pictures instead of comparing them")

// episode is the example of all pictures.
type episode struct {
	row    mask.Sequence
	words  []string       // per token
	turns  []reward.Parts // per turn
	values []float32      // of the critic, per token
}

// newEpisode records an episode of two turns. Each image has two placeholder tokens.
func newEpisode(t *testing.T) *episode {
	e := &episode{
		words: []string{
			"Reach", "the goal.", "▣", "▣",
			"hole", "left", "Right", "end",
			"moved", "▣", "▣",
			"goal", "below", "Down", "end",
		},
		turns: []reward.Parts{
			{{Name: reward.SectionObservation, Value: 0.5}, {Name: "format", Value: 0.1}},
			{{Name: reward.SectionObservation, Value: 0.5}, {Name: "format", Value: 0.1}, {Name: "success", Value: 1}},
		},
		values: []float32{0, 0, 0, 0, 0.6, 0.6, 0.7, 0.8, 2, -2, 0.5, 1.1, 1.2, 1.3, 1.4},
	}
	ids := make([]int32, len(e.words))
	for i := range ids {
		ids[i] = int32(i)
	}
	for _, err := range []error{
		e.row.AppendContext(mask.Prompt, ids[:4]...),
		e.row.AppendResponse(ids[4:8]...),
		e.row.AppendContext(mask.Observation, ids[8:11]...),
		e.row.AppendResponse(ids[11:]...),
		e.row.AddSpan(reward.SectionObservation, 4, 6),
		e.row.AddSpan(reward.SectionObservation, 11, 13),
	} {
		require.NoError(t, err)
	}
	return e
}

// TestThePicturesOfTheDocumentsAreCurrent: docs has what the library computes now.
func TestThePicturesOfTheDocumentsAreCurrent(t *testing.T) {
	e := newEpisode(t)
	for name, want := range map[string]string{"concepts-masks.svg": drawMasks(e),
		"concepts-rewards.svg": drawRewards(t, e), "concepts-credit.svg": drawCredit(t, e)} {
		name = filepath.Join("..", "..", "docs", name)
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
}
