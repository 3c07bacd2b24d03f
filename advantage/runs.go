package advantage

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Masks consist of long runs of equal entries, such as turns and observations. To find
// their ends quickly, these functions compare several entries at a time, as bytes.

// asBytes returns the mask's memory: a byte per entry, 1 for true.
func asBytes(mask []bool) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(mask))), len(mask))
}

func asByte(in bool) byte {
	if in {
		return 1
	}
	return 0
}

// last returns the last position of an entry, -1 when there is none.
func last(mask []bool, entry bool) int {
	b := asBytes(mask)
	const ones = 0x0101010101010101
	others := uint64(1-asByte(entry)) * ones // eight of the other entry
	for len(b) >= 32 {
		q := (*[32]byte)(b[len(b)-32:])
		if (word(q[0:])^others)|(word(q[8:])^others)|(word(q[16:])^others)|(word(q[24:])^others) != 0 {
			break
		}
		b = b[:len(b)-32]
	}
	for len(b) >= 8 {
		if w := word(b[len(b)-8:]) ^ others; w != 0 {
			return len(b) - 1 - bits.LeadingZeros64(w)/8
		}
		b = b[:len(b)-8]
	}
	return bytes.LastIndexByte(b, asByte(entry))
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// runBefore returns the start of the run of equal entries that ends before end, at least
// lo, and the value of its entries.
func runBefore(mask []bool, lo, end int) (start int, in bool) {
	in = mask[end-1]
	return lo + last(mask[lo:end-1], !in) + 1, in
}

// runFrom returns the end of the run of equal entries that starts at t, at most hi, and
// the value of its entries.
func runFrom(mask []bool, t, hi int) (end int, in bool) {
	in = mask[t]
	if n := bytes.IndexByte(asBytes(mask[t:hi]), asByte(!in)); n >= 0 {
		return t + n, in
	}
	return hi, in
}

// lastTrue returns the last position with the mask set, -1 when there is none.
func lastTrue(mask []bool) int { return last(mask, true) }

// firstTrue returns the first position with the mask set, -1 when there is
// none.
func firstTrue(mask []bool) int { return bytes.IndexByte(asBytes(mask), 1) }

// count returns how many entries are true.
func count(mask []bool) int { return bytes.Count(asBytes(mask), oneTrue) }

var oneTrue = []byte{1}

// fill sets all entries of dst. Copying the filled part is faster than a loop.
func fill[E any](dst []E, x E) {
	if len(dst) == 0 {
		return
	}
	dst[0] = x
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
