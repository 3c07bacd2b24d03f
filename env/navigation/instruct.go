package navigation

import (
	"math/rand/v2"
	"strings"
)

// instruction writes the instruction of a task in a style.
func instruction(style string, k *kind, tint string, where room, r *rand.Rand) string {
	name := Spoken(k.Name)
	fill := func(patterns ...string) string {
		return strings.NewReplacer("NAME", name, "PURPOSE", k.Purpose, "COLOR", tint, "LOOK", k.Look, "ROOM",
			string(where)).Replace(patterns[r.IntN(len(patterns))])
	}
	go1 := []string{"Go to the NAME and stop as close to it as you can.",
		"Find the NAME in this ROOM and stand right beside it.", "Please walk up to the NAME."}
	switch style {
	case "common_sense":
		return fill("I am looking for something PURPOSE. Go to it and stay close.",
			"Somewhere in this ROOM is a thing PURPOSE. Walk up to it.",
			"Bring yourself next to the one thing here PURPOSE.")
	case "visual_appearance":
		return fill("Go close to the COLOR LOOK.", "Walk up to the COLOR thing in this ROOM: LOOK.",
			"Find the COLOR LOOK and stop beside it.")
	case "complex_instruction":
		before := fill("It has been a long day and the ROOM is quiet at last.",
			"Guests are coming tonight, so the ROOM was cleaned this morning.",
			"The window is open and one hears the birds outside.", "Somebody moved the furniture while I was away.")
		after := fill("The rest can wait until tomorrow.", "Do not mind the radio, it only plays old songs.",
			"Later we may look for my glasses, but not now.", "I shall be in the garden.")
		return before + " " + fill(go1...) + " " + after
	}
	return fill(go1...)
}
