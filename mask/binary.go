package mask

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
)

var (
	_ encoding.BinaryMarshaler   = (*Sequence)(nil)
	_ encoding.BinaryAppender    = (*Sequence)(nil)
	_ encoding.BinaryUnmarshaler = (*Sequence)(nil)
)

// The stored form, all numbers as varints of encoding/binary:
//
//	"VMSK", version
//	number of segments, then each: 2·kind + summary, length
//	the tokens, signed
//	number of spans, then each: length of name, name, start, length
//
// The format is stable: a later version gets a new number, and this one stays
// readable.
const (
	magic   = "VMSK"
	version = 1
)

// AppendBinary appends the stored form of the sequence.
func (s *Sequence) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, magic...)
	b = binary.AppendUvarint(b, version)
	b = binary.AppendUvarint(b, uint64(len(s.segments)))
	start := 0
	for _, g := range s.segments {
		code := 2 * uint64(g.kind)
		if g.summary {
			code++
		}
		b = binary.AppendUvarint(b, code)
		b = binary.AppendUvarint(b, uint64(g.end-start))
		start = g.end
	}
	for _, id := range s.tokens {
		b = binary.AppendVarint(b, int64(id))
	}
	b = binary.AppendUvarint(b, uint64(len(s.spans)))
	for _, p := range s.spans {
		b = binary.AppendUvarint(b, uint64(len(p.name)))
		b = append(b, p.name...)
		b = binary.AppendUvarint(b, uint64(p.start))
		b = binary.AppendUvarint(b, uint64(p.end-p.start))
	}
	return b, nil
}

// MarshalBinary returns the stored form of the sequence. It never fails.
func (s *Sequence) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary replaces the sequence by a stored one. Invalid data gives an ErrFormat
// and leaves the sequence unchanged. Memory use is limited by the length of data.
func (s *Sequence) UnmarshalBinary(data []byte) error {
	r := reader{rest: data}
	stored, err := r.sequence()
	if err != nil {
		return fmt.Errorf("mask: stored sequence: byte %d: %w", len(data)-len(r.rest), err)
	}
	*s = *stored
	return nil
}

type reader struct{ rest []byte }

func (r *reader) sequence() (*Sequence, error) {
	if len(r.rest) < len(magic) || string(r.rest[:len(magic)]) != magic {
		return nil, fmt.Errorf("does not begin with %q: %w", magic, ErrFormat)
	}
	r.rest = r.rest[len(magic):]
	v, err := r.number("version", math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if v != version {
		return nil, fmt.Errorf("version %d: %w (must be %d)", v, ErrFormat, version)
	}
	pieces, err := r.pieces()
	if err != nil {
		return nil, err
	}
	s := new(Sequence)
	for i, p := range pieces {
		if err := r.piece(s, p); err != nil {
			return nil, fmt.Errorf("piece %d: %w: %w", i, ErrFormat, err)
		}
	}
	if err := r.spans(s); err != nil {
		return nil, err
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("%d bytes too many: %w", len(r.rest), ErrFormat)
	}
	return s, nil
}

type storedPiece struct {
	code uint64
	n    int
}

// pieces reads the table of segments. Tokens take at least a byte each, so no length can
// exceed the number of remaining bytes.
func (r *reader) pieces() ([]storedPiece, error) {
	count, err := r.number("segments", len(r.rest))
	if err != nil {
		return nil, err
	}
	pieces := make([]storedPiece, count)
	for i := range pieces {
		code, err := r.number("kind", 2*int(kinds)-1)
		if err != nil {
			return nil, err
		}
		n, err := r.number("length", len(r.rest))
		if err != nil {
			return nil, err
		}
		pieces[i] = storedPiece{code: uint64(code), n: n}
	}
	return pieces, nil
}

// piece reads the tokens of a segment and appends them, with the same checks as when
// recording.
func (r *reader) piece(s *Sequence, p storedPiece) error {
	ids := make([]int32, 0, min(p.n, len(r.rest)))
	for range p.n {
		id, n := binary.Varint(r.rest)
		if n <= 0 || id != int64(int32(id)) {
			return fmt.Errorf("token %d is not an int32", len(ids))
		}
		ids, r.rest = append(ids, int32(id)), r.rest[n:]
	}
	before := len(s.segments)
	var err error
	switch kind, summary := Kind(p.code/2), p.code%2 == 1; {
	case kind == Response && summary:
		err = s.AppendSummary(ids...)
	case kind == Response:
		err = s.AppendResponse(ids...)
	case summary:
		err = fmt.Errorf("a summary in the context: %w", ErrKind)
	default:
		err = s.AppendContext(kind, ids...)
	}
	if err == nil && len(s.segments) == before {
		err = fmt.Errorf("segment is empty, or of the same kind as the one before it")
	}
	return err
}

func (r *reader) spans(s *Sequence) error {
	count, err := r.number("spans", len(r.rest))
	if err != nil {
		return err
	}
	for i := range count {
		n, err := r.number("name", len(r.rest))
		if err != nil {
			return err
		}
		if n > len(r.rest) {
			return fmt.Errorf("span %d: name cut off: %w", i, ErrFormat)
		}
		name := string(r.rest[:n])
		r.rest = r.rest[n:]
		start, err := r.number("start", s.Len())
		if err != nil {
			return err
		}
		length, err := r.number("length", s.Len())
		if err != nil {
			return err
		}
		if err := s.AddSpan(name, start, start+length); err != nil {
			return fmt.Errorf("span %d: %w: %w", i, ErrFormat, err)
		}
	}
	return nil
}

// number reads a varint of at most limit.
func (r *reader) number(what string, limit int) (int, error) {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return 0, fmt.Errorf("%s: not a varint: %w", what, ErrFormat)
	}
	if v > uint64(limit) {
		return 0, fmt.Errorf("%s: %d: %w (at most %d)", what, v, ErrFormat, limit)
	}
	r.rest = r.rest[n:]
	return int(v), nil
}
