package chat

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// secret holds a key in closures, where neither fmt nor reflection can read it.
type secret struct {
	reveal func() string            // empty without a key
	hide   func(text string) string // removes the key and parts of it from text
	strip  func(text string) string // removes only the whole key
}

// defaultVariables are the default variables of the keys for the public addresses.
var defaultVariables = map[API][]string{
	OpenAI:    {"OPENAI_API_KEY"},
	Anthropic: {"ANTHROPIC_API_KEY"},
	Gemini:    {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
}

// KeyVariables returns the environment variables that are read for a key of an API
// if Options.KeyEnv is empty; the first one that is set is used.
func KeyVariables(a API) []string { return slices.Clone(defaultVariables[a]) }

// KeyNames returns the environment variables in which New looks for the key, the first that is set; nil if
// requests have none.
func (o *Options) KeyNames() []string {
	if o.KeyEnv != "" {
		return []string{o.KeyEnv}
	}
	if o.public() {
		return KeyVariables(o.API)
	}
	return nil
}

// findKey reads the key from the environment.
func findKey(o *Options) (*secret, error) {
	names := o.KeyNames()
	if len(names) == 0 {
		return newSecret(""), nil
	}
	for _, name := range names {
		key := strings.TrimSpace(os.Getenv(name))
		if key == "" {
			continue
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, fmt.Errorf("chat: KeyEnv: the key in %s has characters other than printable ASCII without spaces", name)
		}
		return newSecret(key), nil
	}
	return nil, fmt.Errorf("chat: KeyEnv: %w: set the environment variable %s", ErrKey, strings.Join(names, " or "))
}

const (
	// piece is how many consecutive characters of a key are removed from text.
	piece = 8
	// shortest is the smallest length of a key that is removed from text: services
	// without keys often get a short dummy word.
	shortest = 4
	// hidden replaces the key in text.
	hidden = "[key]"
)

func newSecret(key string) *secret {
	same := func(text string) string { return text }
	s := &secret{reveal: func() string { return key }, hide: same, strip: same}
	if len(key) < shortest {
		return s
	}
	if len(key) >= 2*piece {
		s.strip = func(text string) string { return strings.ReplaceAll(text, key, hidden) }
	}
	n := min(piece, len(key))
	pieces := map[string]bool{}
	low := lower(key)
	for i := range len(low) - n + 1 {
		pieces[low[i:i+n]] = true
	}
	s.hide = func(text string) string { return cut(text, pieces, n) }
	return s
}

// cut replaces every part of text that consists of pieces of length n.
func cut(text string, pieces map[string]bool, n int) string {
	low := lower(text)
	var b strings.Builder
	from := 0 // text before it has been written
	for i := 0; i+n <= len(low); i++ {
		if !pieces[low[i:i+n]] {
			continue
		}
		end := i + n
		for j := i + 1; j <= end && j+n <= len(low); j++ {
			if pieces[low[j:j+n]] {
				end = j + n
			}
		}
		b.WriteString(text[from:i])
		b.WriteString(hidden)
		from, i = end, end-1
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// lower changes only A to Z, so that byte positions stay the same.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// hideError returns the error without the key, or the error itself if the key is not
// in its text.
func (s *secret) hideError(err error) error {
	if text := err.Error(); s.hide(text) != text {
		return errors.New(s.hide(text))
	}
	return err
}
