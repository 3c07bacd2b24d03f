package vlm

import (
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
)

// settings are those of generation.
type settings struct {
	MaxRows       int  // of a batch
	CacheTokens   int  // for which a cache has room at first
	TokensPerCall int  // that a program makes; 0 chooses
	leaves        int  // parts into which work is divided; 0 if it is not
	sharded       bool // weights are divided over the devices
}

// weightsOn are a policy's weights for the programs on a device.
type weightsOn struct {
	net   *net.Net
	parts *net.Parts
}

// generator generates responses in conversations, whose caches it keeps. Its methods must not be called at the
// same time.
type generator struct {
	*text
	settings
	weights []*weightsOn // one for each device

	chats    map[uint64]*conversation
	resumed  map[uint64]*resumed // recorded conversations, until they are continued
	batches  []*session
	narrow   map[*weightsOn]*net.Parts // results of generationWeights that have copies
	narrowed []*device.Array           // the copies, on several devices
}

func newGenerator(x *text, s settings, w []*weightsOn) *generator {
	return &generator{text: x, settings: s, weights: w, chats: map[uint64]*conversation{}}
}

// dev is the first device.
func (g *generator) dev() *device.Device { return g.weights[0].net.Dev }

// of returns the weights on the device of a leaf.
func (g *generator) of(leaf int) *weightsOn {
	if g.leaves == 0 {
		return g.weights[0]
	}
	return g.weights[tree.Device(leaf, len(g.weights), g.leaves)]
}
