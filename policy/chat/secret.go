package chat

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// secret holds a key. It is inside of functions, where neither fmt nor reflection
// finds it.
type secret struct {
	reveal func() string            // empty without a key
	hide   func(text string) string // cuts the key and parts of it out of text
	strip  func(text string) string // cuts only the whole key out
}

// usual are the variables that hold the keys for the public addresses.
var usual = map[API][]string{
	OpenAI:    {"OPENAI_API_KEY"},
	Anthropic: {"ANTHROPIC_API_KEY"},
	Gemini:    {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
}

// KeyVariables are the environment variables that hold a key of an API where
// Options.KeyEnv names none, the first one that is set counting.
func KeyVariables(a API) []string { return slices.Clone(usual[a]) }

// findKey reads the key from the environment.
func findKey(o *Options) (*secret, error) {
	names := []string{o.KeyEnv}
	if o.KeyEnv == "" {
		if !o.public() {
			return conceal(""), nil
		}
		names = usual[o.API]
	}
	for _, name := range names {
		key := strings.TrimSpace(os.Getenv(name))
		if key == "" {
			continue
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, fmt.Errorf("chat: KeyEnv: the key in %s has characters that no key has", name)
		}
		return conceal(key), nil
	}
	return nil, fmt.Errorf("chat: KeyEnv: %w: set the environment variable %s", ErrKey, strings.Join(names, " or "))
}

const (
	// piece is how many characters of a key in a row are cut out of text.
	piece = 8
	// shortest is the length from which a key is one: services that want none are
	// often given a word.
	shortest = 4
	// hidden replaces the key in text.
	hidden = "[key]"
)

func conceal(key string) *secret {
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

// cut replaces every stretch of text that is made of pieces of length n.
func cut(text string, pieces map[string]bool, n int) string {
	low := lower(text)
	var b strings.Builder
	from := 0 // what is before it has been written
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

// lower changes A to Z alone, so that positions stay.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// hideError words an error without the key. It stays the same when it has none.
func (s *secret) hideError(err error) error {
	if text := err.Error(); s.hide(text) != text {
		return errors.New(s.hide(text))
	}
	return err
}
