package blackjack

import (
	"context"
	"slices"
	"strings"

	"vagen/env"
	"vagen/env/internal/snapshot"
	"vagen/env/internal/turns"
	"vagen/internal/numpyrand"
)

var (
	_ env.Snapshotter = (*Env)(nil)
	_ env.Reseeder    = (*Env)(nil)
)

// saved is the state of a game.
type saved struct {
	Deck           *numpyrand.PCG64
	Dealer, Player Hand
	Shown          Card
	Over, Acted    bool
	turns.Past
}

// Snapshot implements env.Snapshotter.
func (e *Env) Snapshot() ([]byte, error) {
	if err := e.Calls.Snapshot(e.ready); err != nil {
		return nil, err
	}
	return snapshot.Encode("blackjack", e.o, saved{&e.deck.stream, e.dealer, e.player, e.shown, e.over, e.acted,
		turns.PastOf(&e.Base)})
}

// Restore implements env.Snapshotter.
func (e *Env) Restore(ctx context.Context, state []byte) error {
	var s saved
	return turns.Load(ctx, &e.Base, "blackjack", e.o, state, &s, func() error {
		switch {
		case s.Deck == nil:
			return snapshot.Bad("blackjack", "it has no deck")
		case !s.Dealer.possible() || !s.Player.possible():
			return snapshot.Bad("blackjack", "its hands are %.200v and %.200v", s.Dealer, s.Player)
		case !s.Shown.possible() || s.Shown.Value != s.Dealer[0].Value:
			return snapshot.Bad("blackjack", "the dealer shows %+v and has %+v", s.Shown, s.Dealer[0])
		}
		e.deck.stream, e.dealer, e.player, e.shown = *s.Deck, s.Dealer, s.Player, s.Shown
		e.ready, e.over, e.acted = true, s.Over, s.Acted
		return nil
	})
}

// Reseed implements env.Reseeder: the cards to come are those of the seed. The cards on
// the table stay, the dealer's closed one, too.
func (e *Env) Reseed(seed uint64) error {
	if err := e.Calls.Snapshot(e.ready); err != nil {
		return err
	}
	e.deck.stream.Seed(seed)
	return nil
}

// maxHand is more than the largest hand: 21 aces and the card that ends the game.
const maxHand = 22

// possible reports whether a hand can be dealt.
func (h Hand) possible() bool {
	return len(h) >= 2 && len(h) <= maxHand && !slices.ContainsFunc(h, func(c Card) bool { return !c.possible() })
}

// possible reports whether a card is one of the deck's.
func (c Card) possible() bool {
	if c.Suit > Spades {
		return false
	}
	switch c.Value {
	case 1:
		return c.Face == 'A'
	case 10:
		return strings.IndexByte("JQK", c.Face) >= 0
	}
	return c.Value > 1 && c.Value < 10 && c.Face == '0'+byte(c.Value)
}
