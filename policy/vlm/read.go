package vlm

import (
	"fmt"

	"vagen/policy/vlm/internal/device"
)

// opening is a batch of contexts laid out for the device. When conversations
// open with the same context, as those of a group do, it is read once and its
// part of the cache copied.
type opening struct {
	readers []int // by place in the batch: the row whose context is read there, −1 for none
	place   []int // by row: where its context is read

	vision *visionPlan
	fresh  []bool  // [places·length]
	next   []int32 // position after the context, by place
}

// places settles which contexts are read where.
func (f *flight) places() *opening {
	n := len(f.seats)
	p := &opening{place: make([]int, n)}
	if f.prefix == nil {
		p.share(f.seats)
	}
	// Another size of the batch means other executables: it must save enough.
	if size := rowBucket(len(p.readers)); f.prefix == nil && 2*size <= n {
		for len(p.readers) < size {
			p.readers = append(p.readers, -1)
		}
		return p
	}
	p.readers = make([]int, n)
	for row, r := range f.seats {
		p.readers[row], p.place[row] = row, row
		if r == nil {
			p.readers[row] = -1
		}
	}
	return p
}

// share gives seats with the same context one place.
func (p *opening) share(seats []*seat) {
	first := map[string]int{}
	for row, r := range seats {
		if r == nil {
			continue
		}
		at, ok := first[r.shared]
		if !ok || r.shared == "" {
			at = len(p.readers)
			first[r.shared] = at
			p.readers = append(p.readers, row)
		}
		p.place[row] = at
	}
}

// copies reports whether rows share places.
func (p *opening) copies() bool { return len(p.readers) != len(p.place) }

// freshRows is fresh by row.
func (p *opening) freshRows(length int) []bool {
	if !p.copies() {
		return p.fresh
	}
	out := make([]bool, 0, len(p.place)*length)
	for _, at := range p.place {
		out = append(out, p.fresh[at*length:(at+1)*length]...)
	}
	return out
}

// spread copies a cache of places to the rows that share them. It consumes the
// arrays.
func (f *flight) spread(own *scope, arrays []*device.Array, p *opening) ([]*device.Array, error) {
	defer device.FreeAll(arrays...)
	index := make([]int32, len(p.place))
	for row, at := range p.place {
		index[row] = int32(at)
	}
	at := upload(own, index)
	if own.err != nil {
		return nil, own.err
	}
	return f.net.pick().Run(append(append([]*device.Array{}, arrays...), at))
}

// layOut builds the inputs of the append program up to the cache.
func (f *flight) layOut(s *scope, p *opening, length int) ([]*device.Array, error) {
	b := len(p.readers)
	p.fresh, p.next = make([]bool, b*length), make([]int32, b)
	tokens, pos, ends := make([]int32, b*length), make([]int32, 3*b*length), make([]int32, b)
	imageRow := make([]int32, b*length)
	for i := range imageRow {
		imageRow[i] = -1
	}
	var pictures []picture
	var holders []int
	cfg := f.net.cfg
	for place, row := range p.readers {
		ends[place] = int32(place * length)
		if row < 0 {
			continue
		}
		r := f.seats[row]
		ids := r.lane.take(r.request.tokens)
		grids := make([]grid, len(r.images))
		for i, im := range r.images {
			grids[i] = im.grid
		}
		at, next, err := positions(cfg, ids, grids)
		if err != nil {
			return nil, fmt.Errorf("vlm: generate: row %d: %w", row, err)
		}
		start := r.lane.next
		pictures = append(pictures, r.images...)
		for i, id := range ids {
			if id < 0 || int(id) >= cfg.Text.Vocab {
				return nil, fmt.Errorf("vlm: generate: row %d: token %d has id %d, must be in [0, %d)", row, i, id, cfg.Text.Vocab)
			}
			slot := place*length + i
			tokens[slot], p.fresh[slot] = id, true
			for k := range 3 {
				pos[3*slot+k] = start + at[i][k]
			}
			if len(grids) > 0 && id == cfg.ImageToken {
				holders = append(holders, slot)
			}
		}
		ends[place] = int32(place*length + len(ids) - 1)
		p.next[place] = start + next
	}
	last := make([]int32, len(p.place))
	for row, place := range p.place {
		last[row] = ends[place]
	}
	in := append(f.net.genArrays(f.call.w), upload(s, tokens), upload(s, pos, b*length, 3), upload(s, p.fresh, b, length), upload(s, last))
	in = append(in, f.uploadSeeds(s), upload(s, make([]uint32, len(last))), f.call.params)
	if len(pictures) > 0 {
		p.vision = planVision(cfg, pictures)
		for i, at := range holders {
			imageRow[at] = p.vision.row[i]
		}
		tr := &trace{scope: scope{dev: f.net.dev}, pack: &pack{vision: p.vision}}
		err := f.net.see(tr, f.call.w, false)
		s.own(tr.arrays...)
		if err != nil {
			return nil, err
		}
		in = append(append(in, tr.images, upload(s, imageRow)), tr.deep...)
	}
	return in, s.err
}
