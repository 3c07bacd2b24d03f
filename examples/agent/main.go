// Agent is a program in which a language model must find a number with a tool. It uses the SDK of OpenAI and knows
// nothing of training. A run with this environment trains it, and says by variables where to ask:
//
//	env: {name: agent, config: {command: [go, run, ./examples/agent]}}
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

var guess = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name: "guess", Description: openai.String("guesses the number"),
	Parameters: openai.FunctionParameters{"type": "object", "required": []string{"number"},
		"properties": map[string]any{"number": map[string]any{"type": "integer"}}},
})

// main lets the model guess at most twice, and reports the reward: 1 for the first guess, 0.5 for the second.
func main() {
	ctx, model := context.Background(), openai.NewClient() // of OPENAI_BASE_URL and OPENAI_API_KEY
	seed, _ := strconv.Atoi(os.Getenv("VAGEN_SEED"))
	colour := []string{"red", "blue"}[seed%2]
	chat := openai.ChatCompletionNewParams{Model: "policy", Tools: []openai.ChatCompletionToolUnionParam{guess},
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("Find the number."), openai.UserMessage("The box is " + colour + ".")}}
	reward := 0.0
	for turn := 1.0; turn <= 2 && reward == 0; turn++ {
		answer, err := model.Chat.Completions.New(ctx, chat)
		check(err)
		message := answer.Choices[0].Message
		chat.Messages = append(chat.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			result, arguments := "wrong", struct{ Number int }{}
			if json.Unmarshal([]byte(call.Function.Arguments), &arguments) == nil && arguments.Number == seed%2+1 {
				result, reward = "right", 1/turn
			}
			chat.Messages = append(chat.Messages, openai.ToolMessage(result, call.ID))
		}
		if len(message.ToolCalls) == 0 {
			chat.Messages = append(chat.Messages, openai.UserMessage("Use the tool."))
		}
	}
	check(model.Post(ctx, "reward", map[string]any{"reward": reward, "success": reward == 1}, nil,
		option.WithBaseURL(os.Getenv("VAGEN_EPISODE_URL"))))
}

// check ends the program at an error, and the episode with it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
