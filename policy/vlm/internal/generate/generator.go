// Package generate generates responses in conversations: it encodes their messages, keeps their caches, and decodes
// their rows together until each response ends.
package generate

import (
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
	*Text
	Settings
	Weights []*Weights // one for each device

	Chats    map[uint64]*Conversation
	Resumed  map[uint64]*resumed // recorded conversations, until they are continued
	Batches  []*Session
	Narrow   map[*Weights]*net.Parts // results of generationWeights that have copies
	Narrowed []*device.Array         // these and other copies, on several devices
	packed   map[*Weights]*net.Parts // results of decodingWeights
}

// New returns a generator without conversations.
func New(x *Text, s Settings, w []*Weights) *Generator {
	return &Generator{Text: x, Settings: s, Weights: w, Chats: map[uint64]*Conversation{}}
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
	return g.Weights[tree.Device(leaf, len(g.Weights), g.Leaves)]
}
