package learn

import (
	"cmp"
	"log/slog"
	"sync/atomic"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/peft"
)

// Options is what the sets of weights of a model are loaded from, and how they are used. Its fields are
// explained at vlm.Options.
type Options struct {
	Dir     string // the model's folder
	Config  *model.Config
	Net     *net.Net // the policy's
	Devices []*device.Device
	Parts   int  // into which work is divided; 0 if it is not
	Sharded bool // weights are divided over the devices
	Ranks   int  // processes that train together

	Adapter       *peft.Config // nil without adapters
	StoredAdapter string       // the folder of its weights; "" for new ones
	CriticOptions CriticOptions
	Batching      Batching
	Seed          uint64

	// Teacher is the architecture of the reference if that is another model, in TeacherDir.
	Teacher                                     *model.Config
	TeacherDir                                  string
	Reference, OffloadReference, OffloadMoments bool

	Picture func(policy.Image) (net.Picture, error)
	Prepare func(b *policy.Batch) // is called before learning from b, or before a step, where b is nil
	Log     *slog.Logger
}

// The kinds of critics.
const (
	NoCritic       = "none"
	SharedCritic   = "shared"
	SeparateCritic = "separate"
)

// CriticOptions is the part of Options about the critic.
type CriticOptions struct {
	Kind, Dir               string
	ZeroHead                bool
	Offload, OffloadMoments bool
}

// Batching is the part of Options about the sizes of micro-batches.
type Batching struct {
	Tokens, Rows             int
	CriticTokens, CriticRows int // 0 means the policy's
	HeadTokens               int
}

// Sets are the sets of weights of a model. Its methods must not be called at the same time.
type Sets struct {
	Options
	Actor  *Learner
	Critic *Learner            // nil unless separate
	Ref    *Learner            // nil without reference
	Peers  *nodes.Communicator // of ranks; nil for this process alone

	Zeros    map[string]*device.Array // adapters of the reference by shape
	images   imageTable
	Exchange Exchange
}

// Exchange is what the last step took for communication. It may be read at any time.
type Exchange struct {
	Share atomic.Uint64 // bits of the devices' communication as a part of the step's time
	Wait  atomic.Uint64 // bits of the wait for other ranks as a part of the step's time
	Sent  atomic.Int64  // bytes to other ranks
}

// All returns the sets that exist.
func (s *Sets) All() (out []*Learner) {
	for _, l := range []*Learner{s.Actor, s.Critic, s.Ref} {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

// Free frees all arrays on the devices; s may be nil.
func (s *Sets) Free() {
	if s == nil {
		return
	}
	for _, l := range s.All() {
		l.Free()
	}
	s.freeZeros()
}

// Size returns the number of trained parameters; l may be nil.
func (l *Learner) Size() (n int) {
	if l == nil {
		return 0
	}
	for _, g := range l.Weights.Groups {
		for _, i := range g.Trained() {
			n += g.Params[i].Size()
		}
	}
	return n
}

// Join connects the sets with those of other ranks.
func (s *Sets) Join(g *nodes.Communicator) {
	s.Peers = g
	for _, l := range s.All() {
		l.Peers = g
	}
}

// Packer arranges rows for one of the nets.
func (s *Sets) Packer(n *net.Net) *net.Packer {
	b := &s.Batching
	k := &net.Packer{Cfg: n.Spec, Budget: b.Tokens, Rows: b.Rows, Picture: s.Picture,
		Share:     n.Share && (s.Ref == nil || s.Ref.Net.Share), // the reference reads the same packs
		LeafCount: max(1, s.Parts)}
	if s.Critic != nil && n == s.Critic.Net {
		k.Budget, k.Rows = cmp.Or(b.CriticTokens, b.Tokens), cmp.Or(b.CriticRows, b.Rows)
	}
	return k
}
