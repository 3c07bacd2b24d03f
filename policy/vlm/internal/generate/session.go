package generate

import (
	"slices"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
)

// Session is a batch of conversations that share a cache.
//
// All rows write to the same slots. If a row has nothing to write, its slot is marked
// invalid and masked in attention; positions are counted per row, so gaps do not matter.
// Keys and values of the current response are written to a short recent segment, so that a
// decoding step copies little; they move to the long prefix when the conversation
// continues. States are in the prefix only and always current.
type Session struct {
	Net   Programs
	leaf  int             // the part of the work, in [0, Model.leaves), to which it belongs; 0 if work is not divided
	Rows  []*Conversation // one per row of the cache; nil is a free row
	Slots int             // length of the prefix
	used  int             // slots of the prefix in use

	minSlots int // the prefix has at least this length

	prefix []*device.Array // the cache's arrays
	allow  []bool          // [rows·slots]

	recent      []*device.Array // of the arrays in slots
	RecentLen   int
	recentUsed  int
	recentAllow []bool // [rows·recentLen]
}

// Conversation is the policy's state for a prompt's key: a row of a session, which holds its keys and values between
// calls.
type Conversation struct {
	Batch   *Session
	Row     int
	ended   bool    // the last response ended with the end-of-turn token
	dead    error   // why the conversation cannot be continued
	next    int32   // position of the next token
	Pending int32   // last sampled token, not yet in the cache; −1 for none
	Length  int     // tokens so far, including pending
	text    []int32 // these tokens, if there are drafts
}

// Free frees the arrays. s may be nil.
func (s *Session) Free() {
	if s == nil {
		return
	}
	device.FreeAll(s.prefix...)
	device.FreeAll(s.recent...)
	s.prefix, s.recent = nil, nil
}

// unread returns the tokens to read: the pending token and the context.
func (l *Conversation) unread(context []int32) []int32 {
	if l.Pending < 0 {
		return context
	}
	return append([]int32{l.Pending}, context...)
}

// advance updates the state after the request was read.
func (l *Conversation) advance(r *Turn, next int32) {
	l.Length += len(r.Tokens)
	l.next, l.Pending = next, -1
}

// setPrefix replaces the prefix by the output of the append program, in which the recent
// segment and length new slots follow the slots in use.
func (s *Session) setPrefix(arrays []*device.Array, open bool, length int, fresh []bool) {
	device.FreeAll(s.prefix...)
	s.prefix = arrays
	if open {
		s.allow = make([]bool, len(s.Rows)*s.Slots)
	} else {
		s.commitRecent()
	}
	for row := range s.Rows {
		copy(s.allow[row*s.Slots+s.used:], fresh[row*length:(row+1)*length])
	}
	s.used += length
}

// commitRecent marks the recent slots as part of the prefix.
func (s *Session) commitRecent() {
	for row := range s.Rows {
		copy(s.allow[row*s.Slots+s.used:], s.recentAllow[row*s.RecentLen:row*s.RecentLen+s.recentUsed])
	}
	s.used += s.recentUsed
	s.recentUsed = 0
	clear(s.recentAllow)
}

// growPrefix grows the prefix so that the recent segment and length more slots fit.
func (s *Session) growPrefix(length int) error {
	need := s.used + max(s.recentUsed+length, s.RecentLen)
	if s.Slots >= need {
		return nil
	}
	slots := CacheLength(max(need, s.minSlots))
	if s.prefix != nil {
		out, err := s.Net.grow(slots).Run(s.prefix)
		if err != nil {
			return err
		}
		device.FreeAll(s.prefix...)
		s.prefix = out
		device.Trim() // nothing else has arrays of the former length
		allow := make([]bool, len(s.Rows)*slots)
		for row := range s.Rows {
			copy(allow[row*slots:], s.allow[row*s.Slots:(row+1)*s.Slots])
		}
		s.allow = allow
	}
	s.Slots = slots
	return nil
}

// CacheLength rounds the length of the prefix up to 64, 128, 192, 256, 384, ….
func CacheLength(n int) int { return 64 * net.SizeStep((n+63)/64) }

// startRecent starts an empty recent segment of the given length.
func (s *Session) startRecent(length int) error {
	s.recentUsed = 0
	if s.recent != nil && s.RecentLen == length {
		clear(s.recentAllow)
		return nil
	}
	device.FreeAll(s.recent...)
	var err error
	if s.recent, err = s.Net.empty(len(s.Rows), length, false); err != nil {
		return err
	}
	s.RecentLen, s.recentAllow = length, make([]bool, len(s.Rows)*length)
	return nil
}

// flushRecent moves the recent segment into the prefix.
func (s *Session) flushRecent() error {
	if s.recentUsed == 0 {
		return nil
	}
	if err := s.growPrefix(0); err != nil {
		return err
	}
	at, err := device.Scalar(s.Net.Dev, int32(s.used))
	if err != nil {
		return err
	}
	defer at.Free()
	out, err := s.Net.flush().Run(append(slices.Concat(s.prefix, s.recent), at))
	if err != nil {
		return err
	}
	device.FreeAll(s.prefix...)
	s.prefix = out
	s.commitRecent()
	return nil
}

// cacheInputs returns the cache, and the slots to write at, as inputs of the programs.
func (s *Session) cacheInputs(own *net.Scope, at, recentAt int) ([]*device.Array, error) {
	b := len(s.allow) / s.Slots // of a session that is opened with a common prefix, the contexts that are read
	in := slices.Concat(s.prefix, s.recent)
	in = append(in, net.Upload(own, s.allow, b, s.Slots), net.Upload(own, s.recentAllow, b, s.RecentLen))
	if own.Err != nil {
		return nil, own.Err
	}
	for _, slot := range []int{at, recentAt} {
		x, err := device.Scalar(s.Net.Dev, int32(slot))
		if err != nil {
			return nil, err
		}
		in = append(in, own.Own(x)...)
	}
	return in, nil
}
