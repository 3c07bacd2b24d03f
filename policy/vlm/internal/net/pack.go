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
// if they fit. Rows of a bin do not attend to each other; they may have a prefix in common.
type Pack struct {
	bins, Length int
	single       bool // the only pack of its batch: its size and chunk size may differ from other packs'
	chunk        int  // maximum size of a chunk of scored tokens; 0 is no limit besides that of the head

	tokens   []int32 // [bins·length]; 0 in padding
	Segment  []int32 // [bins·length]: which row or prefix of the bin, −1 in padding; see withPrefix
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
	Share     bool // rows of a bin that begin with the same prompt have it once
	LeafCount int  // into how many parts leaves divides rows
}

// batch are rows that a packer lays out.
type batch struct {
	*Packer
	rows  *policy.Rows
	want  []bool
	order []int    // the rows with tokens to score, longest first
	of    []prefix // of each row; nil if they do not share any
	apart bool     // each row has a bin of its own
}

// size is the length of a row.
func (b *batch) size(i int) int { return b.rows.Offsets[i+1] - b.rows.Offsets[i] }

// Packs arranges the rows in packs. want marks the tokens to score; the first token of a
// row has no score. Rows without such tokens are left out.
func (k *Packer) Packs(rows *policy.Rows, want []bool) ([]*Pack, error) {
	b, err := k.batch(rows, want)
	if err != nil || len(b.order) == 0 {
		return nil, err
	}
	var out []*Pack
	sets := leastBy(k.work, b.arrangements())
	for _, s := range sets {
		n := k.PerPack(s.length)
		alone := len(sets) == 1 && len(s.bins) <= n
		for bins := range slices.Chunk(s.bins, n) {
			p, err := b.fill(bins, k.PackSize(len(bins), n, s.length, alone), s.length)
			if err != nil {
				return nil, err
			}
			p.single = alone
			out = append(out, p)
		}
	}
	return out, nil
}

func (k *Packer) batch(rows *policy.Rows, want []bool) (b *batch, err error) {
	if err := rows.Check(); err != nil { // nil rows have no tokens
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if len(want) != len(rows.Tokens) {
		return nil, fmt.Errorf("vlm: the mask of tokens to score has %d entries for %d tokens",
			len(want), len(rows.Tokens))
	}
	b = &batch{Packer: k, rows: rows, want: want}
	for i := range rows.Len() {
		if slices.Contains(want[rows.Offsets[i]:rows.Offsets[i+1]], true) {
			b.order = append(b.order, i)
		}
	}
	for _, i := range b.order {
		if most := k.Cfg.Text.MaxPositions; most > 0 && b.size(i) > most {
			return nil, fmt.Errorf("vlm: row %d has %d tokens, the model allows %d", i, b.size(i), most)
		}
	}
	slices.SortStableFunc(b.order, func(i, j int) int { return cmp.Compare(b.size(j), b.size(i)) })
	b.of, err = b.prefixes()
	return b, err
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
	size := min(SizeStep(bins), full)
	if !alone && float64((full-size)*length)*k.Cfg.Work(length) < worthCompiling {
		return full
	}
	return size
}

// worthCompiling is the number of multiplications that take about as long as compiling:
// one or two seconds on a small CPU.
const worthCompiling = 1 << 36

// SizeStep rounds n up to 1, 2, 3, 4, 6, 8, 12, 16, 24, ….
func SizeStep(n int) int {
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

// maxRows limits the rows of a bin, each of which has up to two segments, so that withPrefix has bits for them.
const maxRows = 1 << 14

// fit returns the bin that has room for a row and lacks the fewest of its tokens, and their number; −1 for none.
func (b *batch) fit(s *binSet, i int) (bin, need int) {
	bin = -1
	for at, rows := range s.bins {
		if n := b.size(i) - b.sharedIn(rows, i); n <= s.room[at] && len(rows) < maxRows && (bin < 0 || n < need) {
			bin, need = at, n
		}
	}
	return bin, need
}

// put places rows, longest first, each into a bin with room for it. Rows without
// room open a new bin, or are returned if open is not set.
func (b *batch) put(s *binSet, rows []int, open bool) (left []int) {
	for _, i := range rows {
		at, need := b.fit(s, i)
		switch {
		case at >= 0 && !b.apart:
			s.bins[at] = append(s.bins[at], i)
			s.room[at] -= need
		case open:
			s.bins = append(s.bins, []int{i})
			s.room = append(s.room, s.length-b.size(i))
		default:
			left = append(left, i)
		}
	}
	return left
}

// leastBy returns the bins with the least work, the first of several.
func leastBy(work func(...*binSet) float64, all [][]*binSet) []*binSet {
	return slices.MinFunc(all, func(a, b []*binSet) int { return cmp.Compare(work(a...), work(b...)) })
}

// arrangements places rows, longest first, into bins of the longest row's length. Rows that fit
// into half of that length and into no gap get bins of half the length if that is less
// work; rows that share prefixes may get longer bins.
func (b *batch) arrangements() [][]*binSet {
	least := Bucket(b.size(b.order[0]))
	all := [][]*binSet{b.arrangeIn(least)}
	for length := 2 * least; b.of != nil && length <= b.Longest(least); length *= 2 {
		long := &binSet{length: length}
		b.put(long, b.order, true)
		all = append(all, []*binSet{long})
	}
	return all
}

// Longest is the greatest length of bins for rows of a length: up to four rows', because attention costs the square.
func (k *Packer) Longest(length int) int {
	most := 4 * length
	for k.Share && 2*length <= min(k.Budget, most) {
		length *= 2
	}
	return length
}

// arrangeIn places rows into bins of a length, and of half of it.
func (b *batch) arrangeIn(length int) []*binSet {
	long := &binSet{length: length}
	b.put(long, b.order, true)
	one := []*binSet{long}
	half := Bucket((long.length + 1) / 2)
	at := slices.IndexFunc(b.order, func(i int) bool { return b.size(i) <= half })
	if at <= 0 {
		return one
	}
	upper, lower := &binSet{length: long.length}, &binSet{length: half}
	b.put(upper, b.order[:at], true)
	b.put(lower, b.put(upper, b.order[at:], false), true)
	two := []*binSet{upper, lower}
	if len(lower.bins) == 0 || b.work(one...) <= b.work(two...) {
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

// fill builds a pack of size bins from the rows of some bins.
func (b *batch) fill(bins [][]int, size, length int) (*Pack, error) {
	p := &Pack{bins: size, Length: length}
	n := p.Size()
	p.tokens, p.Segment, p.pos = make([]int32, n), make([]int32, n), make([]int32, 3*n)
	p.ImageRow = make([]int32, n)
	for i := range n {
		p.Segment[i], p.ImageRow[i] = -1, -1
	}
	f := filler{batch: b, pack: p}
	for i, bin := range bins {
		if err := f.fillBin(bin, i*length); err != nil {
			return nil, err
		}
	}
	if len(f.pictures) > 0 {
		p.Vision = PlanVision(b.Cfg, f.pictures)
		cell := b.Cfg.Vision.Merge * b.Cfg.Vision.Merge
		p.slot = make([]int32, p.Vision.patches/cell)
		for i := range p.slot {
			p.slot[i] = int32(n)
		}
		for i, at := range f.holders {
			r := p.Vision.Row[i]
			p.ImageRow[at], p.slot[r] = r, at
		}
	}
	return p, nil
}

// filler copies rows into a pack.
type filler struct {
	*batch
	pack     *Pack
	pictures []Picture
	holders  []int32 // position of each image token, in the order of pictures
}

// fillBin copies the rows of a bin, whose first position is at.
func (f *filler) fillBin(bin []int, at int) error {
	segments := int32(0)
	heads := map[int]int32{} // segments of prefixes, by the first row that begins so
	for _, i := range bin {
		s := span{at: at}
		if f.of != nil && f.of[i].length > 0 {
			s.prefix = f.of[i].length
			head, there := heads[f.of[i].first]
			if there {
				s.skip, s.images = s.prefix, f.of[i].images
			} else {
				head = segments
				heads[f.of[i].first] = head
				segments++
			}
			s.head = head
		}
		s.segment = segments
		segments++
		if err := f.place(i, s); err != nil {
			return fmt.Errorf("vlm: row %d: %w", i, err)
		}
		at += f.size(i) - s.skip
	}
	return nil
}

// span says where a row is placed.
type span struct {
	at            int // position of its first token that the bin does not have
	skip, images  int // tokens and images that it has
	prefix        int // tokens of the shared prefix
	segment, head int32
}

// place copies one row into the pack.
func (f *filler) place(i int, s span) error {
	k, p := f.Packer, f.pack
	from, to := f.rows.Offsets[i], f.rows.Offsets[i+1]
	var grids []Grid
	if f.rows.Images != nil {
		for j, im := range f.rows.Images[i] {
			pic, err := k.Picture(im)
			if err != nil {
				return fmt.Errorf("image %d: %w", j, err)
			}
			if j >= s.images {
				f.pictures = append(f.pictures, pic)
			}
			grids = append(grids, pic.Grid)
		}
	}
	pos, _, err := Positions(k.Cfg, f.rows.Tokens[from:to], grids)
	if err != nil {
		return err
	}
	for t, token := range f.rows.Tokens[from:to] {
		if token < 0 || int(token) >= k.Cfg.Text.Vocab {
			return fmt.Errorf("token %d has id %d, must be in [0, %d)", t, token, k.Cfg.Text.Vocab)
		}
		if t < s.skip {
			continue
		}
		q := s.at + t - s.skip
		p.tokens[q], p.Segment[q] = token, s.segment
		switch {
		case t < s.prefix:
			p.Segment[q] = s.head
		case s.prefix > 0:
			p.Segment[q] = withPrefix(s.segment, s.head)
		}
		copy(p.pos[3*q:], pos[t][:])
		if len(grids) > 0 && token == k.Cfg.ImageToken {
			f.holders = append(f.holders, int32(q))
		}
		if f.want[from+t] && t > 0 {
			p.At = append(p.At, int32(q-1))
			p.target = append(p.target, token)
			p.Source = append(p.Source, from+t)
		}
	}
	return nil
}
