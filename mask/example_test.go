package mask_test

import (
	"fmt"

	"vagen/mask"
)

func print01(name string, m []bool) {
	fmt.Printf("%-10s", name)
	for _, in := range m {
		if in {
			fmt.Print(" 1")
		} else {
			fmt.Print(" 0")
		}
	}
	fmt.Println()
}

// A row is recorded while it is produced, and every mask comes from the record.
func ExampleSequence() {
	var s mask.Sequence
	_ = s.AppendContext(mask.Prompt, 101, 102)
	_ = s.AppendResponse(7, 8, 9) // 9 is the end-of-turn token
	_ = s.AppendContext(mask.Observation, 103)
	_ = s.AppendResponse(7, 9)

	print01("loss", s.Loss(nil, mask.Options{}))
	print01("turn end", s.TurnEnd(nil))
	print01("no mask", s.Loss(nil, mask.Options{NoLossMask: true}))
	// Output:
	// loss       0 0 1 1 1 0 1 1
	// turn end   0 0 0 0 1 0 0 1
	// no mask    1 1 1 1 1 1 1 1
}

// Sections of a response get names, so that each can be paid for itself.
func ExampleSequence_AddSpan() {
	var s mask.Sequence
	_ = s.AppendResponse(1, 2, 3, 4, 5)
	_ = s.AddSpan("observation", 0, 2)
	_ = s.AddSpan("answer", 3, 4)

	print01("answer", s.Span(nil, "answer"))
	fmt.Println(s.AddSpan("answer", 4, 6))
	// Output:
	// answer     0 0 0 1 0
	// mask: span "answer" [4, 6): span not inside one turn (0 ≤ start < end ≤ 5)
}

// A turn that does not fit is dropped as a whole.
func ExampleSequence_Truncate() {
	var s mask.Sequence
	_ = s.AppendResponse(1, 2)
	_ = s.AppendContext(mask.Observation, 3)
	_ = s.AppendResponse(4, 5, 6)

	fmt.Println("lost turns:", s.Truncate(5))
	print01("loss", s.Loss(nil, mask.Options{}))
	// Output:
	// lost turns: 1
	// loss       1 1 0 0 0
}

// Rewards of turns sit on turn ends.
func ExampleSequence_PlaceTurnRewards() {
	var s mask.Sequence
	_ = s.AppendContext(mask.Prompt, 1)
	_ = s.AppendResponse(2, 3)
	_ = s.AppendResponse(4, 5)

	rewards, err := s.PlaceTurnRewards(nil, []float64{0.5, -0.1}, 1)
	fmt.Println(rewards, err)
	// Output:
	// [0 0 0.5 0 0.9] <nil>
}

// Rows of other systems mark responses in the text.
func ExampleFromMarks() {
	s, err := mask.FromMarks([]int32{50, 1, 60, 61, 2, 51}, mask.Marks{Begin: 1, End: 2})
	fmt.Println(s.Tokens(), s.Turns(), err)

	_, err = mask.FromMarks([]int32{60, 61, 2, 51}, mask.Marks{Begin: 1, End: 2})
	fmt.Println(err)
	// Output:
	// [50 60 61 51] 1 <nil>
	// mask: marks: position 2: end mark outside a turn: unpaired mark
}
