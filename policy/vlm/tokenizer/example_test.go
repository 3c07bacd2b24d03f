package tokenizer_test

import (
	"fmt"

	"vagen/policy/vlm/tokenizer"
)

// A conversation of two turns, rendered as it goes on.
func ExampleChat() {
	tok, err := tokenizer.NewTiny([]string{"Left", "Up", "<answer>", "</answer>"})
	if err != nil {
		panic(err)
	}
	chat, err := tok.Chat(nil)
	if err != nil {
		panic(err)
	}
	first, err := tokenizer.Marked("user", "Look: <image>", "<image>", 1)
	if err != nil {
		panic(err)
	}
	opening, err := chat.Open([]tokenizer.Message{tokenizer.Text("system", "Walk to the goal."), first})
	if err != nil {
		panic(err)
	}
	fmt.Print(opening)
	fmt.Print("<answer>Up</answer><|im_end|>") // what the model writes
	next, err := chat.Continue([]tokenizer.Message{tokenizer.Text("user", "And now?")}, tokenizer.EndedTurn)
	if err != nil {
		panic(err)
	}
	fmt.Print(next)
	// Output:
	// <|im_start|>system
	// Walk to the goal.<|im_end|>
	// <|im_start|>user
	// Look: <|vision_start|><|image_pad|><|vision_end|><|im_end|>
	// <|im_start|>assistant
	// <answer>Up</answer><|im_end|>
	// <|im_start|>user
	// And now?<|im_end|>
	// <|im_start|>assistant
}

func ExampleTokenizer_Encode() {
	tok, err := tokenizer.NewTiny([]string{"<think>", " goal"})
	if err != nil {
		panic(err)
	}
	ids, err := tok.Encode("<think>a goal")
	if err != nil {
		panic(err)
	}
	fmt.Println(ids, tok.Decode(ids, tokenizer.KeepSpecial))
	// Output: [263 97 264] <think>a goal
}
