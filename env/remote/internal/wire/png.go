package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"math/bits"
)

// This PNG encoder is faster than image/png for the images of games, in which many
// pixels equal the one to the left or the one above. It encodes each row as runs that
// repeat the previous pixel, runs that repeat the row above, and single pixels, with
// the fixed codes of DEFLATE (RFC 1951, 3.2.6). So it neither searches for matches nor
// builds code tables.

const (
	pixelBytes = 3                // red, green and blue
	maxRun     = 258 / pixelBytes // longest match in pixels
	maxBack    = 32 << 10         // largest distance of a match in bytes
	adlerMod   = 65521
)

// code is n bits; the lowest bit is written first.
type code struct {
	bits uint32
	n    uint8
}

var (
	literals = makeLiterals()
	lengths  = makeLengths() // of matches, by the number of pixels
)

// reversed returns a code from DEFLATE's tables, whose bits are in the opposite order.
func reversed(value uint32, n uint8) code { return code{bits.Reverse32(value) >> (32 - n), n} }

// then appends extra bits to a code.
func (c code) then(extra uint32, n uint8) code { return code{c.bits | extra<<c.n, c.n + n} }

func makeLiterals() (all [256]code) {
	for i := range all {
		if i < 144 {
			all[i] = reversed(0x30+uint32(i), 8)
		} else {
			all[i] = reversed(0x190+uint32(i-144), 9)
		}
	}
	return all
}

func makeLengths() (all [maxRun + 1]code) {
	for run := 1; run <= maxRun; run++ {
		symbol, extra, n := 285-257, uint32(0), uint8(0)
		if over := uint32(run*pixelBytes - 3); run < maxRun {
			symbol, extra, n = symbolOf(over, 2)
		}
		c := reversed(uint32(symbol+1), 7)
		if symbol+257 >= 280 {
			c = reversed(0xc0+uint32(symbol+257-280), 8)
		}
		all[run] = c.then(extra, n)
	}
	return all
}

// symbolOf returns the symbol and the n extra bits of a length or a distance, counted
// from 0. There are 2^fine symbols for each number of extra bits.
func symbolOf(v uint32, fine int) (symbol int, extra uint32, n uint8) {
	if v < 2<<fine {
		return int(v), 0, 0
	}
	k := bits.Len32(v) - 1 - fine
	return k<<fine + int(v>>k), v & (1<<k - 1), uint8(k)
}

// distance is the code of a distance in bytes.
func distance(back int) code {
	symbol, extra, n := symbolOf(uint32(back-1), 1)
	return reversed(uint32(symbol), 5).then(extra, n)
}

// pngWriter appends to a PNG.
type pngWriter struct {
	out  []byte
	bits uint64
	n    uint8
}

func (w *pngWriter) put(c code) {
	w.bits |= uint64(c.bits) << w.n
	if w.n += c.n; w.n >= 32 {
		w.out = binary.LittleEndian.AppendUint32(w.out, uint32(w.bits))
		w.bits >>= 32
		w.n -= 32
	}
}

// repeat writes matches for a run of pixels.
func (w *pngWriter) repeat(pixels int, back code) {
	for ; pixels > 0; pixels -= maxRun {
		w.put(lengths[min(pixels, maxRun)])
		w.put(back)
	}
}

// sums are the two sums of an Adler-32 checksum, starting from 0.
type sums struct{ a, b uint64 }

// run adds n equal pixels.
func (s *sums) run(pixel uint32, n uint64) {
	red, green, blue := uint64(pixel&0xff), uint64(pixel>>8&0xff), uint64(pixel>>16&0xff)
	all := red + green + blue
	s.b += pixelBytes*n*s.a + pixelBytes*all*(n*(n-1)/2) + n*(3*red+2*green+blue)
	s.a += n * all
}

// begin opens a chunk, of which end writes length and checksum.
func (w *pngWriter) begin(kind string) (at int) {
	at = len(w.out)
	w.out = append(append(w.out, 0, 0, 0, 0), kind...)
	return at
}

func (w *pngWriter) end(at int) {
	binary.BigEndian.PutUint32(w.out[at:], uint32(len(w.out)-at-8))
	w.out = binary.BigEndian.AppendUint32(w.out, crc32.ChecksumIEEE(w.out[at+4:]))
}

// appendPNG appends an 8-bit RGBA image as a PNG without alpha. It reports false, and
// the result must be discarded, if a pixel is not opaque or a row is longer than the
// largest distance.
func appendPNG(dst, pix []byte, stride int, size image.Point) ([]byte, bool) {
	row := 1 + pixelBytes*size.X
	if row > maxBack {
		return dst, false
	}
	w := pngWriter{out: append(dst, "\x89PNG\r\n\x1a\n"...)}
	at := w.begin("IHDR")
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(size.X))
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(size.Y))
	w.out = append(w.out, 8, 2, 0, 0, 0) // bits per sample, RGB, default methods
	w.end(at)
	at = w.begin("IDAT")
	w.out = append(w.out, 0x78, 1)
	w.put(code{bits: 0b011, n: 3}) // last block, fixed codes
	up := distance(row)
	total, line := sums{a: 1}, sums{}
	var above []byte
	for y := range size.Y {
		current := pix[y*stride:][:4*size.X]
		w.put(literals[0]) // no filter
		if bytes.Equal(above, current) {
			w.repeat(size.X, up)
		} else {
			var opaque bool
			if line, opaque = w.row(current, above, up); !opaque {
				return dst, false
			}
		}
		total.b = (total.b + uint64(row)*total.a + line.b) % adlerMod
		total.a = (total.a + line.a) % adlerMod
		above = current
	}
	w.put(code{n: 7})        // end of block
	w.put(code{n: -w.n & 7}) // align to a byte
	for ; w.n > 0; w.n -= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
	}
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(total.b<<16|total.a))
	w.end(at)
	w.end(w.begin("IEND"))
	return w.out, true
}

// row writes the pixels of a row and returns their sums. above is empty for the
// first row.
func (w *pngWriter) row(current, above []byte, up code) (s sums, opaque bool) {
	pixel := func(of []byte, i int) uint32 { return binary.LittleEndian.Uint32(of[i:]) }
	left := distance(pixelBytes)
	alpha := pixel(current, 0)
	last := uint32(0) // no opaque pixel equals it
	for i := 0; i < len(current); {
		p := pixel(current, i)
		end := i
		for end < len(current) && pixel(current, end) == last {
			end += 4
		}
		high := i
		for high < len(above) && pixel(current, high) == pixel(above, high) {
			high += 4
		}
		switch {
		case end > i && end >= high:
			n := (end - i) / 4
			w.repeat(n, left)
			s.run(p, uint64(n))
			i = end
		case high > i:
			w.repeat((high-i)/4, up)
			for ; i < high; i += 4 {
				last = pixel(current, i)
				s.run(last, 1)
			}
		default:
			for _, v := range current[i : i+pixelBytes] {
				w.put(literals[v])
			}
			s.run(p, 1)
			alpha &= p
			last = p
			i += 4
		}
	}
	return s, alpha>>24 == 0xff
}
