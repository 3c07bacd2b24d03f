package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"vagen/internal/unmade"
)

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	files    files // what Save writes
	bpe      *bpe
	nfc      bool
	steps    []step
	raw      *matcher // added tokens cut before normalisation
	normal   *matcher // added tokens cut after it
	tokens   []token  // by id; an empty text is an unused id
	added    map[string]*added
	special  Special
	cache    cache
	template string            // of the chat, "" if there is none
	names    map[string]string // special tokens by the names templates use
}

// token is the decoded form of an id.
type token struct {
	bytes   string
	special bool
	added   bool
}

// step is one stage of the pre-tokenizer.
type step struct {
	scan   scanner
	prefix bool // instead of scanning: prepend a space to a piece that has none
}

// Special holds the ids with a special meaning, -1 where the vocabulary
// has no such token. The first four are named by tokenizer_config.json, the
// others are looked up by their text.
type Special struct {
	BOS, EOS, Pad, Unk int32

	TurnStart   int32 // <|im_start|>
	TurnEnd     int32 // <|im_end|>
	VisionStart int32 // <|vision_start|>
	VisionEnd   int32 // <|vision_end|>
	ImagePad    int32 // <|image_pad|>, one per merged image patch
	VideoPad    int32 // <|video_pad|>
}

// Special returns the ids with a special meaning.
func (t *Tokenizer) Special() Special { return t.special }

// VocabSize returns the number of ids, added tokens included: every id that
// Encode returns is below it. A model's embedding is often larger; ids from
// here on have no text.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// PaddedSize returns VocabSize rounded up to a multiple, the number of rows for an
// embedding. Multiples below 2 do not round.
func (t *Tokenizer) PaddedSize(multiple int) int {
	n := t.VocabSize()
	if multiple < 2 {
		return n
	}
	return (n + multiple - 1) / multiple * multiple
}

// TokenID returns the token whose text is exactly s, such as "<|im_end|>" or
// " world", and reports whether there is one. Added tokens come first.
func (t *Tokenizer) TokenID(s string) (int32, bool) {
	if a, ok := t.added[s]; ok {
		return a.ID, true
	}
	if t.bpe == nil { // of a zero value
		return 0, false
	}
	id, ok := t.bpe.vocab[s]
	return id, ok
}

// Token returns the bytes of an id, which need not be whole
// characters, and reports whether the id is in use.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) || t.tokens[id].bytes == "" {
		return "", false
	}
	return t.tokens[id].bytes, true
}

// Encode returns the ids of text, with nothing added around it.
// Added tokens in the text become their ids. Invalid UTF-8 is an error that wraps ErrText and gives the position.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.Append(nil, text)
}

// Append is Encode into dst's free capacity. On an error it returns nil.
func (t *Tokenizer) Append(dst []int32, text string) ([]int32, error) {
	if t.bpe == nil {
		return nil, unmade.Error("tokenizer.Tokenizer", "Load")
	}
	if i := invalidAt(text); i >= 0 {
		return nil, fmt.Errorf("tokenizer: %w: byte %d is not valid UTF-8", ErrText, i)
	}
	token := func(a *added) error {
		dst = append(dst, a.ID)
		return nil
	}
	plain := func(s string) (err error) {
		dst, err = t.pieces(dst, s, t.steps)
		return err
	}
	err := t.raw.split(text, func(s string) error {
		if t.nfc {
			s = normalizeNFC(s)
		}
		return t.normal.split(s, plain, token)
	}, token)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return dst, nil
}

// pieces applies the remaining steps of the pre-tokenizer to s and encodes the result.
func (t *Tokenizer) pieces(dst []int32, s string, steps []step) ([]int32, error) {
	if len(steps) == 0 {
		return t.piece(dst, s)
	}
	if steps[0].prefix {
		if !strings.HasPrefix(s, " ") {
			s = " " + s
		}
		return t.pieces(dst, s, steps[1:])
	}
	for s != "" {
		n := steps[0].scan(s)
		var err error
		if dst, err = t.pieces(dst, s[:n], steps[1:]); err != nil {
			return nil, err
		}
		s = s[n:]
	}
	return dst, nil
}

// piece encodes one piece, from the cache if it is there.
func (t *Tokenizer) piece(dst []int32, s string) ([]int32, error) {
	if len(s) == 1 || len(s) > maxCached {
		return t.bpe.append(dst, s)
	}
	if ids, ok := t.cache.get(s); ok {
		return append(dst, ids...), nil
	}
	start := len(dst)
	dst, err := t.bpe.append(dst, s)
	if err == nil {
		t.cache.put(s, dst[start:])
	}
	return dst, err
}

func invalidAt(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}
