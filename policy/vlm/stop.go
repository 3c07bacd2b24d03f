package vlm

import (
	"strings"

	"vagen/policy/vlm/tokenizer"
)

// stopper looks for stop strings in a response while it is written.
type stopper struct {
	stops   []string
	decoder *tokenizer.Decoder
	tail    string // as much of the text's end as may begin a stop string
	keep    int
}

// newStopper returns nil when there is nothing to look for.
func newStopper(tok *tokenizer.Tokenizer, stops []string) *stopper {
	if len(stops) == 0 {
		return nil
	}
	s := &stopper{stops: stops, decoder: tok.NewDecoder(false)}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	return s
}

// add takes the response's next token and reports whether a stop string is in
// the text now. It is nil-safe.
func (s *stopper) add(token int32) bool {
	if s == nil {
		return false
	}
	s.tail += s.decoder.Add(token)
	for _, stop := range s.stops {
		if strings.Contains(s.tail, stop) {
			return true
		}
	}
	if n := len(s.tail); n > s.keep {
		s.tail = s.tail[n-s.keep:]
	}
	return false
}
