package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"vagen/internal/jsontext"
)

const (
	lengthBytes = 8
	// maxHeader is the limit of the reference implementation.
	maxHeader   = 100_000_000
	metadataKey = "__metadata__"
)

// span is a tensor and its range of bytes, relative to the start of the data.
type span struct {
	Tensor
	begin, end int64
}

type header struct {
	spans    []span // in the order of the data
	metadata map[string]string
}

// parseHeader decodes the JSON and checks it against the number of data bytes. A syntax
// error is returned immediately; all other problems are listed together.
func parseHeader(raw []byte, dataBytes int64) (*header, error) {
	if err := jsontext.Check(raw); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	p := &headerParser{tokens: newTokens(raw)}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	checkSpans(&p.wrong, p.spans, dataBytes)
	if err := p.wrong.err(ErrFormat); err != nil {
		return nil, err
	}
	return &header{spans: p.spans, metadata: p.metadata}, nil
}

type headerParser struct {
	*tokens
	spans    []span
	metadata map[string]string
	wrong    problems
}

func (p *headerParser) parse() error {
	err := p.object("header", func(key string) error {
		if key == metadataKey {
			p.metadata = map[string]string{}
			return p.object(metadataKey, func(key string) (err error) {
				p.metadata[key], err = p.str(metadataKey + "." + strconv.Quote(key))
				return err
			})
		}
		s, err := p.span(key)
		if err == nil {
			p.spans = append(p.spans, s)
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.end()
}

func (p *headerParser) span(name string) (span, error) {
	s := span{Tensor: Tensor{Name: name}}
	what := "tensor " + strconv.Quote(name)
	var offsets []int64
	var seen int
	err := p.object(what, func(key string) error {
		seen++
		switch key {
		case "dtype":
			text, err := p.str(what + ": dtype")
			if err != nil {
				return err
			}
			if s.DType, err = ParseDType(text); err != nil {
				p.wrong.addf("%s: unknown dtype %q", what, text)
			}
		case "shape":
			dims, err := p.integers(what + ": shape")
			if err != nil {
				return err
			}
			s.Shape = make([]int, len(dims))
			for i, d := range dims {
				if d > math.MaxInt {
					return fmt.Errorf("%s: dimension %d is too large for this machine", what, d)
				}
				s.Shape[i] = int(d)
			}
		case "data_offsets":
			var err error
			if offsets, err = p.integers(what + ": data_offsets"); err != nil {
				return err
			}
			if len(offsets) != 2 {
				return fmt.Errorf("%s: data_offsets has %d numbers, want 2", what, len(offsets))
			}
			s.begin, s.end = offsets[0], offsets[1]
		default:
			return fmt.Errorf("%s: unknown key %q", what, key)
		}
		return nil
	})
	if err == nil && seen != 3 {
		err = fmt.Errorf("%s: needs dtype, shape and data_offsets", what)
	}
	return s, err
}

// checkSpans sorts the spans by position and reports problems: sizes that contradict the
// shape, ranges outside the data, overlaps and gaps.
func checkSpans(wrong *problems, spans []span, dataBytes int64) {
	slices.SortStableFunc(spans, func(a, b span) int {
		if a.begin != b.begin {
			return cmp.Compare(a.begin, b.begin)
		}
		return cmp.Compare(a.end, b.end)
	})
	if cutShort(wrong, spans, dataBytes) {
		return
	}
	var at int64 // end of the data covered so far
	var last string
	for _, s := range spans {
		if s.begin > s.end || s.end > dataBytes {
			wrong.addf("tensor %q: bytes [%d, %d) outside the %d bytes of data", s.Name, s.begin, s.end, dataBytes)
			continue
		}
		if s.DType.valid() {
			if n, err := s.checkedBytes(); err != nil {
				wrong.addf("tensor %q: %v", s.Name, err)
			} else if n != s.end-s.begin {
				wrong.addf("tensor %q: %v%v needs %d bytes, has %d", s.Name, s.DType, s.Shape, n, s.end-s.begin)
			}
		}
		switch {
		case s.begin < at:
			wrong.addf("tensor %q overlaps %q", s.Name, last)
		case s.begin > at:
			wrong.addf("a gap of %d bytes before tensor %q", s.begin-at, s.Name)
		}
		if s.end >= at {
			at, last = s.end, s.Name
		}
	}
	if at < dataBytes {
		wrong.addf("%d bytes of data after the last tensor", dataBytes-at)
	}
}

// cutShort reports in one problem that the file is truncated, if several tensors lie
// beyond its end. The spans are sorted. A single tensor outside the data is reported
// separately.
func cutShort(wrong *problems, spans []span, dataBytes int64) bool {
	var beyond, end int64
	for _, s := range spans {
		if s.begin <= s.end && s.end > dataBytes {
			beyond++
			end = max(end, s.end)
		}
	}
	if beyond < 2 {
		return false
	}
	at := slices.IndexFunc(spans, func(s span) bool { return s.end > dataBytes })
	wrong.addf("%d bytes of data, but %d of %d tensors, from %q on, end beyond them, the last at byte %d: the file is truncated",
		dataBytes, beyond, len(spans), spans[at].Name, end)
	return true
}

// tokens reads JSON of a known structure. Callers state which token must follow, so nesting
// deeper than the structure is an error. Unlike encoding/json it rejects repeated keys.
type tokens struct{ dec *json.Decoder }

func newTokens(raw []byte) *tokens {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return &tokens{dec}
}

func (t *tokens) delim(what string, want json.Delim) error {
	tok, err := t.dec.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", what, noEOF(err))
	}
	if tok != want {
		return fmt.Errorf("%s: found %s, want %q", what, describe(tok), string(want))
	}
	return nil
}

// object calls field for each key; field must read the value.
func (t *tokens) object(what string, field func(key string) error) error {
	if err := t.delim(what, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for t.dec.More() {
		key, err := t.str(what)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%s: key %q is repeated", what, key)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	return t.delim(what, '}')
}

func (t *tokens) str(what string) (string, error) {
	tok, err := t.dec.Token()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, noEOF(err))
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("%s: found %s, want a string", what, describe(tok))
	}
	return s, nil
}

// integers reads an array of integers in [0, 2^63).
func (t *tokens) integers(what string) ([]int64, error) {
	if err := t.delim(what, '['); err != nil {
		return nil, err
	}
	var list []int64
	for t.dec.More() {
		tok, err := t.dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, noEOF(err))
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s: found %s, want an integer", what, describe(tok))
		}
		n, err := strconv.ParseUint(num.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s: found %s, want an integer from 0 to 2^63-1", what, num)
		}
		list = append(list, int64(n))
	}
	return list, t.delim(what, ']')
}

// maxIndexDepth bounds the nesting of the parts of an index that are not used.
const maxIndexDepth = 32

// skip reads one value of any kind, nested at most depth deep.
func (t *tokens) skip(depth int) error {
	for open := 0; ; {
		tok, err := t.dec.Token()
		if err != nil {
			return noEOF(err)
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
		if open > depth {
			return fmt.Errorf("nested more than %d deep", depth)
		}
		if open == 0 {
			return nil
		}
	}
}

// end checks that nothing but white space follows.
func (t *tokens) end() error {
	switch tok, err := t.dec.Token(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("found %s after the end of the JSON object", describe(tok))
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func describe(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case json.Delim:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(tok)
}
