package generate

import (
	"context"
	"slices"

	"github.com/gomlx/compute/support/xslices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// admit reads the contexts of queued rows for which there is room, and puts the rows whose responses go on into the
// batch.
func (f *Batcher) admit() error {
	live := 0
	if f.batch != nil {
		live = len(f.batch.unfinished())
	}
	n := min(len(f.queue), f.c.MaxRows-live)
	var joining []*DecodeBatch
	for _, b := range f.queue[:n] {
		if err := b.readContexts(context.Background()); err != nil {
			return err
		}
		if len(b.unfinished()) > 0 {
			joining = append(joining, b)
		}
	}
	f.queue = f.queue[n:]
	if err := f.makeRoom(joining); err != nil {
		return err
	}
	row := 0
	for _, b := range joining {
		for f.batch.Sequences[row] != nil {
			row++
		}
		if err := f.batch.insert(row, b.Sequences[0], b.Session); err != nil {
			return err
		}
		device.FreeAll(b.prefix...) // until writeBack
		b.prefix = nil
	}
	return nil
}

// makeRoom replaces the batch by another one if rows that join have no place in it, if its slots are used up, or if a
// smaller one pays.
func (f *Batcher) makeRoom(joining []*DecodeBatch) error {
	var rows []int
	slots := 0
	for _, b := range joining {
		slots = max(slots, b.Slots)
	}
	if old := f.batch; old != nil {
		rows = old.unfinished()
		full := old.recentUsed == old.RecentLen && old.used+2*old.RecentLen > old.Slots
		if !full && len(rows)+len(joining) <= len(old.Rows) && slots <= old.Slots &&
			!(len(joining) == 0 && f.c.ShouldShrink(old)) {
			return nil
		}
	} else if len(joining) == 0 {
		return nil
	}
	taken := make([]*Session, len(rows))
	defer func() {
		for _, s := range taken {
			s.Free()
		}
	}()
	for i, row := range rows {
		var err error
		if taken[i], err = f.batch.copyRow(row); err != nil {
			return err
		}
		slots = max(slots, CacheLength(taken[i].used+f.c.RecentTokens))
	}
	next, err := f.newBatch(len(rows)+len(joining), max(slots, CacheLength(f.g.CacheTokens)))
	if err != nil {
		return err
	}
	old := f.batch
	defer func() {
		if old != nil {
			old.release()
			old.Free()
		}
	}()
	f.batch = next
	for i, row := range rows {
		if err := next.insert(i, old.Sequences[row], taken[i]); err != nil {
			return err
		}
	}
	return nil
}

// newBatch returns a batch of so many free rows.
func (f *Batcher) newBatch(rows, slots int) (*DecodeBatch, error) {
	b := f.c.NewDecodeBatch(&Session{Net: f.c.net, Rows: make([]*RowState, RowBucket(rows)), Slots: slots})
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

// insert makes a copy of the only row of s, which has no recent tokens, a row of the batch.
func (f *DecodeBatch) insert(row int, p *Sequence, s *Session) error {
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
	f.Sequences[row], f.Rows[row] = p, p.state
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
		own := p.session
		own.prefix, own.allow, own.used, own.Slots = s.prefix, s.allow, s.used, s.Slots
		f.batch.Sequences[row] = nil
	}
	if len(f.batch.unfinished()) == 0 {
		f.empty()
	}
	return nil
}
