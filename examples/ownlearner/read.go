package main

import (
	"regexp"
	"strconv"

	"vagen/policy"
)

// words are what the table can say.
var words = []string{"<answer>Hit</answer>", "<answer>Stand</answer>"}

// described finds the sum of the player's cards, a usable ace and the dealer's card.
var described = regexp.MustCompile(`It counts (\d+) with (no|a) usable ace\.\nThe dealer shows: (\w+)`)

// read is the tokenizer: the state of the game that a message describes.
func read(m policy.Message) (state int32, ok bool) {
	found := described.FindStringSubmatch(m.Text)
	if found == nil {
		return 0, false
	}
	sum, _ := strconv.Atoi(found[1])
	card, err := strconv.Atoi(found[3])
	switch {
	case found[3] == "A":
		card = 1
	case err != nil: // J, Q, K
		card = 10
	}
	state = int32(sum*11+card) * 2
	if found[2] == "a" {
		state++
	}
	return state, true
}
