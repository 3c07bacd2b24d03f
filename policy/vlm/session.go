package vlm

import (
	"vagen/policy/vlm/internal/device"
)

// session is a batch of conversations that share a cache.
//
// All rows write to the same slots. If a row has nothing to write, its slot is marked
// invalid and masked in attention; positions are counted per row, so gaps do not matter.
// Keys and values of the current response are written to a short recent segment, so that a
// decoding step copies little; they move to the long prefix when the conversation
// continues. States are in the prefix only and always current.
type session struct {
	net   *net
	leaf  int         // the part of the work, in [0, Model.leaves), to which it belongs; 0 if work is not divided
	rows  []*rowState // one per row of the cache; nil is a free row
	slots int         // length of the prefix
	used  int         // slots of the prefix in use

	minSlots int // the prefix has at least this length

	prefix []*device.Array // the cache's arrays
	allow  []bool          // [rows·slots]

	recent      []*device.Array // of the arrays in slots
	recentLen   int
	recentUsed  int
	recentAllow []bool // [rows·recentLen]
}

// rowState is the state of one conversation in a session.
type rowState struct {
	next    int32 // position of the next token
	pending int32 // last sampled token, not yet in the cache; −1 for none
	length  int   // tokens so far, including pending
}

func (s *session) free() {
	device.FreeAll(s.prefix...)
	device.FreeAll(s.recent...)
	s.prefix, s.recent = nil, nil
}

// unread returns the tokens to read: the pending token and the context.
func (l *rowState) unread(context []int32) []int32 {
	if l.pending < 0 {
		return context
	}
	return append([]int32{l.pending}, context...)
}

// advance updates the state after the request was read.
func (l *rowState) advance(r *request, next int32) {
	l.length += len(r.tokens)
	l.next, l.pending = next, -1
}

// setPrefix replaces the prefix by the output of the append program, in which the recent
// segment and length new slots follow the slots in use.
func (s *session) setPrefix(arrays []*device.Array, open bool, length int, fresh []bool) {
	device.FreeAll(s.prefix...)
	s.prefix = arrays
	if open {
		s.allow = make([]bool, len(s.rows)*s.slots)
	} else {
		s.commitRecent()
	}
	for row := range s.rows {
		copy(s.allow[row*s.slots+s.used:], fresh[row*length:(row+1)*length])
	}
	s.used += length
}

// commitRecent marks the recent slots as part of the prefix.
func (s *session) commitRecent() {
	for row := range s.rows {
		copy(s.allow[row*s.slots+s.used:], s.recentAllow[row*s.recentLen:row*s.recentLen+s.recentUsed])
	}
	s.used += s.recentUsed
	s.recentUsed = 0
	clear(s.recentAllow)
}

// growPrefix grows the prefix so that the recent segment and length more slots fit.
func (s *session) growPrefix(length int) error {
	need := s.used + max(s.recentUsed+length, s.recentLen)
	if s.slots >= need {
		return nil
	}
	slots := cacheLength(max(need, s.minSlots))
	if s.prefix != nil {
		out, err := s.net.grow(slots).Run(s.prefix)
		if err != nil {
			return err
		}
		device.FreeAll(s.prefix...)
		s.prefix = out
		allow := make([]bool, len(s.rows)*slots)
		for row := range s.rows {
			copy(allow[row*slots:], s.allow[row*s.slots:(row+1)*s.slots])
		}
		s.allow = allow
	}
	s.slots = slots
	return nil
}

// cacheLength rounds the length of the prefix up to 64, 128, 192, 256, 384, ….
func cacheLength(n int) int {
	if n <= 256 {
		return (n + 63) / 64 * 64
	}
	size := 256
	for size < n {
		size *= 2
	}
	if n <= size*3/4 {
		return size * 3 / 4
	}
	return size
}

// startRecent starts an empty recent segment of the given length.
func (s *session) startRecent(length int) error {
	s.recentUsed = 0
	if s.recent != nil && s.recentLen == length {
		clear(s.recentAllow)
		return nil
	}
	device.FreeAll(s.recent...)
	var err error
	if s.recent, err = s.net.emptyRecent(len(s.rows), length); err != nil {
		return err
	}
	s.recentLen, s.recentAllow = length, make([]bool, len(s.rows)*length)
	return nil
}

// flushRecent moves the recent segment into the prefix.
func (s *session) flushRecent() error {
	if s.recentUsed == 0 {
		return nil
	}
	if err := s.growPrefix(0); err != nil {
		return err
	}
	at, err := device.Scalar(s.net.dev, int32(s.used))
	if err != nil {
		return err
	}
	defer at.Free()
	out, err := s.net.flush().Run(append(append(append([]*device.Array{}, s.prefix...), s.recent...), at))
	if err != nil {
		return err
	}
	device.FreeAll(s.prefix...)
	s.prefix = out
	s.commitRecent()
	return nil
}

// cacheInputs returns the cache, and the slots to write at, as inputs of the programs.
func (s *session) cacheInputs(own *scope, at, recentAt int) ([]*device.Array, error) {
	b := len(s.rows)
	in := append(append([]*device.Array{}, s.prefix...), s.recent...)
	in = append(in, upload(own, s.allow, b, s.slots), upload(own, s.recentAllow, b, s.recentLen))
	if own.err != nil {
		return nil, own.err
	}
	for _, slot := range []int{at, recentAt} {
		x, err := device.Scalar(s.net.dev, int32(slot))
		if err != nil {
			return nil, err
		}
		in = append(in, own.own(x)...)
	}
	return in, nil
}
