package net

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// Pack is a micro-batch: rows arranged in bins of equal length, several short rows per bin
// if they fit. Rows of a bin do not attend to each other.
type Pack struct {
	bins, Length int
	single       bool // the only pack of its batch: its size and chunk size may differ from other packs'
	chunk        int  // maximum size of a chunk of scored tokens; 0 is no limit besides that of the head

	tokens   []int32 // [bins·length]; 0 in padding
	Segment  []int32 // [bins·length]: which row of the bin, −1 in padding
	pos      []int32 // [bins·length, 3]
	ImageRow []int32 // [bins·length]: row of the vision tower's output, −1 for text
	slot     []int32 // [rows of the vision output]: position of each, or bins·length
	Vision   *VisionPlan

	// One entry per token whose log-prob or value is computed.
	At     []int32 // position in the pack from which it is predicted
	target []int32 // the token
	Source []int   // its index in Rows.Tokens

	chosen   []int32 // see Choose; flat like Rows.Tokens
	perToken int
}

// Size is the number of positions, padding included.
func (p *Pack) Size() int { return p.bins * p.Length }

// Packer lays rows out in packs of at most budget positions.
type Packer struct {
	Cfg       *model.Config
	Budget    int
	Rows      int // most bins of a pack; 0 is no limit
	Picture   func(policy.Image) (Picture, error)
	noPacking bool
	LeafCount int // into how many parts leaves divides rows
}

// Packs arranges the rows in packs. want marks the tokens to score; the first token of a
// row has no score. Rows without such tokens are left out.
func (k *Packer) Packs(rows *policy.Rows, want []bool) ([]*Pack, error) {
	order, size, err := k.order(rows, want)
	if err != nil || len(order) == 0 {
		return nil, err
	}
	var out []*Pack
	sets := k.arrange(order, size)
	for _, s := range sets {
		n := k.PerPack(s.length)
		alone := len(sets) == 1 && len(s.bins) <= n
		for from := 0; from < len(s.bins); from += n {
			bins := s.bins[from:min(from+n, len(s.bins))]
			p, err := k.fill(rows, want, bins, k.PackSize(len(bins), n, s.length, alone), s.length)
			if err != nil {
				return nil, err
			}
			p.single = alone
			out = append(out, p)
		}
	}
	return out, nil
}

// order returns the rows with tokens to score, longest first, and the size of a row.
func (k *Packer) order(rows *policy.Rows, want []bool) (order []int, size func(int) int, err error) {
	if err := CheckRows(rows, len(want)); err != nil {
		return nil, nil, err
	}
	for i := range rows.Len() {
		if slices.Contains(want[rows.Offsets[i]:rows.Offsets[i+1]], true) {
			order = append(order, i)
		}
	}
	size = func(i int) int { return rows.Offsets[i+1] - rows.Offsets[i] }
	for _, i := range order {
		if most := k.Cfg.Text.MaxPositions; most > 0 && size(i) > most {
			return nil, nil, fmt.Errorf("vlm: row %d has %d tokens, the model allows %d", i, size(i), most)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	return order, size, nil
}

// PerPack is the number of bins of a length in a full pack.
func (k *Packer) PerPack(length int) int {
	n := max(1, k.Budget/length)
	if k.Rows > 0 {
		n = min(n, k.Rows)
	}
	return n
}

// PackSize is the number of bins for which a pack is allocated if it contains bins and a
// full one contains full. Every size means other executables, so there are few; a pack
// that is not alone has a size of its own only if that saves more time than compiling
// takes.
func (k *Packer) PackSize(bins, full, length int, alone bool) int {
	size := min(sizeStep(bins), full)
	if !alone && float64((full-size)*length)*k.Cfg.Work(length) < worthCompiling {
		return full
	}
	return size
}

// worthCompiling is the number of multiplications that take about as long as compiling:
// one or two seconds on a small CPU.
const worthCompiling = 1 << 36

// sizeStep rounds n up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ….
func sizeStep(n int) int {
	if n <= 4 {
		return max(n, 1)
	}
	size := 1 << bits.Len(uint(n-1))
	if n <= size/4*3 {
		return size / 4 * 3
	}
	return size
}

// binSet is a set of bins of one length with rows in them.
type binSet struct {
	length int
	bins   [][]int
	room   []int // free tokens of each bin
}

// put places rows, longest first, each into the first bin with room for it. Rows without
// room open a new bin, or are returned if open is not set.
func (s *binSet) put(rows []int, size func(int) int, open, single bool) (left []int) {
rows:
	for _, i := range rows {
		if !single {
			for b := range s.bins {
				if s.room[b] >= size(i) {
					s.bins[b] = append(s.bins[b], i)
					s.room[b] -= size(i)
					continue rows
				}
			}
		}
		if !open {
			left = append(left, i)
			continue
		}
		s.bins = append(s.bins, []int{i})
		s.room = append(s.room, s.length-size(i))
	}
	return left
}

// arrange places rows, longest first, into bins of the longest row's length. Rows that fit
// into half of that length and into no gap get bins of half the length if that is less
// work.
func (k *Packer) arrange(order []int, size func(int) int) []*binSet {
	long := &binSet{length: Bucket(size(order[0]))}
	long.put(order, size, true, k.noPacking)
	one := []*binSet{long}
	half := Bucket((long.length + 1) / 2)
	at := slices.IndexFunc(order, func(i int) bool { return size(i) <= half })
	if at <= 0 {
		return one
	}
	upper, lower := &binSet{length: long.length}, &binSet{length: half}
	upper.put(order[:at], size, true, k.noPacking)
	lower.put(upper.put(order[at:], size, false, k.noPacking), size, true, k.noPacking)
	two := []*binSet{upper, lower}
	if len(lower.bins) == 0 || k.work(one...) <= k.work(two...) {
		return one
	}
	return two
}

// work estimates the layers' work for binSets in packs.
func (k *Packer) work(sets ...*binSet) float64 {
	var sum float64
	for _, s := range sets {
		n := k.PerPack(s.length)
		bins := len(s.bins) / n * n
		if rest := len(s.bins) - bins; rest > 0 {
			bins += k.PackSize(rest, n, s.length, len(sets) == 1 && bins == 0)
		}
		sum += float64(bins*s.length) * k.Cfg.Work(s.length)
	}
	return sum
}

func CheckRows(rows *policy.Rows, want int) error {
	n := len(rows.Tokens)
	if want != n {
		return fmt.Errorf("vlm: the mask of tokens to score has %d entries for %d tokens", want, n)
	}
	if len(rows.Offsets) == 0 || rows.Offsets[0] != 0 || rows.Offsets[rows.Len()] != n {
		return fmt.Errorf("vlm: row offsets must go from 0 to the number of tokens, %d", n)
	}
	for i := range rows.Len() {
		if rows.Offsets[i+1] < rows.Offsets[i] {
			return fmt.Errorf("vlm: row %d: offset %d after %d, must not decrease", i, rows.Offsets[i+1], rows.Offsets[i])
		}
	}
	if rows.Images != nil && len(rows.Images) != rows.Len() {
		return fmt.Errorf("vlm: images for %d rows, but there are %d rows", len(rows.Images), rows.Len())
	}
	return nil
}

// fill builds a pack of size bins from the rows of some bins.
func (k *Packer) fill(rows *policy.Rows, want []bool, bins [][]int, size, length int) (*Pack, error) {
	p := &Pack{bins: size, Length: length}
	n := p.Size()
	p.tokens, p.Segment, p.pos = make([]int32, n), make([]int32, n), make([]int32, 3*n)
	p.ImageRow = make([]int32, n)
	for i := range n {
		p.Segment[i], p.ImageRow[i] = -1, -1
	}
	var pictures []Picture
	var holders []int32 // position of each image token, in the order of pictures
	for b, bin := range bins {
		at := b * length
		for s, i := range bin {
			if err := k.place(p, rows, want, i, at, int32(s), &pictures, &holders); err != nil {
				return nil, fmt.Errorf("vlm: row %d: %w", i, err)
			}
			at += rows.Offsets[i+1] - rows.Offsets[i]
		}
	}
	if len(pictures) > 0 {
		p.Vision = PlanVision(k.Cfg, pictures)
		cell := k.Cfg.Vision.Merge * k.Cfg.Vision.Merge
		p.slot = make([]int32, p.Vision.patches/cell)
		for i := range p.slot {
			p.slot[i] = int32(n)
		}
		for i, at := range holders {
			r := p.Vision.Row[i]
			p.ImageRow[at], p.slot[r] = r, at
		}
	}
	return p, nil
}

// place copies one row into the pack from position at on.
func (k *Packer) place(p *Pack, rows *policy.Rows, want []bool, i, at int, segment int32, pictures *[]Picture, holders *[]int32) error {
	from, to := rows.Offsets[i], rows.Offsets[i+1]
	var grids []Grid
	if rows.Images != nil {
		for j, im := range rows.Images[i] {
			pic, err := k.Picture(im)
			if err != nil {
				return fmt.Errorf("image %d: %w", j, err)
			}
			*pictures = append(*pictures, pic)
			grids = append(grids, pic.Grid)
		}
	}
	pos, _, err := Positions(k.Cfg, rows.Tokens[from:to], grids)
	if err != nil {
		return err
	}
	for t, token := range rows.Tokens[from:to] {
		if token < 0 || int(token) >= k.Cfg.Text.Vocab {
			return fmt.Errorf("token %d has id %d, must be in [0, %d)", t, token, k.Cfg.Text.Vocab)
		}
		q := at + t
		p.tokens[q], p.Segment[q] = token, segment
		copy(p.pos[3*q:], pos[t][:])
		if len(grids) > 0 && token == k.Cfg.ImageToken {
			*holders = append(*holders, int32(q))
		}
		if want[from+t] && t > 0 {
			p.At = append(p.At, int32(q-1))
			p.target = append(p.target, token)
			p.Source = append(p.Source, from+t)
		}
	}
	return nil
}
