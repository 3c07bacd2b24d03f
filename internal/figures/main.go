// Figures draws the pictures of docs/concepts.md from a tiny episode, with the masks, the
// placement of rewards and the estimators of this library.
//
//	go run ./internal/figures docs
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/mask"
	"vagen/reward"
)

// episode is the example of all pictures.
type episode struct {
	row    mask.Sequence
	words  []string       // per token
	turns  []reward.Parts // per turn
	values []float32      // of the critic, per token
}

// newEpisode records an episode of two turns. Each image has two placeholder tokens.
func newEpisode() (*episode, error) {
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
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// pictures returns the pictures by file name.
func pictures() (map[string]string, error) {
	e, err := newEpisode()
	if err != nil {
		return nil, err
	}
	placed, err := drawRewards(e)
	if err != nil {
		return nil, err
	}
	credit, err := drawCredit(e)
	if err != nil {
		return nil, err
	}
	return map[string]string{"concepts-masks.svg": drawMasks(e), "concepts-rewards.svg": placed,
		"concepts-credit.svg": credit}, nil
}

func run(dir string) error {
	all, err := pictures()
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "figures: usage: go run ./internal/figures DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}
