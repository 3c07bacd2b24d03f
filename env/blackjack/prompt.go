package blackjack

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/env/internal/prompts"
	"vagen/reward"
)

// placeholders are those of templates of the user: event is what the turn before did.
var placeholders = prompts.Names{Observation: []string{"event"}}

// ownSystem describes the game and the actions.
func (e *Env) ownSystem() string {
	var b strings.Builder
	b.WriteString("You play blackjack against a dealer. Get nearer to 21 than the dealer without going over it. " +
		"Cards count their number, picture cards ten, and an ace eleven where that fits, else one. " +
		"The dealer shows one card and draws until 17 or more.\n\n")
	if e.o.RenderMode == env.Vision {
		b.WriteString("Each picture shows the table: the dealer's cards in the upper row, yours in the lower row.\n\n")
	}
	b.WriteString("Say Hit to take a card or Stand to take no more. Going over 21 loses at once. One action in a turn.\n\n")
	return b.String()
}

// example is a response in the format.
func (e *Env) example() string {
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return Hit
		case reward.SectionObservation:
			return "My hand counts 13 and the dealer shows a ten."
		case reward.SectionPrediction:
			return "I will hold three cards."
		}
		return "With 13 against a ten I have to take a card."
	})
}

// observationText is the text of an observation; table describes the table or is the
// mark of its picture.
func (e *Env) observationText(event, table string) string {
	return e.Texts.Observation(event == opening, func() string {
		return event + "\n" + table + "\nWhat do you do?\n" + e.FormatText()
	}, func() prompts.Values {
		return prompts.Values{prompts.Observation: table, "event": event, prompts.Format: e.FormatText()}
	})
}

// opening introduces the first observation of an episode.
const opening = "This is the table:"

// tableText describes what is visible to the player: the player's hand and the dealer's
// open card, or all of the dealer's cards when the game is over.
func (e *Env) tableText() string {
	ace := "no usable ace"
	if e.player.Ace() {
		ace = "a usable ace"
	}
	dealer := "The dealer shows: " + e.dealer[0].String() + "."
	if e.over {
		dealer = fmt.Sprintf("The dealer's hand: %s. It counts %d.", list(e.dealer), e.dealer.Sum())
	}
	return fmt.Sprintf("Your hand: %s. It counts %d with %s.\n%s", list(e.player), e.player.Sum(), ace, dealer)
}

func list(h Hand) string {
	names := make([]string, len(h))
	for i, c := range h {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}
