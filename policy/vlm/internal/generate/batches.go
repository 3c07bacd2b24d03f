package generate

import (
	"slices"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
)

// assignRows assigns rows to new conversations and shrinks batches with many free rows.
func (g *Generator) assignRows(prompts []policy.Prompt, turns []*Turn) error {
	var fresh []uint64
	for i, p := range prompts {
		if _, ok := g.Chats[p.Conversation]; !ok && turns[i].refused == nil {
			fresh = append(fresh, p.Conversation)
		}
	}
	switch {
	case g.Continuous:
		for i := range fresh {
			g.openRows(0, fresh[i:i+1])
		}
	case g.Leaves > 0:
		for leaf, n := range g.shares(len(fresh)) {
			g.openRows(leaf, fresh[:n])
			fresh = fresh[n:]
		}
	default:
		g.openRows(0, fresh)
	}
	for _, s := range g.Batches {
		if err := g.compact(s); err != nil {
			g.dropSession(s) // rows may have moved in only half of the cache's arrays
			return err
		}
	}
	return nil
}

// openRows opens conversations in new sessions of a leaf.
func (g *Generator) openRows(leaf int, fresh []uint64) {
	most := g.MaxRows
	for len(fresh) > 0 {
		n := min(len(fresh), most)
		s := &Session{Net: g.programs(g.of(leaf)), leaf: leaf, Rows: make([]*Conversation, RowBucket(n)),
			minSlots: g.CacheTokens}
		if g.Continuous {
			s.minSlots = 0 // the batch has them
		}
		for row, key := range fresh[:n] {
			s.Rows[row] = &Conversation{Batch: s, Row: row, Pending: -1}
			g.Chats[key] = s.Rows[row]
		}
		g.Batches = append(g.Batches, s)
		fresh = fresh[n:]
		most = g.waitingRows()
	}
}

// shares returns how many of n new conversations each leaf opens, so that all leaves have
// about as many. It depends on the conversations and on the number of leaves, not on that of devices.
func (g *Generator) shares(n int) []int {
	out, load := make([]int, g.Leaves), make([]int, g.Leaves)
	for _, c := range g.Chats {
		load[c.Batch.leaf]++
	}
	for range n {
		leaf := tree.LeastLoaded(load)
		load[leaf]++
		out[leaf]++
	}
	return out
}

// waitingRows is the batch size for conversations that find no row in the first batch.
// Smaller batches may join a running batch sooner, but otherwise each reads and decodes
// separately, so they are used where that is cheap.
func (g *Generator) waitingRows() int {
	if g.MaxRows > 4*stepCost(g.dev()) {
		return g.MaxRows
	}
	return max(1, g.MaxRows/2)
}

// RowBucket rounds a number of rows up, to limit the number of different sizes.
func RowBucket(n int) int { return net.RoundUp(n, 32) }

// compact moves the live rows of a batch to a smaller one when enough of them have ended.
// The order is kept.
func (g *Generator) compact(s *Session) error {
	var index []int32
	for row, l := range s.Rows {
		if l != nil {
			index = append(index, int32(row))
		}
	}
	// Only to half the size or less, because every size needs its own executables, and not below what costs hardly
	// more than fewer rows.
	matrices, _ := s.Net.Spec.DecoderNumbers()
	to, least := len(s.Rows), fewestRows(s.Net.Dev.Accelerator(), matrices)
	for to >= 2*least && len(index) <= to/2 {
		to /= 2
	}
	if to == len(s.Rows) || s.prefix == nil {
		return nil
	}
	live := len(index)
	for len(index) < to {
		index = append(index, 0)
	}
	return s.pickRows(index, live)
}

// fewestRows is the size of a batch below which fewer rows hardly save time: those of a model with so many numbers in
// the matrices of a pass. Calling the programs of a small one takes longer than computing.
func fewestRows(accelerator bool, matrices int64) int {
	switch {
	case accelerator, matrices < 1<<21:
		return 32
	case matrices < 1<<24:
		return 8
	}
	return 1
}

// pickRows keeps the rows at the index, in its order. The first live of them are
// conversations; the others are free.
func (s *Session) pickRows(index []int32, live int) error {
	for _, arrays := range []*[]*device.Array{&s.prefix, &s.recent} {
		out, err := s.Net.rowsAt(*arrays, nil, index, 0)
		if err != nil {
			return err
		}
		device.FreeAll(*arrays...)
		*arrays = out
	}
	rows := make([]*Conversation, len(index))
	allow, recent := make([]bool, len(index)*s.Slots), make([]bool, len(index)*s.RecentLen)
	for row, from := range index {
		if row < live {
			rows[row] = s.Rows[from]
			rows[row].Row = row
		}
		copy(allow[row*s.Slots:(row+1)*s.Slots], s.allow[int(from)*s.Slots:])
		copy(recent[row*s.RecentLen:(row+1)*s.RecentLen], s.recentAllow[int(from)*s.RecentLen:])
	}
	s.Rows, s.allow, s.recentAllow = rows, allow, recent
	return nil
}

func (g *Generator) Forget(keys ...uint64) {
	for _, key := range keys {
		delete(g.Resumed, key)
		c, ok := g.Chats[key]
		if !ok {
			continue
		}
		c.Batch.Rows[c.Row] = nil
		delete(g.Chats, key)
	}
	kept := g.Batches[:0]
	for _, s := range g.Batches {
		if s.empty() {
			s.Free()
		} else {
			kept = append(kept, s)
		}
	}
	clear(g.Batches[len(kept):])
	g.Batches = kept
	if len(kept) == 0 && g.Sharded {
		g.dropNarrow()
	}
}

func (s *Session) empty() bool {
	return !slices.ContainsFunc(s.Rows, func(c *Conversation) bool { return c != nil })
}

// endConversations ends the prompts' conversations.
func (g *Generator) endConversations(prompts []policy.Prompt) {
	for _, p := range prompts {
		g.Forget(p.Conversation)
	}
}

// dropSession ends the conversations of a batch.
func (g *Generator) dropSession(s *Session) {
	var keys []uint64
	for key, c := range g.Chats {
		if c.Batch == s {
			keys = append(keys, key)
		}
	}
	g.Forget(keys...)
}

// DropSessions ends all conversations, before the weights change.
func (g *Generator) DropSessions() {
	if g == nil {
		return
	}
	g.dropNarrow()
	for _, s := range g.Batches {
		s.Free()
	}
	g.Batches = nil
	clear(g.Chats)
	clear(g.Resumed)
}
