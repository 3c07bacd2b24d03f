package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"vagen/policy/vlm/internal/mpi"
)

// Config says which ranks a group has.
type Config struct {
	World mpi.World
	// Timeout limits the time until all ranks have joined, and the time in which a rank must make progress when
	// another one waits for it.
	Timeout time.Duration
	// Facts must be the same on all ranks.
	Facts []Fact
}

// DefaultTimeout is the usual Config.Timeout.
const DefaultTimeout = 10 * time.Minute

// silence is the longest time without a sign of life of another rank, if Config.Timeout is not less.
const silence = time.Minute

// maxFacts limits the facts of a rank, in bytes.
const maxFacts = 1 << 20

// Join connects this rank with all others, waits for them, and compares their facts.
func Join(ctx context.Context, c Config) (*Communicator, error) {
	w := c.World
	if w.Size() < 2 || c.Timeout <= 0 {
		return nil, fmt.Errorf("nodes: %w: size is %d, must be at least 2, and Timeout %v, must be positive",
			ErrConfig, w.Size(), c.Timeout)
	}
	own, err := json.Marshal(append([]Fact{protocol()}, c.Facts...))
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	g := &Communicator{world: w, links: make([]*Link, w.Size()), silence: min(silence, c.Timeout),
		watched: make(chan struct{})}
	g.life, g.stop = context.WithCancelCause(context.Background())
	var peers []*peer
	for rank := range g.links {
		if rank == w.Rank() {
			continue
		}
		g.links[rank] = &Link{group: g, rank: rank, timeout: c.Timeout}
		peers = append(peers, &peer{world: w, rank: rank, buf: make([]byte, 1+maxText)})
	}
	go g.watch(peers)
	all, err := g.Gather(ctx, own, maxFacts)
	if err != nil {
		return nil, fmt.Errorf("nodes: rank %d waits for all %d: %w", w.Rank(), w.Size(), err)
	}
	if err := compare(all); err != nil { // on all ranks
		g.Fail(ErrEnded)
		return nil, fmt.Errorf("nodes: rank %d: %w", w.Rank(), err)
	}
	return g, nil
}
