package mask

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Kind is the origin of a token.
type Kind uint8

// The kinds of tokens.
const (
	Prompt      Kind = iota // context before the first response
	Observation             // context, usually between responses
	Response                // written by the model
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Prompt:
		return "prompt"
	case Observation:
		return "observation"
	case Response:
		return "response"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Errors for callers to distinguish.
var (
	// ErrKind means that tokens of this kind cannot be appended here.
	ErrKind = errors.New("kind not allowed here")
	// ErrEmptyTurn means that a response without tokens was appended.
	ErrEmptyTurn = errors.New("a turn needs at least one token")
	// ErrClosed means that something was appended after a summary.
	ErrClosed = errors.New("the conversation was closed by a summary")
	// ErrSpan means that a span is not inside one turn.
	ErrSpan = errors.New("span not inside one turn")
	// ErrTurns means that the number of rewards is not the number of turns.
	ErrTurns = errors.New("number of rewards differs from number of turns")
	// ErrNotFinite means that a reward is NaN or infinite, or too large for a
	// float32.
	ErrNotFinite = errors.New("not a finite number")
	// ErrOrphanMark means that begin and end marks do not pair up.
	ErrOrphanMark = errors.New("unpaired mark")
)

// segment is a run of tokens of one origin. Segments tile the tokens: each
// starts where the one before it ends, and none is empty. Every response
// segment is exactly one turn.
type segment struct {
	end     int // exclusive
	kind    Kind
	summary bool // a response that closes the conversation
}

// Sequence is a row of tokens with their origins. The zero value is empty and ready to
// use. It only grows, or is truncated by [Sequence.Truncate], so its masks always have
// the length of its tokens.
//
// A Sequence is not safe for concurrent writing. Use [Sequence.Clone] to copy
// it; a plain assignment shares memory.
type Sequence struct {
	tokens   []int32
	segments []segment
	spans    []span
	turns    int
}

// Len returns the number of tokens.
func (s *Sequence) Len() int { return len(s.tokens) }

// Turns returns the number of responses.
func (s *Sequence) Turns() int { return s.turns }

// Tokens returns the token ids. The slice is valid until the next change of the
// sequence and must not be written to.
func (s *Sequence) Tokens() []int32 { return slices.Clip(s.tokens) }

// Reset empties the sequence and keeps its memory.
func (s *Sequence) Reset() {
	s.tokens, s.segments, s.spans = s.tokens[:0], s.segments[:0], s.spans[:0]
	s.turns = 0
}

// Clone returns an independent copy.
func (s *Sequence) Clone() *Sequence {
	return &Sequence{
		tokens:   slices.Clone(s.tokens),
		segments: slices.Clone(s.segments),
		spans:    slices.Clone(s.spans),
		turns:    s.turns,
	}
}

// Equal reports whether both sequences hold the same tokens, turns and spans.
func (s *Sequence) Equal(o *Sequence) bool {
	o = cmp.Or(o, new(Sequence))
	return slices.Equal(s.tokens, o.tokens) && slices.Equal(s.segments, o.segments) && slices.Equal(s.spans, o.spans)
}

// AppendContext appends tokens that the model reads. The kind is Prompt or Observation;
// Prompt is an ErrKind after a response. Adjacent context pieces of one kind are joined;
// without tokens nothing changes.
func (s *Sequence) AppendContext(kind Kind, ids ...int32) error {
	switch {
	case kind != Prompt && kind != Observation:
		return fmt.Errorf("mask: context: kind %v: %w (must be prompt or observation)", kind, ErrKind)
	case kind == Prompt && s.turns > 0:
		return fmt.Errorf("mask: context: prompt after %d turns: %w (must be observation)", s.turns, ErrKind)
	case s.closed():
		return fmt.Errorf("mask: context: %w", ErrClosed)
	}
	s.context(kind, ids)
	return nil
}

// context appends context without checks.
func (s *Sequence) context(kind Kind, ids []int32) {
	if len(ids) == 0 {
		return
	}
	s.tokens = append(s.tokens, ids...)
	s.segments = appendSegment(s.segments, segment{end: len(s.tokens), kind: kind})
}

// AppendResponse appends one turn: all tokens of a response, including the end-of-turn
// token if the model wrote it. The last of them is the turn end. A response without
// tokens is an ErrEmptyTurn.
func (s *Sequence) AppendResponse(ids ...int32) error { return s.appendTurn(false, ids) }

// AppendSummary appends the turn in which the model summarises a conversation that is
// about to be closed. It is trained like any response. Its last token is the seam to the
// next conversation, and nothing can be appended after it.
func (s *Sequence) AppendSummary(ids ...int32) error { return s.appendTurn(true, ids) }

func (s *Sequence) appendTurn(summary bool, ids []int32) error {
	switch {
	case s.closed():
		return fmt.Errorf("mask: response: %w", ErrClosed)
	case len(ids) == 0:
		return fmt.Errorf("mask: response: turn %d: %w", s.turns, ErrEmptyTurn)
	}
	s.turn(ids, summary)
	return nil
}

// turn appends a turn without checks.
func (s *Sequence) turn(ids []int32, summary bool) {
	s.tokens = append(s.tokens, ids...)
	s.segments = append(s.segments, segment{end: len(s.tokens), kind: Response, summary: summary})
	s.turns++
}

// appendSegment appends a segment and joins it with the last one if both are context of
// one kind.
func appendSegment(dst []segment, g segment) []segment {
	if n := len(dst); n > 0 && g.kind != Response && dst[n-1].kind == g.kind {
		dst[n-1].end = g.end
		return dst
	}
	return append(dst, g)
}

func (s *Sequence) closed() bool {
	n := len(s.segments)
	return n > 0 && s.segments[n-1].summary
}

// EndsWithSummary reports whether the conversation was closed by a summary.
func (s *Sequence) EndsWithSummary() bool { return s.closed() }

// Piece is a run of tokens of one origin.
type Piece struct {
	Kind       Kind // origin of its tokens
	Start, End int  // first token, one past the last
	Turn       int  // index of the turn, -1 for context
}

// Pieces yields the pieces of the sequence in order.
func (s *Sequence) Pieces(yield func(Piece) bool) {
	start, turn := 0, 0
	for _, g := range s.segments {
		p := Piece{Kind: g.kind, Start: start, End: g.end, Turn: -1}
		if g.kind == Response {
			p.Turn = turn
			turn++
		}
		if !yield(p) {
			return
		}
		start = g.end
	}
}

// TurnAt returns a turn's first token and one past its last token, and false if there is
// no such turn.
func (s *Sequence) TurnAt(turn int) (start, end int, ok bool) {
	for p := range s.Pieces {
		if p.Turn == turn && turn >= 0 {
			return p.Start, p.End, true
		}
	}
	return 0, 0, false
}
