package vlm

import (
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// assignRows assigns rows to new conversations and shrinks batches with many free rows.
func (g *generator) assignRows(prompts []policy.Prompt, turns []promptTurn) error {
	var fresh []uint64
	for i, p := range prompts {
		if _, ok := g.chats[p.Conversation]; !ok && turns[i].err == nil {
			fresh = append(fresh, p.Conversation)
		}
	}
	if g.leaves > 0 {
		for leaf, n := range g.shares(len(fresh)) {
			g.openRows(leaf, fresh[:n])
			fresh = fresh[n:]
		}
	} else {
		g.openRows(0, fresh)
	}
	for _, s := range g.batches {
		if err := g.compact(s); err != nil {
			g.dropSession(s) // rows may have moved in only half of the cache's arrays
			return err
		}
	}
	return nil
}

// openRows opens conversations in new sessions of a leaf.
func (g *generator) openRows(leaf int, fresh []uint64) {
	most := g.MaxRows
	for len(fresh) > 0 {
		n := min(len(fresh), most)
		s := &session{net: programs{g.of(leaf).net}, leaf: leaf, rows: make([]*rowState, rowBucket(n)), minSlots: g.CacheTokens}
		for row, key := range fresh[:n] {
			s.rows[row] = &rowState{pending: -1}
			g.chats[key] = &conversation{batch: s, row: row}
		}
		g.batches = append(g.batches, s)
		fresh = fresh[n:]
		most = g.waitingRows()
	}
}

// shares returns how many of n new conversations each leaf opens, so that all leaves have
// about as many. It depends on the conversations and on the number of leaves, not on that of devices.
func (g *generator) shares(n int) []int {
	out, load := make([]int, g.leaves), make([]int, g.leaves)
	for _, c := range g.chats {
		load[c.batch.leaf]++
	}
	for range n {
		leaf := net.LeastLoaded(load)
		load[leaf]++
		out[leaf]++
	}
	return out
}

// waitingRows is the batch size for conversations that find no row in the first batch.
// Smaller batches may join a running batch sooner, but otherwise each reads and decodes
// separately, so they are used where that is cheap.
func (g *generator) waitingRows() int {
	if g.MaxRows > 4*stepCost(g.dev()) {
		return g.MaxRows
	}
	return max(1, g.MaxRows/2)
}

// rowBucket rounds a number of rows up, to limit the number of different sizes: 1, 2, 4, 8, 16,
// 32, then multiples of 32.
func rowBucket(n int) int {
	for _, b := range []int{1, 2, 4, 8, 16, 32} {
		if n <= b {
			return b
		}
	}
	return (n + 31) / 32 * 32
}

// compact moves the live rows of a batch to a smaller one when enough of them have ended.
// The order is kept.
func (g *generator) compact(s *session) error {
	var index []int32
	for row, l := range s.rows {
		if l != nil {
			index = append(index, int32(row))
		}
	}
	// Only to half the size or less: every size needs its own executables, and below 32
	// rows a step is hardly faster.
	to := len(s.rows)
	for to >= 64 && len(index) <= to/2 {
		to /= 2
	}
	if to == len(s.rows) || s.prefix == nil {
		return nil
	}
	moved := map[int]int{}
	for row, from := range index {
		moved[int(from)] = row
	}
	for len(index) < to {
		index = append(index, 0)
	}
	if err := s.pickRows(index, len(moved)); err != nil {
		return err
	}
	for _, c := range g.chats {
		if c.batch == s {
			c.row = moved[c.row]
		}
	}
	return nil
}

// pickRows keeps the rows at the index, in its order. The first live of them are
// conversations; the others are free.
func (s *session) pickRows(index []int32, live int) error {
	own := net.Scope{Dev: s.net.Dev}
	defer own.Free()
	at := net.Upload(&own, index)
	if own.Err != nil {
		return own.Err
	}
	for _, arrays := range []*[]*device.Array{&s.prefix, &s.recent} {
		out, err := s.net.selectRows().Run(append(append([]*device.Array{}, *arrays...), at))
		if err != nil {
			return err
		}
		device.FreeAll(*arrays...)
		*arrays = out
	}
	rows := make([]*rowState, len(index))
	allow, recent := make([]bool, len(index)*s.slots), make([]bool, len(index)*s.recentLen)
	for row, from := range index {
		if row < live {
			rows[row] = s.rows[from]
		}
		copy(allow[row*s.slots:(row+1)*s.slots], s.allow[int(from)*s.slots:])
		copy(recent[row*s.recentLen:(row+1)*s.recentLen], s.recentAllow[int(from)*s.recentLen:])
	}
	s.rows, s.allow, s.recentAllow = rows, allow, recent
	return nil
}

func (g *generator) forget(keys ...uint64) {
	for _, key := range keys {
		delete(g.resumed, key)
		c, ok := g.chats[key]
		if !ok {
			continue
		}
		c.batch.rows[c.row] = nil
		delete(g.chats, key)
	}
	kept := g.batches[:0]
	for _, s := range g.batches {
		if s.empty() {
			s.free()
		} else {
			kept = append(kept, s)
		}
	}
	clear(g.batches[len(kept):])
	g.batches = kept
	if len(kept) == 0 && g.sharded {
		g.dropNarrow()
	}
}

func (s *session) empty() bool {
	for _, l := range s.rows {
		if l != nil {
			return false
		}
	}
	return true
}

// endConversations ends the prompts' conversations.
func (g *generator) endConversations(prompts []policy.Prompt) {
	for _, p := range prompts {
		g.forget(p.Conversation)
	}
}

// dropSession ends the conversations of a batch.
func (g *generator) dropSession(s *session) {
	var keys []uint64
	for key, c := range g.chats {
		if c.batch == s {
			keys = append(keys, key)
		}
	}
	g.forget(keys...)
}

// dropSessions ends all conversations, before the weights change.
func (g *generator) dropSessions() {
	if g == nil {
		return
	}
	g.dropNarrow()
	for _, s := range g.batches {
		s.free()
	}
	g.batches = nil
	clear(g.chats)
	clear(g.resumed)
}
