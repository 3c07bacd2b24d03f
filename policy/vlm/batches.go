package vlm

import (
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
)

// assignRows assigns rows to new conversations and shrinks batches with many free rows.
func (m *Model) assignRows(prompts []policy.Prompt, turns []promptTurn) error {
	var fresh []uint64
	for i, p := range prompts {
		if _, ok := m.chats[p.Conversation]; !ok && turns[i].err == nil {
			fresh = append(fresh, p.Conversation)
		}
	}
	if m.tree {
		for leaf, n := range m.shares(len(fresh)) {
			m.openRows(leaf, fresh[:n])
			fresh = fresh[n:]
		}
	} else {
		m.openRows(0, fresh)
	}
	for _, s := range m.batches {
		if err := m.compact(s); err != nil {
			m.dropSession(s) // rows may have moved in only half of the cache's arrays
			return err
		}
	}
	return nil
}

// openRows opens conversations in new sessions of a leaf.
func (m *Model) openRows(leaf int, fresh []uint64) {
	most := m.opts.MaxRows
	for len(fresh) > 0 {
		n := min(len(fresh), most)
		s := &session{net: programs{m.replicaOf(leaf).net}, leaf: leaf, rows: make([]*rowState, rowBucket(n)), minSlots: m.opts.CacheTokens}
		for row, key := range fresh[:n] {
			s.rows[row] = &rowState{pending: -1}
			m.chats[key] = &conversation{batch: s, row: row}
		}
		m.batches = append(m.batches, s)
		fresh = fresh[n:]
		most = m.waitingRows()
	}
}

// shares returns how many of n new conversations each leaf opens, so that all leaves have
// about as many. It depends on the conversations and on the number of leaves, not on that of devices.
func (m *Model) shares(n int) []int {
	out, load := make([]int, m.leaves), make([]int, m.leaves)
	for _, c := range m.chats {
		load[c.batch.leaf]++
	}
	for range n {
		leaf := net.LeastLoaded(load)
		load[leaf]++
		out[leaf]++
	}
	return out
}

// replicaOf returns the policy's replica on the device of a leaf.
func (m *Model) replicaOf(leaf int) *replica {
	if !m.tree {
		return m.actor.replicas[0]
	}
	return m.actor.replicas[tree.Device(leaf, len(m.devices), m.leaves)]
}

// waitingRows is the batch size for conversations that find no row in the first batch.
// Smaller batches may join a running batch sooner, but otherwise each reads and decodes
// separately, so they are used where that is cheap.
func (m *Model) waitingRows() int {
	if m.opts.MaxRows > 4*stepCost(m.dev) {
		return m.opts.MaxRows
	}
	return max(1, m.opts.MaxRows/2)
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
func (m *Model) compact(s *session) error {
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
	for _, c := range m.chats {
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

// Forget implements policy.Policy.
func (m *Model) Forget(keys ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(keys...)
}

func (m *Model) forget(keys ...uint64) {
	for _, key := range keys {
		delete(m.resumed, key)
		c, ok := m.chats[key]
		if !ok {
			continue
		}
		c.batch.rows[c.row] = nil
		delete(m.chats, key)
	}
	kept := m.batches[:0]
	for _, s := range m.batches {
		if s.empty() {
			s.free()
		} else {
			kept = append(kept, s)
		}
	}
	clear(m.batches[len(kept):])
	m.batches = kept
	if len(kept) == 0 && m.sharded() {
		m.dropNarrow()
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
func (m *Model) endConversations(prompts []policy.Prompt) {
	for _, p := range prompts {
		m.forget(p.Conversation)
	}
}

// dropSession ends the conversations of a batch.
func (m *Model) dropSession(s *session) {
	var keys []uint64
	for key, c := range m.chats {
		if c.batch == s {
			keys = append(keys, key)
		}
	}
	m.forget(keys...)
}

// dropSessions ends all conversations, before the weights change.
func (m *Model) dropSessions() {
	m.dropNarrow()
	for _, s := range m.batches {
		s.free()
	}
	m.batches = nil
	clear(m.chats)
	clear(m.resumed)
}
