package dialogue

import (
	"strings"

	"vagen/policy/vlm/tokenizer"
)

// Stopper finds stop strings in a response, token by token.
type Stopper struct {
	stops   []string
	decoder *tokenizer.Decoder
	tail    string // end of the text that may be the start of a stop string
	keep    int
}

// NewStopper returns nil if there are no stop strings.
func NewStopper(tok *tokenizer.Tokenizer, stops []string) *Stopper {
	if len(stops) == 0 {
		return nil
	}
	s := &Stopper{stops: stops, decoder: tok.NewDecoder(tokenizer.KeepSpecial)}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	return s
}

// Add adds the response's next token and reports whether the text now contains a stop
// string. s may be nil.
func (s *Stopper) Add(token int32) bool {
	if s == nil {
		return false
	}
	s.tail += s.decoder.Add(token)
	for _, stop := range s.stops {
		if strings.Contains(s.tail, stop) {
			return true
		}
	}
	s.tail = s.tail[max(0, len(s.tail)-s.keep):]
	return false
}
