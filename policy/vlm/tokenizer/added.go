package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// added is a token that is matched literally in the text, before any merges.
type added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character adjoins
	LStrip     bool   `json:"lstrip"`      // absorbs the white space before it
	RStrip     bool   `json:"rstrip"`      // absorbs the white space after it
	Normalized bool   `json:"normalized"`  // matched after normalisation, not before
	Special    bool   `json:"special"`     // omitted when decoding skips special tokens
}

// matcher finds the longest of a set of tokens at a position.
type matcher struct {
	first  [256]bool // first bytes of tokens, to skip most positions quickly
	nodes  []node
	tokens []*added
}

type node struct {
	token *added
	next  map[byte]int32
}

func newMatcher(tokens []*added, text func(*added) string) *matcher {
	m := &matcher{nodes: make([]node, 1), tokens: tokens}
	for _, t := range tokens {
		at := int32(0)
		for _, b := range []byte(text(t)) {
			child, ok := m.nodes[at].next[b]
			if !ok {
				child = int32(len(m.nodes))
				m.nodes = append(m.nodes, node{})
				if m.nodes[at].next == nil {
					m.nodes[at].next = map[byte]int32{}
				}
				m.nodes[at].next[b] = child
			}
			at = child
		}
		if at > 0 {
			m.first[text(t)[0]] = true
			m.nodes[at].token = t
		}
	}
	return m
}

// longest returns the longest token at the start of s, or nil.
func (m *matcher) longest(s string) (found *added, size int) {
	at := int32(0)
	for i := range len(s) {
		child, ok := m.nodes[at].next[s[i]]
		if !ok {
			return found, size
		}
		at = child
		if t := m.nodes[at].token; t != nil {
			found, size = t, i+1
		}
	}
	return found, size
}

// split calls text for the non-empty parts of s between tokens, and token for the
// tokens, in order, until a call fails.
func (m *matcher) split(s string, text func(string) error, token func(*added) error) error {
	done := 0 // everything before this index was passed on
	for i := 0; i < len(s); {
		if !m.first[s[i]] {
			i++
			continue
		}
		t, size := m.longest(s[i:])
		if t == nil {
			i++
			continue
		}
		start, end := i, i+size
		i = end
		if t.SingleWord && (endsInWord(s[:start]) || startsWithWord(s[end:])) {
			continue
		}
		if t.LStrip {
			start = max(done, start-trailingSpace(s[:start]))
		}
		if t.RStrip {
			end += span(s[end:], unicode.IsSpace)
		}
		if done < start {
			if err := text(s[done:start]); err != nil {
				return err
			}
		}
		done = end
		if err := token(t); err != nil {
			return err
		}
	}
	if done < len(s) {
		return text(s[done:])
	}
	return nil
}

func trailingSpace(s string) int {
	return len(s) - len(strings.TrimRightFunc(s, unicode.IsSpace))
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// checkAdded sorts the tokens by id and rejects contradictions.
func checkAdded(tokens []*added, vocab map[string]int32, byID map[int32]string) error {
	slices.SortFunc(tokens, func(a, b *added) int { return int(a.ID) - int(b.ID) })
	seen := map[string]int32{}
	for _, t := range tokens {
		if t.Content == "" || t.ID < 0 {
			return fmt.Errorf("%w: added token %q: id %d is not allowed", ErrFormat, t.Content, t.ID)
		}
		if id, ok := seen[t.Content]; ok && id != t.ID {
			return fmt.Errorf("%w: added token %q has ids %d and %d", ErrFormat, t.Content, id, t.ID)
		}
		if have, ok := byID[t.ID]; ok && have != t.Content {
			return fmt.Errorf("%w: id %d means both %q and the added token %q", ErrFormat, t.ID, have, t.Content)
		}
		if id, ok := vocab[t.Content]; ok && id != t.ID {
			return fmt.Errorf("%w: added token %q has id %d, but %d in the vocabulary", ErrFormat, t.Content, t.ID, id)
		}
		seen[t.Content] = t.ID
		byID[t.ID] = t.Content
	}
	return nil
}
