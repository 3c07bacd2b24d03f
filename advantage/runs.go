package advantage

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Masks are long runs of equal entries: a turn, an observation. Finding where
// they end costs as much as the arithmetic in between if it is done entry by
// entry, so the functions here look at masks as bytes, several at a time.

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

// runBefore returns where the run of equal entries starts that ends before end,
// and what its entries are. A run does not reach below lo.
func runBefore(mask []bool, lo, end int) (start int, in bool) {
	in = mask[end-1]
	return lo + last(mask[lo:end-1], !in) + 1, in
}

// runFrom returns where the run of equal entries ends that starts at t, and
// what its entries are. A run does not reach hi.
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

// fill sets all of dst. Copying what is there already beats a loop of stores.
func fill[E any](dst []E, x E) {
	if len(dst) == 0 {
		return
	}
	dst[0] = x
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
