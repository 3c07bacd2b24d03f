package generate

import (
	"fmt"
	"strings"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// ThinkingLimiter counts the tokens of a response after an opening tag, and forces the closing tag
// at the limit.
type ThinkingLimiter struct {
	limits  policy.Thinking
	closing []int32 // tokens of the closing tag
	decoder *tokenizer.Decoder
	tail    string // end of the text that may be the start of a tag
	Inside  bool
	count   int
	pending []int32 // forced next tokens
}

// NewThinkingLimiter returns nil if there is no limit. opened is the text with which the chat
// template began the response.
func NewThinkingLimiter(tok *tokenizer.Tokenizer, t policy.Thinking, opened string) (*ThinkingLimiter, error) {
	if t.Tokens == 0 {
		return nil, nil
	}
	closing, err := tok.Encode(t.Close)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w: Thinking.Close: %w", policy.ErrSampling, err)
	}
	inside := strings.Contains(opened, t.Open) // also if Open is empty
	d := tok.NewDecoder(tokenizer.KeepSpecial)
	return &ThinkingLimiter{limits: t, closing: closing, decoder: d, Inside: inside}, nil
}

// Next returns the token that is forced next, −1 if the next token is sampled. t may be
// nil, also in add.
func (t *ThinkingLimiter) Next() int32 {
	if t == nil || len(t.pending) == 0 {
		return -1
	}
	return t.pending[0]
}

// Leaves reports whether the limiter leaves the next n tokens, whatever they are, to the
// model. t may be nil.
func (t *ThinkingLimiter) Leaves(n int) bool {
	switch {
	case t == nil:
		return true
	case len(t.pending) > 0:
		return false
	case t.Inside:
		return t.limits.Tokens-t.count >= n // the last of them may reach the limit
	}
	return t.limits.Open == "" || t.limits.Tokens+1 >= n // the next one may open
}

// Add adds the response's next token and reports whether it was forced.
func (t *ThinkingLimiter) Add(token int32) bool {
	if t == nil {
		return false
	}
	t.tail += t.decoder.Add(token)
	forced := len(t.pending) > 0
	if forced {
		t.pending = t.pending[1:]
	}
	if t.Inside {
		t.count++
		if _, after, closed := strings.Cut(t.tail, t.limits.Close); closed {
			t.Inside, t.tail = false, after
		} else if !forced && t.count >= t.limits.Tokens {
			t.pending = append([]int32(nil), t.closing...)
		}
	}
	if !t.Inside && t.limits.Open != "" {
		if _, after, opened := strings.Cut(t.tail, t.limits.Open); opened {
			t.Inside, t.tail, t.count = true, after, 0
		}
	}
	if keep := max(len(t.limits.Open), len(t.limits.Close)) - 1; len(t.tail) > keep {
		t.tail = t.tail[len(t.tail)-keep:]
	}
	return forced
}
