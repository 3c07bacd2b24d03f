package vlm

import (
	"fmt"
	"strings"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// thinker counts the tokens that a response writes behind an opening tag, and
// closes the tag for it at the limit.
type thinker struct {
	limits  policy.Thinking
	closing []int32 // tokens of the closing tag
	decoder *tokenizer.Decoder
	tail    string // as much of the text's end as may begin a tag
	inside  bool
	count   int
	pending []int32 // to be written next
}

func checkThinking(t policy.Thinking) error {
	switch {
	case t.Tokens < 0:
		return fmt.Errorf("vlm: %w: Thinking.Tokens is %d, must not be negative", ErrSampling, t.Tokens)
	case t.Tokens > 0 && t.Close == "":
		return fmt.Errorf("vlm: %w: Thinking.Tokens is %d, but Thinking.Close is empty", ErrSampling, t.Tokens)
	}
	return nil
}

// newThinker returns nil when there is no limit.
func newThinker(tok *tokenizer.Tokenizer, t policy.Thinking) (*thinker, error) {
	if t.Tokens == 0 {
		return nil, nil
	}
	closing, err := tok.Encode(t.Close)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w: Thinking.Close: %w", ErrSampling, err)
	}
	return &thinker{limits: t, closing: closing, decoder: tok.NewDecoder(false), inside: t.Open == ""}, nil
}

// next is the token that must be written next, −1 when it is sampled. It is
// nil-safe, as is add.
func (t *thinker) next() int32 {
	if t == nil || len(t.pending) == 0 {
		return -1
	}
	return t.pending[0]
}

// add takes the response's next token and reports whether it was forced.
func (t *thinker) add(token int32) bool {
	if t == nil {
		return false
	}
	t.tail += t.decoder.Add(token)
	forced := len(t.pending) > 0
	if forced {
		t.pending = t.pending[1:]
	}
	if t.inside {
		t.count++
		if _, after, closed := strings.Cut(t.tail, t.limits.Close); closed {
			t.inside, t.tail = false, after
		} else if !forced && t.count >= t.limits.Tokens {
			t.pending = append([]int32(nil), t.closing...)
		}
	}
	if !t.inside && t.limits.Open != "" {
		if _, after, opened := strings.Cut(t.tail, t.limits.Open); opened {
			t.inside, t.tail, t.count = true, after, 0
		}
	}
	if keep := max(len(t.limits.Open), len(t.limits.Close)) - 1; len(t.tail) > keep {
		t.tail = t.tail[len(t.tail)-keep:]
	}
	return forced
}
