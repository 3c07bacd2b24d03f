package generate

import (
	"slices"

	"vagen/policy/vlm/internal/device"
)

// regroup gathers the unfinished rows of batches, in order, into the smallest batch with
// room for them. It first copies their recent keys and values back to the sessions, so that
// the remaining rows are complete. It consumes the batches, also on failure.
func regroup(from ...*DecodeBatch) (*DecodeBatch, error) {
	c := from[0].scheduler
	f := &DecodeBatch{scheduler: c, Session: &Session{Net: c.net}, gathered: true}
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
			f.Sequences, f.Rows = append(f.Sequences, g.Sequences[row]), append(f.Rows, g.Sequences[row].state)
		}
		f.Slots, f.used = max(f.Slots, g.Slots), max(f.used, g.used)
	}
	f.Rows = append(f.Rows, make([]*Conversation, RowBucket(len(f.Sequences))-len(f.Sequences))...)
	f.Sequences = append(f.Sequences, make([]*Sequence, len(f.Rows)-len(f.Sequences))...)
	f.allow = make([]bool, len(f.Rows)*f.Slots)
	at := 0
	for _, g := range from {
		if err := f.copyPrefixes(g, at); err != nil {
			f.Free()
			return nil, err
		}
		at += len(g.unfinished())
		g.release() // frees memory for the next
	}
	if err := f.startRecent(c.RecentTokens); err != nil {
		f.Free()
		return nil, err
	}
	return f, nil
}

// copyPrefixes copies the prefixes of another batch's unfinished rows to the rows from at on.
func (f *DecodeBatch) copyPrefixes(g *DecodeBatch, at int) error {
	index := slices.Repeat([]int32{-1}, len(f.Rows))
	for i, row := range g.unfinished() {
		index[at+i] = int32(row)
		copy(f.allow[(at+i)*f.Slots:], g.allow[row*g.Slots:(row+1)*g.Slots])
	}
	out, err := f.Net.rowsAt(g.prefix, f.prefix, index, f.Slots)
	if err != nil {
		return err
	}
	device.FreeAll(f.prefix...)
	f.prefix = out
	return nil
}

// flush moves the recent segment into the prefix, also in the rows' sessions.
func (f *DecodeBatch) flush() error {
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
func (f *DecodeBatch) finish() error {
	defer f.release()
	return f.copyRecent()
}

// release frees what the batch holds apart from the rows' sessions. f may be nil.
func (f *DecodeBatch) release() {
	if f == nil {
		return
	}
	f.seeds.Free()
	f.seeds = nil
	f.dropMask()
	if f.gathered {
		f.Free()
	}
}

// sessions returns the sessions of the rows of a gathered batch.
func (f *DecodeBatch) sessions() []*Session {
	var out []*Session
	for _, p := range f.Sequences {
		if f.gathered && p != nil && (len(out) == 0 || out[len(out)-1] != p.state.Batch) {
			out = append(out, p.state.Batch) // rows of a session are adjacent
		}
	}
	return out
}

// copyRecent copies the recent segment and the states of a gathered batch to the rows' sessions,
// whose own recent segment is empty.
func (f *DecodeBatch) copyRecent() error {
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

func (f *DecodeBatch) copyRecentTo(owner *Session) error {
	index := slices.Repeat([]int32{-1}, len(owner.Rows)) // in f of the owner's rows
	allow := make([]bool, len(owner.Rows)*f.RecentLen)
	for row, p := range f.Sequences {
		if p != nil && p.state.Batch == owner {
			at := p.state.Row
			index[at] = int32(row)
			copy(allow[at*f.RecentLen:(at+1)*f.RecentLen], f.recentAllow[row*f.RecentLen:])
		}
	}
	out, err := f.Net.rowsAt(f.recent, nil, index, 0)
	if err != nil {
		return err
	}
	device.FreeAll(owner.recent...)
	owner.recent, owner.RecentLen, owner.recentUsed, owner.recentAllow = out, f.RecentLen, f.recentUsed, allow
	return f.copyStatesTo(owner, index)
}

// copyStatesTo copies the states of rows at the index to those of a session; where it is −1, they do not change.
func (f *DecodeBatch) copyStatesTo(owner *Session, index []int32) error {
	states := f.Net.states()
	if len(states) == 0 {
		return nil
	}
	var from, to []*device.Array
	for _, i := range states {
		from, to = append(from, f.prefix[i]), append(to, owner.prefix[i])
	}
	out, err := f.Net.rowsAt(from, to, index, 0)
	if err != nil {
		return err
	}
	for k, i := range states {
		owner.prefix[i].Free()
		owner.prefix[i] = out[k]
	}
	return nil
}
