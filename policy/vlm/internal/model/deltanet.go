package model

import "github.com/gomlx/compute/dtypes"

// deltaNet is a layer with a gated delta net.
type deltaNet struct {
	Layer  // replaced by qwenmath
	params func(base string) []Param
}

func newDeltaNet(c *Config, _ dtypes.DType) Layer {
	return &deltaNet{params: func(base string) []Param { return c.withAdapters(c.linearParams(base)) }}
}

func (d *deltaNet) Params(base string) []Param { return d.params(base) }
