package blackjack

import (
	"context"
	"fmt"
	"image"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partGame    = "game"    // 1 for a win, −1 for a loss
	partFormat  = "format"  //
	partInvalid = "invalid" // a turn without a known action
)

// Words of the actions.
const (
	Hit   = "Hit"
	Stand = "Stand"
	Stick = "Stick" // another word for Stand
)

// Env is one live game. It implements env.Env.
type Env struct {
	turns.Base
	o    Options
	deck deck

	dealer, player Hand
	shown          Card // the dealer's open card as drawn in pictures
	over           bool
	ready          bool
	acted          bool // the last turn had an effect
}

var (
	_ env.Env       = (*Env)(nil)
	_ env.Claimant  = (*Env)(nil)
	_ env.Describer = (*Env)(nil)
	_ env.Factory   = FromConfig
)

// New creates an environment. The error lists all invalid options.
func New(o Options) (*Env, error) {
	ruled := options.Ruled{Rules: env.Legacy, Response: o.Response, StateReward: o.StateReward}
	base, err := turns.New("blackjack", o.Validate(), ruled, placeholders, reward.ParserOptions{})
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base, o: o}
	e.Prompt = turns.Prompt{Own: e.ownSystem, Format: func() string { return words.Format(e.Parser()) },
		Example: e.example, Shown: o.UseExample}
	return e, nil
}

// Reset deals the hands of the seed, which must not be negative.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Reset(ctx, seed); err != nil {
		return env.Observation{}, err
	}
	e.deck.stream.Seed(uint64(seed))
	e.dealer = Hand{e.deck.card(), e.deck.card()}
	e.player = Hand{e.deck.card(), e.deck.card()}
	// The original draws suit and face of the open card again for display.
	e.shown = Card{Value: e.dealer[0].Value, Suit: Suit(e.deck.stream.IntN(4))}
	e.shown.Face = e.deck.face(e.shown.Value)
	e.ready, e.over, e.acted = true, false, false
	turns.Begin(&e.Base)
	return e.observe(opening), nil
}

// Step plays one turn. No response text makes it fail. Once the game is over, turns have
// no effect and no reward.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.ready); err != nil {
		return env.Outcome{}, err
	}
	r := turns.Read(&e.Base, response)
	before := e.state()
	if e.over {
		return e.outcome(r, nil, false, false), nil
	}
	action := ""
	if len(r.Actions) > 0 {
		action = r.Actions[0]
	}
	var parts reward.Parts
	won := false
	valid := true
	switch action {
	case Hit:
		e.player = append(e.player, e.deck.card())
		if e.player.Sum() > 21 {
			e.over = true
			parts = append(parts, reward.Part{Name: partGame, Value: -1})
		}
	case Stand, Stick:
		parts, won = e.playDealer()
	default:
		valid = false
		parts = append(parts, reward.Part{Name: partInvalid, Value: e.o.InvalidReward})
	}
	if valid && r.FormatCorrect {
		parts = append(parts, reward.Part{Name: partFormat, Value: e.o.FormatReward})
	}
	out := e.outcome(r, parts, valid, won)
	turns.Claim(&e.Base, &out, "blackjack", valid && r.FormatCorrect, before, e.state(),
		func(c *reward.Claim, state string) { c.State = state })
	return out, nil
}

// state is the table's state for judges, as JSON.
func (e *Env) state() string {
	return fmt.Sprintf(`{"player_sum": %d, "dealer_showing": %d, "usable_ace": %t, "is_player_bust": %t}`,
		e.player.Sum(), e.dealer[0].Value, e.player.Ace(), e.player.Sum() > 21)
}

// Describe returns the table's state as JSON, as judges get it. It is "" before Reset.
func (e *Env) Describe() string {
	if !e.ready {
		return ""
	}
	return e.state()
}

// playDealer plays the dealer's turn and compares the hands.
func (e *Env) playDealer() (parts reward.Parts, won bool) {
	e.over = true
	for e.dealer.Sum() < 17 {
		e.dealer = append(e.dealer, e.deck.card())
	}
	switch mine, theirs := e.player.score(), e.dealer.score(); {
	case mine > theirs:
		return reward.Parts{{Name: partGame, Value: 1}}, true
	case mine < theirs:
		return reward.Parts{{Name: partGame, Value: -1}}, false
	}
	return nil, false
}

func (e *Env) outcome(r reward.Response, parts reward.Parts, valid, won bool) env.Outcome {
	e.acted = valid
	event := "That was no action. This is the table:"
	switch {
	case e.over:
		event = "The game is over. This is the table:"
	case valid:
		event = "You took " + e.player[len(e.player)-1].String() + ". This is the table now:"
	}
	out := turns.Outcome(r, e.over, won, valid, valid)
	out.Observation, out.Reward = e.observe(event), parts
	return out
}

func (e *Env) observe(event string) env.Observation {
	if e.o.RenderMode == env.Vision {
		return env.Observation{Text: e.observationText(event, env.ImageMark), Images: []image.Image{e.picture()}}
	}
	return env.Observation{Text: e.observationText(event, e.tableText())}
}

// Hands returns the cards on the table. They must not be changed.
func (e *Env) Hands() (dealer, player Hand) { return e.dealer, e.player }

// Details returns the cards of both sides after a turn that had an effect, else nil:
// for each card its value, its face and the first letter of its suit. Services send
// them, as the original does.
func (e *Env) Details() map[string]any {
	if !e.acted {
		return nil
	}
	return map[string]any{"Dealer Card": e.dealer.list(), "Player Card": e.player.list()}
}

// Player chooses between Hit and Stand. Players see the cards themselves, not only the
// agent's observation.
type Player func(r *rand.Rand, hand Hand, open Card) string

// Random hits half of the time.
func Random(r *rand.Rand, _ Hand, _ Card) string {
	if r.IntN(2) == 0 {
		return Hit
	}
	return Stand
}

// StandAt hits below a sum and stands otherwise, as the dealer does at 17.
func StandAt(sum int) Player {
	return func(_ *rand.Rand, hand Hand, _ Card) string {
		if hand.Sum() < sum {
			return Hit
		}
		return Stand
	}
}

// Script writes the response with which a player would play the current turn, in
// the environment's format. It returns "" before Reset.
func (e *Env) Script(r *rand.Rand, p Player) string {
	if !e.ready {
		return ""
	}
	action := p(r, e.player, e.dealer[0])
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return action
		case reward.SectionObservation:
			return fmt.Sprintf("My hand counts %d and the dealer shows %d.", e.player.Sum(), e.dealer[0].Value)
		case reward.SectionPrediction:
			if action == Hit {
				return "I will hold one card more."
			}
			return "The dealer will draw up to 17."
		}
		return fmt.Sprintf("With %d, I choose to %s.", e.player.Sum(), action)
	})
}
