package queue

import (
	"context"

	"vagen/rollout"
)

// Batch is what a worker knows of a batch.
type Batch struct {
	Run           string // Options.Run
	Tag           string // Player.Tag of the trainer
	Setup, Policy []byte // Options.Setup, and what Options.Policy returned
}

// Opened is a batch that a worker can play.
type Opened struct {
	// Player creates a player with Policy, Envs and Harness. Several play at the same time.
	Player func() *rollout.Player
	// Observe is called before an episode is played. The episode is played with the returned
	// context, and then report, of at most 4,096 bytes, is sent with its result to Options.Done.
	// Nil reports nothing.
	Observe func(ctx context.Context, p *rollout.Player) (within context.Context, report func() []byte)
}
