package vlm

import (
	"cmp"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// pack is a micro-batch: rows laid into bins of equal length, several short rows
// to a bin where they fit. Rows of a bin do not see each other.
type pack struct {
	bins, length int

	tokens   []int32 // [bins·length]; 0 in padding
	segment  []int32 // [bins·length]: which row of the bin, −1 in padding
	pos      []int32 // [bins·length, 3]
	imageRow []int32 // [bins·length]: row of the vision tower's output, −1 for text
	slot     []int32 // [rows of the vision output]: position of each, or bins·length
	vision   *visionPlan

	// One entry per token whose log-prob or value is wanted.
	at     []int32 // position in the pack from which it is predicted
	target []int32 // the token
	source []int   // its index in Rows.Tokens
}

// size is the number of positions, padding included.
func (p *pack) size() int { return p.bins * p.length }

// packer lays rows out in packs of at most budget positions.
type packer struct {
	cfg       *model.Config
	budget    int
	picture   func(policy.Image) (picture, error)
	noPacking bool
}

// packs lays the rows out. want marks the tokens whose scores are needed; the
// first token of a row has none. Rows without any wanted token are left out.
func (k *packer) packs(rows *policy.Rows, want []bool) ([]*pack, error) {
	if err := checkRows(rows, len(want)); err != nil {
		return nil, err
	}
	var order []int
	for i := range rows.Len() {
		if slices.Contains(want[rows.Offsets[i]:rows.Offsets[i+1]], true) {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return nil, nil
	}
	size := func(i int) int { return rows.Offsets[i+1] - rows.Offsets[i] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	var out []*pack
	for _, s := range k.arrange(order, size) {
		n := k.perPack(s.length)
		for from := 0; from < len(s.bins); from += n {
			p, err := k.fill(rows, want, s.bins[from:min(from+n, len(s.bins))], n, s.length)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// perPack is the number of bins of a length in a pack.
func (k *packer) perPack(length int) int { return max(1, k.budget/length) }

// shelf is a set of bins of one length with rows in them.
type shelf struct {
	length int
	bins   [][]int
	room   []int // left in each bin
}

// put places rows, longest first, each into the first bin with room for it. Rows
// without room open a bin of their own, or are returned when open is not set.
func (s *shelf) put(rows []int, size func(int) int, open, single bool) (left []int) {
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

// arrange lays rows, longest first, into bins of the longest row's length; or
// those that fit, and that fill no gap there, into bins of half that length,
// when that is less work.
func (k *packer) arrange(order []int, size func(int) int) []*shelf {
	long := &shelf{length: bucket(size(order[0]))}
	long.put(order, size, true, k.noPacking)
	one := []*shelf{long}
	half := bucket((long.length + 1) / 2)
	at := slices.IndexFunc(order, func(i int) bool { return size(i) <= half })
	if at <= 0 {
		return one
	}
	upper, lower := &shelf{length: long.length}, &shelf{length: half}
	upper.put(order[:at], size, true, k.noPacking)
	lower.put(upper.put(order[at:], size, false, k.noPacking), size, true, k.noPacking)
	two := []*shelf{upper, lower}
	if len(lower.bins) == 0 || k.work(one...) <= k.work(two...) {
		return one
	}
	return two
}

// work estimates what a layer does for shelves: products with weights, and
// attention, which grows with the length of the bins and costs about half as
// much again for its softmax.
func (k *packer) work(shelves ...*shelf) float64 {
	t := &k.cfg.Text
	weights := t.Hidden*(t.Heads+2*t.KVHeads)*t.HeadDim + t.Heads*t.HeadDim*t.Hidden + 3*t.Hidden*t.FF
	var sum float64
	for _, s := range shelves {
		n := k.perPack(s.length)
		tokens := (len(s.bins) + n - 1) / n * n * s.length
		sum += float64(tokens) * (float64(weights) + 3*float64(s.length*t.Heads*t.HeadDim))
	}
	return sum
}

func checkRows(rows *policy.Rows, want int) error {
	n := len(rows.Tokens)
	if want != n {
		return fmt.Errorf("vlm: %d marks for %d tokens", want, n)
	}
	if len(rows.Offsets) == 0 || rows.Offsets[0] != 0 || rows.Offsets[rows.Len()] != n {
		return fmt.Errorf("vlm: row offsets must go from 0 to the number of tokens, %d", n)
	}
	for i := range rows.Len() {
		if rows.Offsets[i+1] < rows.Offsets[i] {
			return fmt.Errorf("vlm: row %d: offset %d after %d", i, rows.Offsets[i+1], rows.Offsets[i])
		}
	}
	if rows.Images != nil && len(rows.Images) != rows.Len() {
		return fmt.Errorf("vlm: images for %d rows, but there are %d", len(rows.Images), rows.Len())
	}
	return nil
}

// fill lays out the rows of some bins as one pack of the given size. Packs of a
// length are all of one size, the last one too, so that they share executables.
func (k *packer) fill(rows *policy.Rows, want []bool, bins [][]int, size, length int) (*pack, error) {
	p := &pack{bins: size, length: length}
	n := p.size()
	p.tokens, p.segment, p.pos = make([]int32, n), make([]int32, n), make([]int32, 3*n)
	p.imageRow = make([]int32, n)
	for i := range n {
		p.segment[i], p.imageRow[i] = -1, -1
	}
	var pictures []picture
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
		p.vision = planVision(k.cfg, pictures)
		cell := k.cfg.Vision.Merge * k.cfg.Vision.Merge
		p.slot = make([]int32, p.vision.patches/cell)
		for i := range p.slot {
			p.slot[i] = int32(n)
		}
		for i, at := range holders {
			r := p.vision.row[i]
			p.imageRow[at], p.slot[r] = r, at
		}
	}
	return p, nil
}

// place copies one row into the pack from position at on.
func (k *packer) place(p *pack, rows *policy.Rows, want []bool, i, at int, segment int32, pictures *[]picture, holders *[]int32) error {
	from, to := rows.Offsets[i], rows.Offsets[i+1]
	var grids []grid
	if rows.Images != nil {
		for j, im := range rows.Images[i] {
			pic, err := k.picture(im)
			if err != nil {
				return fmt.Errorf("image %d: %w", j, err)
			}
			*pictures = append(*pictures, pic)
			grids = append(grids, pic.grid)
		}
	}
	pos, _, err := positions(k.cfg, rows.Tokens[from:to], grids)
	if err != nil {
		return err
	}
	for t, token := range rows.Tokens[from:to] {
		if token < 0 || int(token) >= k.cfg.Text.Vocab {
			return fmt.Errorf("token %d has id %d, must be in [0, %d)", t, token, k.cfg.Text.Vocab)
		}
		q := at + t
		p.tokens[q], p.segment[q] = token, segment
		copy(p.pos[3*q:], pos[t][:])
		if len(grids) > 0 && token == k.cfg.ImageToken {
			*holders = append(*holders, int32(q))
		}
		if want[from+t] && t > 0 {
			p.at = append(p.at, int32(q-1))
			p.target = append(p.target, token)
			p.source = append(p.source, from+t)
		}
	}
	return nil
}
