package tokenizer

import "unicode/utf8"

// DecodeMode says what becomes of special tokens in a decoded text.
type DecodeMode bool

// The treatments of special tokens.
const (
	KeepSpecial DecodeMode = false
	SkipSpecial DecodeMode = true
)

// Decode returns the text of ids. It concatenates
// the bytes of all tokens first; each maximal invalid part becomes one U+FFFD. Ids
// without a token, such as the padding rows of an embedding, are ignored.
func (t *Tokenizer) Decode(ids []int32, mode DecodeMode) string {
	var b []byte
	for _, id := range ids {
		b = t.appendToken(b, id, mode)
	}
	return string(appendText(make([]byte, 0, len(b)), b))
}

func (t *Tokenizer) appendToken(b []byte, id int32, mode DecodeMode) []byte {
	if t == nil || id < 0 || int(id) >= len(t.tokens) || mode == SkipSpecial && t.tokens[id].special {
		return b
	}
	return append(b, t.tokens[id].bytes...)
}

// Decoder is Decode one token at a time: it returns text as soon as its characters
// are complete. The concatenation of everything that Add and Flush return equals
// what Decode returns for the same ids. The zero value knows no id; see
// [Tokenizer.NewDecoder].
type Decoder struct {
	t    *Tokenizer
	mode DecodeMode
	held []byte // the start of a character
	buf  []byte
}

// NewDecoder starts decoding a stream of ids.
func (t *Tokenizer) NewDecoder(mode DecodeMode) *Decoder {
	return &Decoder{t: t, mode: mode}
}

// Add adds the next id and returns the text that it completes, often "".
func (d *Decoder) Add(id int32) string {
	d.held = d.t.appendToken(d.held, id, d.mode)
	done := len(d.held) - unfinished(d.held)
	if done == 0 {
		return ""
	}
	d.buf = appendText(d.buf[:0], d.held[:done])
	d.held = append(d.held[:0], d.held[done:]...)
	return string(d.buf)
}

// Flush ends the stream: an incomplete character becomes U+FFFD. The
// Decoder can be used for another stream afterwards.
func (d *Decoder) Flush() string {
	d.buf = appendText(d.buf[:0], d.held)
	d.held = d.held[:0]
	return string(d.buf)
}

// appendText appends b with each maximal invalid part replaced by U+FFFD, as
// the Unicode standard recommends (chapter 3.9, "U+FFFD substitution of maximal
// subparts") and WHATWG decoders, Python and Rust do.
func appendText(dst, b []byte) []byte {
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			dst = append(dst, b[:n]...)
			b = b[n:]
			continue
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		n := 1
		for n < len(b) && !utf8.FullRune(b[:n+1]) { // which could still become a character
			n++
		}
		b = b[n:]
	}
	return dst
}

// unfinished returns the length of a suffix that more bytes could complete.
func unfinished(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) && !utf8.FullRune(tail) {
			return n
		}
	}
	return 0
}

// Ends returns, for each token, the byte position of the text, special tokens included, up to
// which it is complete. A character of several tokens belongs to the last of them.
func (t *Tokenizer) Ends(tokens []int32) []int {
	d := t.NewDecoder(KeepSpecial)
	ends := make([]int, len(tokens))
	at := 0
	for i, id := range tokens {
		at += len(d.Add(id))
		ends[i] = at
	}
	return ends
}
