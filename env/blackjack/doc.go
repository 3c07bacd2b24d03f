// Package blackjack is the card game against a dealer, as text or pictures.
//
// Each turn the player takes another card (Hit) or none (Stand, also called
// Stick), which ends the episode: the dealer draws up to 17, and the hand that is
// nearer to 21 without going over it wins. Cards come from an endless deck.
//
// New makes an Env of Options, FromConfig one of named options. Random is a Player for
// comparison with a model.
//
// Rules, rewards and formats are those of VAGEN's legacy branch, and a seed gives the
// same cards. Two settings, natural and sab, are accepted and have no effect, as in the
// original, where the test for a natural hand never succeeds.
package blackjack
