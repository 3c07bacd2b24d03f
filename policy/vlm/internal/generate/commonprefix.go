package generate

import (
	"context"
	"slices"

	"vagen/policy/vlm/internal/device"
)

// minPrefix is the least number of common tokens that are read once: for fewer, another program costs more.
const minPrefix = 16

// commonPrefix is the number of tokens, of a length that needs no padding, with which all contexts begin. It is 0
// where it is too small, or where there are no two different contexts. No context is whole in it, and no picture.
func (f *DecodeBatch) commonPrefix(p *contextBatch) int {
	var common []int32
	readers := 0
	for _, row := range p.Readers {
		if row < 0 {
			continue
		}
		ids := f.Sequences[row].Turn.Tokens
		ids = ids[:max(0, len(ids)-1)]
		if readers++; readers == 1 {
			common = ids
			if at := slices.Index(ids, f.Net.Cfg.ImageToken); f.Net.Cfg.Vision != nil && at >= 0 {
				common = ids[:at]
			}
		}
		n := 0
		for n < min(len(common), len(ids)) && common[n] == ids[n] {
			n++
		}
		common = common[:n]
	}
	n := len(common)
	for n >= minPrefix && contextLength(n) != n {
		n--
	}
	if readers < 2 || n < minPrefix {
		return 0
	}
	return n
}

// readPrefix reads the common prefix of a new session's contexts as a session of one row, and removes it from
// the requests. It returns nil if there is none, or if the call reads all contexts in full.
func (f *DecodeBatch) readPrefix(ctx context.Context, p *contextBatch) (*Session, error) {
	if !f.scheduler.SharePrefix || f.prefix != nil {
		return nil, nil
	}
	n := f.commonPrefix(p)
	if n == 0 {
		return nil, nil
	}
	one := &Session{Net: f.Net, leaf: f.leaf, Rows: []*Conversation{{Pending: -1}}, minSlots: f.minSlots}
	g := f.scheduler.NewDecodeBatch(one)
	defer g.release()
	at := slices.IndexFunc(p.Readers, func(row int) bool { return row >= 0 })
	g.Assign(0, &Turn{Tokens: f.Sequences[p.Readers[at]].Turn.Tokens[:n:n], Max: 1}) // its sampled token is not used
	if err := g.readContexts(ctx); err != nil {
		one.Free()
		return nil, err
	}
	for _, seq := range f.Sequences {
		if seq != nil {
			seq.Turn.Tokens = seq.Turn.Tokens[n:]
			seq.state.next = one.Rows[0].next
			seq.state.Length += n
		}
	}
	return one, nil
}

// makeRoom makes room for length more slots, in a session that opens with copies of one's row if that is not nil.
func (s *Session) makeRoom(one *Session, rows, length int) error {
	if one == nil {
		return s.growPrefix(length)
	}
	if err := one.growPrefix(length); err != nil {
		return err
	}
	var err error
	if s.prefix, err = s.Net.rowsAt(one.prefix, nil, make([]int32, rows), 0); err != nil {
		return err
	}
	if s.recent, err = s.Net.empty(rows, one.RecentLen, false); err != nil {
		return err
	}
	s.Slots, s.used, s.RecentLen = one.Slots, one.used, one.RecentLen
	s.setMasks(one, rows)
	return nil
}

// setMasks sets the masks for so many copies of one's row.
func (s *Session) setMasks(one *Session, rows int) {
	s.allow, s.recentAllow = slices.Repeat(one.allow, rows), make([]bool, rows*s.RecentLen)
}

// widen gives a session that was opened with fewer rows, which have been copied to all, the masks of all.
func (s *Session) widen(one *Session) {
	s.setMasks(one, len(s.Rows))
	device.FreeAll(s.recent...)
	s.recent = nil
}
