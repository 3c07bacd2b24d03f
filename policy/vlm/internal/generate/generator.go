// Package generate generates responses in conversations: it encodes their messages, keeps their caches, and decodes
// their rows together until each response ends.
package generate

import (
	"sync/atomic"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
)

// Settings are those of generation.
type Settings struct {
	MaxRows       int  // of a batch
	CacheTokens   int  // for which a cache has room at first
	TokensPerCall int  // that a program makes; 0 chooses
	Leaves        int  // parts into which work is divided; 0 if it is not
	Sharded       bool // weights are divided over the devices
	SharePrefix   bool // tokens with which all contexts of new conversations begin are read once
	DraftTokens   int  // that are guessed after the next one, at most
	Continuous    bool // calls are part of a Batcher
	// Packed is the type in which decoding reads the decoder's matrices: BFloat16 or Int8; InvalidDType reads the
	// weights.
	Packed dtypes.DType
}

// Weights are a policy's weights for the programs on a device.
type Weights struct {
	Net   *net.Net
	Parts *net.Parts
}

// Generator generates responses in conversations, whose caches it keeps. Its methods must not be called at the
// same time.
type Generator struct {
	*Encoder
	Settings
	Weights []*Weights // one for each device

	Chats    map[uint64]*Conversation
	Resumed  map[uint64]*resumed // recorded conversations, until they are continued
	Batches  []*Session
	Narrow   map[*Weights]*net.Parts // results of generationWeights that have copies
	Narrowed []*device.Array         // these and other copies, on several devices
	packed   map[*Weights]*net.Parts // results of decodingWeights
	heard    []int32                 // text of responses, for drafts

	*Counted
}

// Counted are the tokens that generators of one model decoded, and for how many rows there was a pass.
type Counted struct{ fed, passes atomic.Int64 }

// TokensPerPass is the mean number of tokens that a pass of decoding made for a row, 0 before the first.
func (c *Counted) TokensPerPass() float64 {
	if p := c.passes.Load(); p > 0 {
		return float64(c.fed.Load()) / float64(p)
	}
	return 0
}

// New returns a generator without conversations.
func New(x *Encoder, s Settings, w []*Weights) *Generator {
	return &Generator{Encoder: x, Settings: s, Weights: w, Chats: map[uint64]*Conversation{},
		Resumed: map[uint64]*resumed{}, Narrow: map[*Weights]*net.Parts{}, packed: map[*Weights]*net.Parts{},
		Counted: new(Counted)}
}

// programs returns the programs for some weights.
func (g *Generator) programs(r *Weights) Programs {
	return Programs{r.Net, g.Packed != dtypes.InvalidDType}
}

// dev is the first device.
func (g *Generator) dev() *device.Device { return g.Weights[0].Net.Dev }

// of returns the weights on the device of a leaf.
func (g *Generator) of(leaf int) *Weights {
	if g.Leaves == 0 {
		return g.Weights[0]
	}
	return g.Weights[tree.DeviceOf(leaf, len(g.Weights), g.Leaves)]
}
