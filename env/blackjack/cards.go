package blackjack

import "vagen/internal/numpyrand"

// Suit is the suit of a card.
type Suit uint8

// The suits, in the order in which the original draws them.
const (
	Clubs Suit = iota
	Diamonds
	Hearts
	Spades
)

var suitNames = [...]string{"clubs", "diamonds", "hearts", "spades"}

// String returns the suit's name.
func (s Suit) String() string { return suitNames[s%4] }

// Card is a card. Only its value affects the game.
type Card struct {
	Value int  // 1 for an ace, 10 for ten and picture cards
	Face  byte // A, 2 to 9, J, Q or K
	Suit  Suit
}

// String returns the card in words, such as "Q of hearts".
func (c Card) String() string { return string(c.Face) + " of " + c.Suit.String() }

// deck deals cards from the stream of a seed, which is numpy's default_rng.
type deck struct{ stream numpyrand.PCG64 }

func (d *deck) card() Card {
	value := min(int(d.stream.IntN(13))+1, 10)
	suit := Suit(d.stream.IntN(4))
	return Card{Value: value, Suit: suit, Face: d.face(value)}
}

// face draws the face of a card of value ten and returns the face of the others.
func (d *deck) face(value int) byte {
	switch value {
	case 10:
		return "JQK"[d.stream.IntN(3)]
	case 1:
		return 'A'
	}
	return '0' + byte(value)
}

// Hand is the cards of one side.
type Hand []Card

// Ace reports whether an ace counts eleven without exceeding 21.
func (h Hand) Ace() bool {
	sum, ace := 0, false
	for _, c := range h {
		sum += c.Value
		ace = ace || c.Value == 1
	}
	return ace && sum+10 <= 21
}

// Sum returns the hand's value, with an ace counted as eleven if that fits.
func (h Hand) Sum() int {
	sum := 0
	for _, c := range h {
		sum += c.Value
	}
	if h.Ace() {
		sum += 10
	}
	return sum
}

// score is the final value of a hand: 0 above 21.
func (h Hand) score() int {
	if s := h.Sum(); s <= 21 {
		return s
	}
	return 0
}

// list returns each card as value, face and the suit's letter.
func (h Hand) list() []any {
	cards := make([]any, len(h))
	for i, c := range h {
		cards[i] = []any{c.Value, string(c.Face), string("CDHS"[c.Suit%4])}
	}
	return cards
}
