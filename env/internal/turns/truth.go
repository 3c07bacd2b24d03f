package turns

import (
	"fmt"
	"slices"

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

// Earlier returns the truth before the previous turn, for snapshots: nil before the first
// turn is played, and without judged state reward.
func Earlier(b *Base) *Truth { return b.earlier }

// Continue sets what Earlier returned when the snapshot was made.
func Continue(b *Base, earlier *Truth) { b.earlier = earlier }

// mostRelations is more than any state has.
const mostRelations = 1 << 16

// Possible returns an error if no state has this truth. nil is possible.
func (t *Truth) Possible() error {
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
