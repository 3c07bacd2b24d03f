package turns

import (
	"context"
	"fmt"
	"slices"

	"vagen/env/internal/snapshot"
	"vagen/reward"
)

// Truth is what is true of a state, as claims have it.
type Truth struct {
	Relations []reward.Relation `json:",omitempty"`
	State     string            `json:",omitempty"`
}

// truthOf returns the facts that an environment sets in claims about a state.
func truthOf[S any](state S, set func(*reward.Claim, S)) Truth {
	var c reward.Claim
	set(&c, state)
	return Truth{c.Truth, c.State}
}

// Begin starts an episode: no turn was played. An environment's Reset calls it.
func Begin(b *Base) { b.earlier = nil }

// Past is what a Base has of a saved episode. The state that an environment saves embeds it at the end.
type Past struct {
	// Earlier is the truth before the previous turn, for claims: nil before the first turn is played, and
	// without judged state reward.
	Earlier *Truth `json:",omitempty"`
}

// PastOf returns the Past of the current episode.
func PastOf(b *Base) Past { return Past{b.earlier} }

func (p *Past) past() *Past { return p }

// Load reads the state of an environment's episode from a snapshot, and continues it with set, which returns an error
// if the state is not possible, and changes nothing then.
func Load(
	ctx context.Context, b *Base, name string, options any, data []byte, state interface{ past() *Past }, set func() error,
) error {
	if err := b.Calls.Open(ctx); err != nil {
		return err
	}
	if err := snapshot.Decode(name, options, data, state); err != nil {
		return err
	}
	earlier := state.past().Earlier
	if err := earlier.possible(); err != nil {
		return snapshot.Bad(name, "%v", err)
	}
	if err := set(); err != nil {
		return err
	}
	b.earlier = earlier
	return nil
}

// mostRelations is more than any state has.
const mostRelations = 1 << 16

// possible returns an error if no state has this truth. nil is possible.
func (t *Truth) possible() error {
	if t == nil {
		return nil
	}
	if len(t.Relations) > mostRelations {
		return fmt.Errorf("the state before the previous turn has %d relations, at most %d are possible", len(t.Relations),
			mostRelations)
	}
	for _, r := range t.Relations {
		if !slices.Contains([]string{reward.Above, reward.Below, reward.Same}, r.Vertical) ||
			!slices.Contains([]string{reward.Left, reward.Right, reward.Same}, r.Horizontal) {
			return fmt.Errorf("before the previous turn %.40q was %.40q and %.40q, which are no directions", r.Object,
				r.Vertical, r.Horizontal)
		}
	}
	return nil
}
