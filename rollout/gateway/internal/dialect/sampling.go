package dialect

import (
	"cmp"
	"reflect"
)

// sampling has the fields that ask for other sampling than the run's, or for what answers do not have.
type sampling struct {
	Temperature *float64       `json:"temperature"`
	TopP        *float64       `json:"top_p"`
	TopK        *float64       `json:"top_k"`
	MinP        *float64       `json:"min_p"`
	MaxTokens   *float64       `json:"max_tokens"`
	MaxComplete *float64       `json:"max_completion_tokens" counted:"max_tokens"`
	MaxOutput   *float64       `json:"max_output_tokens" counted:"max_tokens"`
	MinTokens   float64        `json:"min_tokens"`
	Presence    float64        `json:"presence_penalty"`
	Frequency   float64        `json:"frequency_penalty"`
	Repetition  *float64       `json:"repetition_penalty"`
	Bias        map[string]any `json:"logit_bias"`
	Seed        any            `json:"seed"`
	LogProbs    bool           `json:"logprobs"`
	Effort      any            `json:"reasoning_effort"`
	Template    map[string]any `json:"chat_template_kwargs"`
}

// forms has the fields with which vLLM and SGLang are asked for answers of a given form.
type forms struct {
	Structured any `json:"structured_outputs"`
	JSON       any `json:"guided_json"`
	Pattern    any `json:"guided_regex"`
	Choice     any `json:"guided_choice"`
	Grammar    any `json:"guided_grammar"`
	Schema     any `json:"json_schema"`
	Regex      any `json:"regex"`
	EBNF       any `json:"ebnf"`
}

// asked returns the names of the fields of a struct that ask for something: not those that have their zero value or an
// empty object.
func asked(fields any) (names []string) {
	for f, v := range reflect.ValueOf(fields).Fields() {
		if !v.IsZero() && (v.Kind() != reflect.Map || v.Len() > 0) {
			names = append(names, cmp.Or(f.Tag.Get("counted"), f.Tag.Get("json")))
		}
	}
	return names
}

// choices has the fields that are honoured or counted by their values.
type choices struct {
	N          *float64 `json:"n"`
	Reasoning  kind     `json:"reasoning"`
	ToolChoice kind     `json:"tool_choice"`
	Parallel   *bool    `json:"parallel_tool_calls"`
	Thread     thread   `json:"thread"` // of Anthropic's messages
}

// thread asks the service to keep a conversation, or to continue one that it keeps: such a request has only what is
// new.
type thread struct {
	Type     string `json:"type"`
	Previous string `json:"previous_message_id"`
}

// unknown has the fields that are refused.
type unknown struct {
	Conversation any `json:"conversation"`
	Prompt       any `json:"prompt"`
	Functions    any `json:"functions"` // which tools have replaced
}
