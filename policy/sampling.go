package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrSampling is wrapped by errors about settings of Sampling that are invalid, or that a policy
// does not offer.
var ErrSampling = errors.New("bad sampling")

// Sampling is the method of choosing tokens.
type Sampling struct {
	Temperature float64 // divides the logits; 0 chooses the most likely token
	TopK        int     // keep the k most likely tokens; 0 keeps all
	TopP        float64 // keep the smallest set with this probability; 0 or 1 keeps all
	MinP        float64 // drop tokens below this share of the most likely one; 0 drops none
	MaxTokens   int     // longest response, end-of-turn token included
	// StopStrings end a response as soon as one of them is in its text. The response
	// includes the stop string.
	StopStrings []string
	// Thinking limits the reasoning in a response; the zero value is no limit.
	Thinking Thinking
}

// Thinking limits the number of tokens between two tags. If a response has Tokens tokens
// after the opening tag and no closing tag, the closing tag is inserted, and generation
// continues after it.
type Thinking struct {
	Tokens int    // 0 is no limit
	Open   string // such as <think>, also if the chat template writes it; "": a response starts inside
	Close  string // such as </think>
}

// Check returns an error that wraps ErrSampling if a setting is invalid. MaxTokens may be 0 if
// every Prompt has its own: see Limits.
func (s Sampling) Check() error {
	switch {
	case s.Temperature != 0 && !(s.Temperature >= 1e-9 && s.Temperature <= 1e6):
		return fmt.Errorf("%w: temperature is %v, must be in [1e-9, 1e6], or 0 for the most likely token", ErrSampling,
			s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("%w: top-k is %d, must not be negative", ErrSampling, s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("%w: top-p is %v, must be in [0, 1]", ErrSampling, s.TopP)
	case !(s.MinP >= 0 && s.MinP < 1):
		return fmt.Errorf("%w: min-p is %v, must be in [0, 1)", ErrSampling, s.MinP)
	case s.Thinking.Tokens < 0:
		return fmt.Errorf("%w: Thinking.Tokens is %d, must not be negative", ErrSampling, s.Thinking.Tokens)
	case s.Thinking.Tokens > 0 && s.Thinking.Close == "":
		return fmt.Errorf("%w: Thinking.Tokens is %d, but Thinking.Close is empty", ErrSampling, s.Thinking.Tokens)
	}
	return checkStops(s.StopStrings)
}

// checkStops refuses the empty string, which every text contains.
func checkStops(stops []string) error {
	if i := slices.Index(stops, ""); i >= 0 {
		return fmt.Errorf("%w: stop string %d is empty", ErrSampling, i)
	}
	return nil
}

// Limits returns the longest response to each prompt of a call of Generate. An error names prompts
// that continue the same conversation, or one whose limit or stop strings are invalid.
func (s Sampling) Limits(prompts []Prompt) ([]int, error) {
	limits := make([]int, len(prompts))
	seen := map[uint64]int{}
	for i, p := range prompts {
		if j, ok := seen[p.Conversation]; ok {
			return nil, fmt.Errorf("prompts %d and %d continue the same conversation, %d", j, i, p.Conversation)
		}
		seen[p.Conversation] = i
		if limits[i] = cmp.Or(p.MaxTokens, s.MaxTokens); limits[i] < 1 {
			return nil, fmt.Errorf("prompt %d: the response may have %d tokens, must be at least 1", i, limits[i])
		}
		if err := checkStops(p.StopStrings); err != nil {
			return nil, fmt.Errorf("prompt %d: %w", i, err)
		}
	}
	return limits, nil
}
