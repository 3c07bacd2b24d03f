package vlm

import (
	"slices"

	"vagen/policy/vlm/internal/device"
)

// regroup gathers the unfinished rows of batches, in order, into the smallest batch with
// room for them. It first copies their recent keys and values back to the sessions, so that
// the remaining rows are complete. It consumes the batches, also on failure.
func regroup(from ...*decodeBatch) (*decodeBatch, error) {
	c := from[0].call
	f := &decodeBatch{call: c, session: &session{net: c.net}, gathered: true}
	defer func() {
		for _, g := range from {
			g.release()
		}
	}()
	for _, g := range from {
		if err := g.flush(); err != nil {
			return nil, err
		}
		for _, row := range g.unfinished() {
			f.sequences, f.rows = append(f.sequences, g.sequences[row]), append(f.rows, g.sequences[row].state)
		}
		f.slots, f.used = max(f.slots, g.slots), max(f.used, g.used)
	}
	f.rows = append(f.rows, make([]*rowState, rowBucket(len(f.sequences))-len(f.sequences))...)
	f.sequences = append(f.sequences, make([]*sequence, len(f.rows)-len(f.sequences))...)
	f.allow = make([]bool, len(f.rows)*f.slots)
	at := 0
	for _, g := range from {
		if err := f.copyPrefixes(g, at); err != nil {
			f.free()
			return nil, err
		}
		at += len(g.unfinished())
		g.release() // frees memory for the next
	}
	if err := f.startRecent(c.recentTokens); err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

// copyPrefixes copies the prefixes of another batch's unfinished rows to the rows from at on.
func (f *decodeBatch) copyPrefixes(g *decodeBatch, at int) error {
	own := &scope{dev: f.net.dev}
	defer own.free()
	index := make([]int32, len(f.rows))
	for row := range index {
		index[row] = -1
	}
	for i, row := range g.unfinished() {
		index[at+i] = int32(row)
		copy(f.allow[(at+i)*f.slots:], g.allow[row*g.slots:(row+1)*g.slots])
	}
	in := append(append([]*device.Array{}, g.prefix...), f.prefix...)
	in = append(in, upload(own, index))
	if own.err != nil {
		return own.err
	}
	out, err := f.net.gatherRows(f.slots, f.prefix != nil).Run(in)
	if err != nil {
		return err
	}
	device.FreeAll(f.prefix...)
	f.prefix = out
	return nil
}

// flush moves the recent segment into the prefix, also in the rows' sessions.
func (f *decodeBatch) flush() error {
	if err := f.copyRecent(); err != nil {
		return err
	}
	for _, owner := range f.sessions() {
		if err := owner.flushRecent(); err != nil {
			return err
		}
	}
	return f.flushRecent()
}

// finish copies the recent segment to the sessions and releases the batch.
func (f *decodeBatch) finish() error {
	defer f.release()
	return f.copyRecent()
}

// release frees what the batch holds apart from the rows' sessions. f may be nil.
func (f *decodeBatch) release() {
	if f == nil {
		return
	}
	f.seeds.Free()
	f.seeds = nil
	f.dropMask()
	if f.gathered {
		f.free()
	}
}

// sessions returns the sessions of the rows of a gathered batch.
func (f *decodeBatch) sessions() []*session {
	var out []*session
	for _, p := range f.sequences {
		if f.gathered && p != nil && (len(out) == 0 || out[len(out)-1] != p.session) {
			out = append(out, p.session) // rows of a session are adjacent
		}
	}
	return out
}

// copyRecent copies the recent segment and the states of a gathered batch to the rows' sessions,
// whose own recent segment is empty.
func (f *decodeBatch) copyRecent() error {
	if f.recentUsed == 0 {
		return nil
	}
	for _, owner := range f.sessions() {
		if err := f.copyRecentTo(owner); err != nil {
			return err
		}
	}
	return nil
}

func (f *decodeBatch) copyRecentTo(owner *session) error {
	own := &scope{dev: f.net.dev}
	defer own.free()
	index := make([]int32, len(owner.rows))
	allow := make([]bool, len(owner.rows)*f.recentLen)
	for row, p := range f.sequences {
		if p != nil && p.session == owner {
			index[p.row] = int32(row)
			copy(allow[p.row*f.recentLen:(p.row+1)*f.recentLen], f.recentAllow[row*f.recentLen:])
		}
	}
	at := upload(own, index)
	if own.err != nil {
		return own.err
	}
	out, err := f.net.selectRows().Run(append(slices.Clone(f.recent), at))
	if err != nil {
		return err
	}
	device.FreeAll(owner.recent...)
	owner.recent, owner.recentLen, owner.recentUsed, owner.recentAllow = out, f.recentLen, f.recentUsed, allow
	return f.copyStatesTo(owner)
}

// copyStatesTo copies the states of a session's rows to it; those of its other rows do not change.
func (f *decodeBatch) copyStatesTo(owner *session) error {
	states := f.net.states()
	if len(states) == 0 {
		return nil
	}
	own := &scope{dev: f.net.dev}
	defer own.free()
	index := slices.Repeat([]int32{-1}, len(owner.rows))
	for row, p := range f.sequences {
		if p != nil && p.session == owner {
			index[p.row] = int32(row)
		}
	}
	var in []*device.Array
	for _, s := range []*session{f.session, owner} {
		for _, i := range states {
			in = append(in, s.prefix[i])
		}
	}
	in = append(in, upload(own, index))
	if own.err != nil {
		return own.err
	}
	out, err := f.net.gatherRows(0, true).Run(in)
	if err != nil {
		return err
	}
	for k, i := range states {
		owner.prefix[i].Free()
		owner.prefix[i] = out[k]
	}
	return nil
}
