package env

import (
	"bytes"
	"context"
	"image"
	"strings"

	"vagen/env/internal/calls"
	"vagen/reward"
)

// ImageMark stands in an observation's text where an image belongs. The k-th
// mark belongs to the k-th image.
const ImageMark = "<image>"

// WithoutMarks removes the marks from a text that has no images, also those that appear where another one was removed.
func WithoutMarks(text string) string {
	if !strings.Contains(text, ImageMark) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		out = bytes.TrimSuffix(append(out, text[i]), []byte(ImageMark))
	}
	return string(out)
}

// Errors of the order of calls and of seeds. The environments below this folder
// wrap them.
var (
	ErrNotReset = calls.ErrNotReset
	ErrClosed   = calls.ErrClosed
	ErrSeed     = calls.ErrSeed
)

// Env is one live instance of an environment. Its methods are called one at a
// time, from any goroutine: System and Reset first, then Step until an Outcome
// is done, then Reset again or Close.
//
// Every method that waits honours its context. An error means that the episode has
// failed. It never means that the agent made a mistake: rewards and metrics report that.
type Env interface {
	// System returns the system prompt. It does not depend on the level.
	System(ctx context.Context) (Observation, error)
	// Reset starts the episode of the seed and returns the first observation.
	// Equal seeds give equal episodes.
	Reset(ctx context.Context, seed int64) (Observation, error)
	// Step plays one turn with the text that the model wrote, without the
	// tokens of the chat template.
	Step(ctx context.Context, response string) (Outcome, error)
	// Close frees what the environment holds. It may be called more than once.
	Close() error
}

// Observation is what the agent is shown.
type Observation struct {
	Text   string        // ImageMark marks where each image goes
	Images []image.Image // as many as there are marks
}

// Outcome is the environment's answer to one turn.
type Outcome struct {
	Observation Observation     // what the agent sees next; may be empty when Done
	Reward      reward.Parts    // of this turn
	Done        bool            // the world ended the episode
	Success     bool            // the task is solved
	Response    reward.Response // what was understood of the agent's text
	Claims      []reward.Claim  // what a judge may still score; nil without judged state reward
	Turn        Metrics         // of this turn, e.g. action_is_valid
	Trajectory  Metrics         // of the episode so far, e.g. success
}

// Metrics are named numbers; a yes/no metric is 1 or 0.
type Metrics map[string]float64
