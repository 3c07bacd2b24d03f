package generate

import (
	"context"
	"slices"

	"github.com/gomlx/compute/support/xslices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// arrival is a row that a batch gets a copy of.
type arrival struct {
	*Sequence
	from *Session // of this row, without recent tokens
}

// admit reads the contexts of queued rows for which there is room, and puts the rows whose responses go on into the
// batch.
func (f *Batcher) admit() error {
	live := 0
	if f.batch != nil {
		live = len(f.batch.unfinished())
	}
	n := min(len(f.queue), f.c.MaxRows-live)
	var joining []arrival
	for _, b := range f.queue[:n] {
		if err := b.readContexts(context.Background()); err != nil {
			return err
		}
		if len(b.unfinished()) > 0 {
			joining = append(joining, arrival{b.Sequences[0], b.Session})
		}
	}
	f.queue = f.queue[n:]
	moving, err := f.makeRoom(joining)
	defer func() {
		for _, a := range moving {
			a.from.Free()
		}
	}()
	row := 0
	for _, a := range append(moving, joining...) {
		if err != nil {
			break
		}
		for f.batch.Sequences[row] != nil {
			row++
		}
		if err = f.batch.insert(row, a); err == nil {
			device.FreeAll(a.from.prefix...) // until writeBack
			a.from.prefix = nil
		}
	}
	return err
}

// makeRoom replaces the batch by an empty one if rows that join have no place in it, if its slots are used up, or if a
// smaller one pays. It returns copies of the rows that were in it.
func (f *Batcher) makeRoom(joining []arrival) (moving []arrival, err error) {
	var rows []int
	slots := 0
	for _, a := range joining {
		slots = max(slots, a.from.Slots)
	}
	if old := f.batch; old != nil {
		rows = old.unfinished()
		full := old.recentUsed == old.RecentLen && old.used+2*old.RecentLen > old.Slots
		if !full && len(rows)+len(joining) <= len(old.Rows) && slots <= old.Slots &&
			!(len(joining) == 0 && f.c.ShouldShrink(old)) {
			return nil, nil
		}
	} else if len(joining) == 0 {
		return nil, nil
	}
	for _, row := range rows {
		s, err := f.batch.copyRow(row)
		if err != nil {
			return moving, err
		}
		moving = append(moving, arrival{f.batch.Sequences[row], s})
		slots = max(slots, CacheLength(s.used+f.c.RecentTokens))
	}
	next, err := f.newBatch(len(rows)+len(joining), max(slots, CacheLength(f.g.CacheTokens)))
	if err == nil {
		f.empty()
		f.batch = next
	}
	return moving, err
}

// newBatch returns a batch of so many free rows.
func (f *Batcher) newBatch(rows, slots int) (*DecodeBatch, error) {
	b := f.c.NewDecodeBatch(&Session{Net: f.c.net, Rows: make([]*Conversation, RowBucket(rows)), Slots: slots})
	b.allow = make([]bool, len(b.Rows)*slots)
	var err error
	if b.prefix, err = b.Net.empty(len(b.Rows), slots, true); err != nil {
		return nil, err
	}
	if err := b.startRecent(f.c.RecentTokens); err != nil {
		b.Free()
		return nil, err
	}
	return b, nil
}

// insert makes a row of the batch a copy of another one.
func (f *DecodeBatch) insert(row int, a arrival) error {
	s := a.from
	at, err := device.Scalar(f.Net.Dev, int32(row))
	if err != nil {
		return err
	}
	defer at.Free()
	donate := xslices.Iota(0, len(f.prefix)) // the batch, so that nothing but the row is copied
	out, err := f.Net.insertRow().Run(append(slices.Concat(f.prefix, s.prefix), at), donate...)
	if err != nil {
		return err
	}
	f.prefix = out
	allow := f.allow[row*f.Slots : (row+1)*f.Slots]
	clear(allow)
	copy(allow, s.allow)
	clear(f.recentAllow[row*f.RecentLen : (row+1)*f.RecentLen])
	f.used = max(f.used, s.used)
	f.Sequences[row], f.Rows[row] = a.Sequence, a.state
	f.seeds.Free()
	f.seeds = nil
	f.dropMask()
	if f.ahead != nil {
		f.ahead[row] = nil
	}
	return nil
}

// copyRow returns a copy of a row as a session without gaps and without recent tokens.
func (f *DecodeBatch) copyRow(row int) (*Session, error) {
	var index []int32 // slots with a token
	for i, ok := range f.allow[row*f.Slots : (row+1)*f.Slots] {
		if ok {
			index = append(index, int32(i))
		}
	}
	for i, ok := range f.recentAllow[row*f.RecentLen : (row+1)*f.RecentLen] {
		if ok {
			index = append(index, int32(f.Slots+i))
		}
	}
	s := &Session{Net: f.Net, used: len(index), Slots: CacheLength(len(index))}
	s.allow = make([]bool, s.Slots)
	for i := range index {
		s.allow[i] = true
	}
	own := &net.Scope{Dev: f.Net.Dev}
	defer own.Free()
	in := slices.Concat(f.prefix, f.recent)
	index = append(index, make([]int32, s.Slots-len(index))...)
	in = append(in, net.Upload(own, index), net.Upload(own, []int32{int32(row)}))
	if own.Err != nil {
		return nil, own.Err
	}
	var err error
	s.prefix, err = f.Net.compactRow().Run(in)
	return s, err
}

// writeBack copies the rows whose responses are complete back to their conversations.
func (f *Batcher) writeBack() error {
	if f.batch == nil {
		return nil
	}
	for row, p := range f.batch.Sequences {
		if p == nil || !p.ended() {
			continue
		}
		s, err := f.batch.copyRow(row)
		if err != nil {
			return err
		}
		own := p.state.Batch
		own.prefix, own.allow, own.used, own.Slots = s.prefix, s.allow, s.used, s.Slots
		f.batch.Sequences[row] = nil
	}
	if len(f.batch.unfinished()) == 0 {
		f.empty()
	}
	return nil
}
