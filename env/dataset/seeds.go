package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// maxEpisodes is the maximum number of episodes of a file.
const maxEpisodes = 1 << 22

// seedKey is the seed of the generator that draws the seeds of an entry: the
// little-endian number of the BLAKE2b hash, 64 bits long, of
//
//	base|entry|name|seed-[directive]
//
// with the directive printed as a Python list.
func seedKey(base int64, entry int, name string, directive []int64) uint64 {
	var b strings.Builder
	fmt.Fprintf(&b, "%d|%d|%s|seed-[", base, entry, name)
	for i, x := range directive {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.FormatInt(x, 10))
	}
	b.WriteByte(']')
	h, err := blake2b.New(8, nil)
	if err != nil {
		panic(err) // only for sizes outside 1..64
	}
	h.Write([]byte(b.String()))
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// directiveProblem describes the error of a seed directive for n episodes; "" if it is
// valid.
func directiveProblem(d []int64, n int) string {
	switch len(d) {
	case 1:
		return ""
	case 2, 3:
	default:
		return fmt.Sprintf("it has %d numbers; allowed are [base], [low, high] and [low, high, limit]", len(d))
	}
	if d[1] < d[0] {
		return fmt.Sprintf("the range %d to %d is empty", d[0], d[1])
	}
	size := rangeSize(d)
	if size == 0 {
		return fmt.Sprintf("the range %d to %d has more than 2⁶⁴−1 numbers", d[0], d[1])
	}
	if len(d) == 2 {
		return ""
	}
	if d[2] < 1 {
		return fmt.Sprintf("the limit is %d, must be positive", d[2])
	}
	if size < uint64(n) && uint64(d[2]) < (uint64(n)+size-1)/size {
		return fmt.Sprintf("%d to %d, each at most %d times, give %d seeds, but n_envs is %d", d[0], d[1], d[2],
			size*uint64(d[2]), n)
	}
	return ""
}

// rangeSize counts the numbers of a range, both ends included; 0 means 2⁶⁴.
func rangeSize(d []int64) uint64 { return uint64(d[1]) - uint64(d[0]) + 1 }

// drawSeeds expands a directive without problems:
//
//	[base]              uniform in 0..2³¹−1; base only changes the key
//	[low, high]         uniform in the range, ends included, with repeats
//	[low, high, 1]      the same without repeats
//	[low, high, limit]  with repeats; a number drawn limit times is drawn again
func drawSeeds(key uint64, d []int64, n int) []int64 {
	p := newPython(key)
	out := make([]int64, 0, n)
	if len(d) == 1 {
		for range n {
			out = append(out, int64(p.Below(math.MaxInt32+1)))
		}
		return out
	}
	// The original does not draw for a range of one number, which changes no seed.
	low, size := d[0], rangeSize(d)
	at := func(offset uint64) int64 { return int64(uint64(low) + offset) }
	switch {
	case len(d) == 2:
		for range n {
			out = append(out, at(p.Below(size)))
		}
	case d[2] == 1:
		for _, offset := range p.sample(size, n) {
			out = append(out, at(offset))
		}
	default:
		counts := make(map[int64]int64, min(size, uint64(n)))
		for len(out) < n {
			seed := at(p.Below(size))
			if counts[seed] < d[2] {
				counts[seed]++
				out = append(out, seed)
			}
		}
	}
	return out
}

// seeds returns the seeds of the entry with index n in its file: the first Count of
// SeedList, or if there is none, those drawn by Seed.
func (s *Spec) seeds(base int64, n int) []int64 {
	if s.SeedList != nil {
		return s.SeedList[:s.Count]
	}
	d := s.directive()
	return drawSeeds(seedKey(base, n, s.Name, d), d, s.Count)
}

// directive returns Seed, or [0] if it is empty.
func (s *Spec) directive() []int64 {
	if len(s.Seed) == 0 {
		return []int64{0}
	}
	return s.Seed
}
