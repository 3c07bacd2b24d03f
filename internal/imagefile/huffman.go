package imagefile

import "errors"

// lookBits is the length of the codes that a single look-up decodes.
const lookBits = 9

// huffman is a Huffman table of a JPEG.
type huffman struct {
	look   [1 << lookBits]uint16 // length·256 + symbol of the code that begins the index; 0 for a longer one
	most   [17]int               // the largest code of each length, −1 for none
	first  [17]int               // the index in values of the first code of each length, minus that code
	values []byte
}

var (
	errCode  = errors.New("the compressed data have a code that is in no table")
	errShort = errors.New("the compressed data end too early")
	errTable = errors.New("bad Huffman table")
)

// newHuffman returns the table with counts[l-1] codes of length l.
func newHuffman(counts, values []byte) (*huffman, error) {
	h := &huffman{values: values}
	code, k := 0, 0
	for l := 1; l <= 16; l++ {
		h.first[l], h.most[l] = k-code, -1
		for range counts[l-1] {
			if code >= 1<<l || k >= len(values) {
				return nil, errTable
			}
			if l <= lookBits {
				for i := code << (lookBits - l); i < (code+1)<<(lookBits-l); i++ {
					h.look[i] = uint16(l)<<8 | uint16(values[k])
				}
			}
			h.most[l] = code
			code, k = code+1, k+1
		}
		code <<= 1
	}
	return h, nil
}

// bitReader reads compressed data up to the next marker.
type bitReader struct {
	data []byte
	at   int
	acc  uint64 // the lowest n bits are not yet read
	n    int
	err  error // the first fault; what is read after it is 0
}

func (b *bitReader) fill() {
	for b.n <= 56 && b.at < len(b.data) {
		c := b.data[b.at]
		if c == 0xff {
			if b.at+1 >= len(b.data) || b.data[b.at+1] != 0 {
				return // a marker
			}
			b.at++
		}
		b.at++
		b.acc = b.acc<<8 | uint64(c)
		b.n += 8
	}
}

// bits returns the next k bits, at most 16.
func (b *bitReader) bits(k int) int {
	if b.n < k {
		if b.fill(); b.n < k {
			b.fail(errShort)
			return 0
		}
	}
	b.n -= k
	return int(b.acc>>b.n) & (1<<k - 1)
}

// signed returns a number whose size class, the number of its bits, is k.
func (b *bitReader) signed(k int) int {
	v := b.bits(k)
	if k > 0 && v < 1<<(k-1) {
		v -= 1<<k - 1
	}
	return v
}

// symbol decodes the next code.
func (b *bitReader) symbol(h *huffman) int {
	if b.n < 16 {
		b.fill()
	}
	var next uint64 // bits, with zeros after the end
	if b.n >= lookBits {
		next = b.acc >> (b.n - lookBits)
	} else {
		next = b.acc << (lookBits - b.n)
	}
	if entry := h.look[next&(1<<lookBits-1)]; entry != 0 {
		if b.n -= int(entry >> 8); b.n >= 0 {
			return int(entry & 255)
		}
		b.fail(errShort)
		return 0
	}
	for l := lookBits + 1; l <= 16; l++ {
		if l > b.n {
			b.fail(errShort)
			return 0
		}
		if code := int(b.acc>>(b.n-l)) & (1<<l - 1); code <= h.most[l] {
			b.n -= l
			return int(h.values[h.first[l]+code])
		}
	}
	b.fail(errCode)
	return 0
}

func (b *bitReader) fail(err error) {
	if b.n = 0; b.err == nil {
		b.err = err
	}
}

// restart reads the marker that begins part i of the data.
func (b *bitReader) restart(i int) {
	b.n = 0
	for b.at+1 < len(b.data) && b.data[b.at] == 0xff && b.data[b.at+1] == 0xff {
		b.at++
	}
	if b.at+1 >= len(b.data) || b.data[b.at] != 0xff || b.data[b.at+1] != 0xd0+byte(i%8) {
		b.fail(errors.New("a restart marker is missing"))
		return
	}
	b.at += 2
}
