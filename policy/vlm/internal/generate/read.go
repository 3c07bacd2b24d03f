package generate

import (
	"fmt"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// contextBatch is a batch of contexts for the append program. If conversations open with the
// same context, as in a group, it is read once and its part of the cache is copied.
type contextBatch struct {
	Readers []int // by index in the batch: the row whose context is read, −1 for none
	Index   []int // by row: index in the batch

	vision *net.VisionPlan
	fresh  []bool  // [places·length]
	next   []int32 // position after the context, by index
}

// PlanContexts determines which contexts are read, and their indices in the batch.
func (f *DecodeBatch) PlanContexts() *contextBatch {
	n := len(f.Sequences)
	p := &contextBatch{Index: make([]int, n)}
	if f.prefix == nil {
		p.shareContexts(f.Sequences)
	}
	// Another size of the batch means other executables: it must halve the batch.
	if size := RowBucket(len(p.Readers)); f.prefix == nil && 2*size <= n {
		for len(p.Readers) < size {
			p.Readers = append(p.Readers, -1)
		}
		return p
	}
	p.Readers = make([]int, n)
	for row, r := range f.Sequences {
		p.Readers[row], p.Index[row] = row, row
		if r == nil {
			p.Readers[row] = -1
		}
	}
	return p
}

// shareContexts gives rows with the same context one index.
func (p *contextBatch) shareContexts(sequences []*Sequence) {
	first := map[string]int{}
	for row, r := range sequences {
		if r == nil {
			continue
		}
		at, ok := first[r.Shared]
		if !ok || r.Shared == "" {
			at = len(p.Readers)
			first[r.Shared] = at
			p.Readers = append(p.Readers, row)
		}
		p.Index[row] = at
	}
}

// SharesContexts reports whether rows share contexts.
func (p *contextBatch) SharesContexts() bool { return len(p.Readers) != len(p.Index) }

// freshRows returns fresh by row.
func (p *contextBatch) freshRows(length int) []bool {
	if !p.SharesContexts() {
		return p.fresh
	}
	out := make([]bool, 0, len(p.Index)*length)
	for _, at := range p.Index {
		out = append(out, p.fresh[at*length:(at+1)*length]...)
	}
	return out
}

// copyShared copies a cache by index to the rows that share it. It consumes the arrays.
func (f *DecodeBatch) copyShared(arrays []*device.Array, p *contextBatch) ([]*device.Array, error) {
	defer device.FreeAll(arrays...)
	index := make([]int32, len(p.Index))
	for row, at := range p.Index {
		index[row] = int32(at)
	}
	return f.Net.rowsAt(arrays, nil, index, 0)
}

// contextInputs builds the inputs of the append program between the weights and the cache.
func (f *DecodeBatch) contextInputs(s *net.Scope, p *contextBatch, length int) ([]*device.Array, error) {
	b := len(p.Readers)
	p.fresh, p.next = make([]bool, b*length), make([]int32, b)
	tokens, pos, ends := make([]int32, b*length), make([]int32, 3*b*length), make([]int32, b)
	imageRow := make([]int32, b*length)
	for i := range imageRow {
		imageRow[i] = -1
	}
	var pictures []net.Picture
	var holders []int
	cfg := f.Net.Cfg
	for place, row := range p.Readers {
		ends[place] = int32(place * length)
		if row < 0 {
			continue
		}
		r := f.Sequences[row]
		ids := r.state.unread(r.Turn.Tokens)
		grids := make([]net.Grid, len(r.Images))
		for i, im := range r.Images {
			grids[i] = im.Grid
		}
		at, next, err := net.Positions(cfg, ids, grids)
		if err != nil {
			return nil, fmt.Errorf("vlm: generate: row %d: %w", row, err)
		}
		start := r.state.next
		pictures = append(pictures, r.Images...)
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
	reads := make([]int32, len(p.Index))
	for row, place := range p.Index {
		reads[row] = int32(place)
	}
	in := []*device.Array{net.Upload(s, tokens), net.Upload(s, pos, b*length, 3), net.Upload(s, p.fresh, b, length),
		net.Upload(s, ends), net.Upload(s, reads), f.uploadSeeds(s, 1), net.Upload(s, make([]uint32, len(reads))),
		f.scheduler.params}
	if len(pictures) > 0 {
		p.vision = net.PlanVision(cfg, pictures)
		for i, at := range holders {
			imageRow[at] = p.vision.Row[i]
		}
		tr := &net.Trace{Scope: net.Scope{Dev: f.Net.Dev}, Pack: &net.Pack{Vision: p.vision}}
		err := f.Net.VisionForward(tr, f.scheduler.w, false)
		s.Own(tr.Arrays...)
		if err != nil {
			return nil, err
		}
		in = append(append(in, tr.Images, net.Upload(s, imageRow)), tr.Deep...)
	}
	return in, s.Err
}
