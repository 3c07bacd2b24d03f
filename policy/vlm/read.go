package vlm

import (
	"fmt"

	"vagen/policy/vlm/internal/device"
)

// contextBatch is a batch of contexts for the append program. If conversations open with the
// same context, as in a group, it is read once and its part of the cache is copied.
type contextBatch struct {
	readers []int // by index in the batch: the row whose context is read, −1 for none
	index   []int // by row: index in the batch

	vision *visionPlan
	fresh  []bool  // [places·length]
	next   []int32 // position after the context, by index
}

// planContexts determines which contexts are read, and their indices in the batch.
func (f *decodeBatch) planContexts() *contextBatch {
	n := len(f.sequences)
	p := &contextBatch{index: make([]int, n)}
	if f.prefix == nil {
		p.shareContexts(f.sequences)
	}
	// Another size of the batch means other executables: it must halve the batch.
	if size := rowBucket(len(p.readers)); f.prefix == nil && 2*size <= n {
		for len(p.readers) < size {
			p.readers = append(p.readers, -1)
		}
		return p
	}
	p.readers = make([]int, n)
	for row, r := range f.sequences {
		p.readers[row], p.index[row] = row, row
		if r == nil {
			p.readers[row] = -1
		}
	}
	return p
}

// shareContexts gives rows with the same context one index.
func (p *contextBatch) shareContexts(sequences []*sequence) {
	first := map[string]int{}
	for row, r := range sequences {
		if r == nil {
			continue
		}
		at, ok := first[r.shared]
		if !ok || r.shared == "" {
			at = len(p.readers)
			first[r.shared] = at
			p.readers = append(p.readers, row)
		}
		p.index[row] = at
	}
}

// sharesContexts reports whether rows share contexts.
func (p *contextBatch) sharesContexts() bool { return len(p.readers) != len(p.index) }

// freshRows returns fresh by row.
func (p *contextBatch) freshRows(length int) []bool {
	if !p.sharesContexts() {
		return p.fresh
	}
	out := make([]bool, 0, len(p.index)*length)
	for _, at := range p.index {
		out = append(out, p.fresh[at*length:(at+1)*length]...)
	}
	return out
}

// copyShared copies a cache by index to the rows that share it. It consumes the arrays.
func (f *decodeBatch) copyShared(own *scope, arrays []*device.Array, p *contextBatch) ([]*device.Array, error) {
	defer device.FreeAll(arrays...)
	index := make([]int32, len(p.index))
	for row, at := range p.index {
		index[row] = int32(at)
	}
	at := upload(own, index)
	if own.err != nil {
		return nil, own.err
	}
	return f.net.selectRows().Run(append(append([]*device.Array{}, arrays...), at))
}

// contextInputs builds the inputs of the append program before the cache.
func (f *decodeBatch) contextInputs(s *scope, p *contextBatch, length int) ([]*device.Array, error) {
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
		r := f.sequences[row]
		ids := r.state.unread(r.request.tokens)
		grids := make([]grid, len(r.images))
		for i, im := range r.images {
			grids[i] = im.grid
		}
		at, next, err := positions(cfg, ids, grids)
		if err != nil {
			return nil, fmt.Errorf("vlm: generate: row %d: %w", row, err)
		}
		start := r.state.next
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
	last := make([]int32, len(p.index))
	for row, place := range p.index {
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
		err := f.net.visionForward(tr, f.call.w, false)
		s.own(tr.arrays...)
		if err != nil {
			return nil, err
		}
		in = append(append(in, tr.images, upload(s, imageRow)), tr.deep...)
	}
	return in, s.err
}
