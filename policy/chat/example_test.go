package chat_test

import (
	"context"
	"fmt"
	"image"
	"io"
	"net/http"
	"net/http/httptest"

	"vagen/policy"
	"vagen/policy/chat"
)

// A service with OpenAI's API, here one that always gives the same answer, gets two
// questions about a picture.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"<answer>Up</answer>"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":300,"completion_tokens":8}}`)
	}))
	defer server.Close()

	o := chat.DefaultOptions(chat.OpenAI, "Qwen2.5-VL-3B-Instruct")
	o.BaseURL = server.URL + "/v1" // vLLM, for instance, which needs no key
	o.Prices = map[string]chat.Price{o.Model: {Prompt: 0.2, Completion: 0.6}}
	o.Budget = 1
	model, err := chat.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()

	picture := image.NewGray(image.Rect(0, 0, 96, 96))
	sampling := policy.Sampling{Temperature: 0.7, MaxTokens: 128}
	for _, messages := range [][]policy.Message{
		{{Role: policy.System, Text: "You move on a frozen lake."},
			{Role: policy.User, Text: "<image>\nWhere to?", Images: []image.Image{picture}}},
		{{Role: policy.User, Text: "And then?"}},
	} {
		out, err := model.Generate(context.Background(), []policy.Prompt{{Conversation: 1, Messages: messages}}, sampling)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].Text, out[0].Stop, out[0].Err)
	}
	u := model.Usage()
	fmt.Printf("%d requests, %d images, %d+%d tokens, cost %.6f\n", u.Requests, u.Images, u.PromptTokens,
		u.CompletionTokens, u.Cost)
	// Output:
	// <answer>Up</answer> end <nil>
	// <answer>Up</answer> end <nil>
	// 2 requests, 2 images, 600+16 tokens, cost 0.000130
}
