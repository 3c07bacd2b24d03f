package generate

import (
	"strings"

	"vagen/policy/vlm/tokenizer"
)

// stopDetector detects stop strings in a response during generation.
type stopDetector struct {
	stops   []string
	decoder *tokenizer.Decoder
	tail    string // end of the text that may be the start of a stop string
	keep    int
}

// NewStopDetector returns nil if there are no stop strings.
func NewStopDetector(tok *tokenizer.Tokenizer, stops []string) *stopDetector {
	if len(stops) == 0 {
		return nil
	}
	s := &stopDetector{stops: stops, decoder: tok.NewDecoder(tokenizer.KeepSpecial)}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	return s
}

// Add adds the response's next token and reports whether the text now contains a stop
// string. s may be nil.
func (s *stopDetector) Add(token int32) bool {
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
