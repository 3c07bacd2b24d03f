// Package model holds the graphs of the supported transformers: their layout
// in named parameters, and forward and backward passes block by block.
//
// Nothing here runs a graph or touches a device; package vlm does that.
package model

import (
	"math"
	"slices"
)

// Family names an architecture.
type Family string

// The supported architectures, by their model_type in config.json.
const (
	Qwen25VL Family = "qwen2_5_vl"
	Qwen3VL  Family = "qwen3_vl"
	Qwen2    Family = "qwen2"
	Qwen3    Family = "qwen3"
	Llama    Family = "llama"

	Qwen35     Family = "qwen3_5" // also the released Qwen3.6 and Qwen3.8
	Qwen35Text Family = "qwen3_5_text"
)

// Families lists the supported architectures.
func Families() []Family { return []Family{Qwen25VL, Qwen3VL, Qwen35, Qwen2, Qwen3, Qwen35Text, Llama} }

// Config describes one model.
type Config struct {
	Family Family
	Text   Text
	Vision *Vision // nil for text models
	Tied   bool    // the output head is the embedding
	Critic bool    // a value head instead of the output head
	Value  bool    // a value head beside the output head

	LoRA   *LoRA                  // adapters of the blocks; nil without
	Frozen func(name string) bool // selects parameters without gradient by their parts' names; nil for none

	ImageToken, VideoToken int32      // placeholders, -1 without vision
	EndOfTurn              []int32    // any of them ends a response; ParseConfig knows only eos_token_id of config.json
	Rescale                float64    // of the image processor: pixel values are multiplied by this, then normalised
	NormMean, NormStd      [3]float64 // of the image processor, which ParseConfig does not read, like Rescale
	InitRange              float64    // standard deviation of new weights
}

// Placeholders returns the tokens that stand for images and videos in a prompt. A
// response never contains one, as there is no image for it.
func (c *Config) Placeholders() []int32 {
	if c.Vision == nil {
		return nil
	}
	return slices.DeleteFunc([]int32{c.ImageToken, c.VideoToken}, func(id int32) bool { return id < 0 })
}

// Text describes the decoder.
type Text struct {
	Vocab, Hidden, FF, Layers int
	Heads, KVHeads, HeadDim   int
	Eps                       float64
	Theta                     float64
	Sections                  []int // frequencies that use the t, h, w positions; nil without mrope
	Interleaved               bool  // sections alternate instead of being contiguous
	QKVBias, QKNorm           bool
	OutBias, MLPBias          bool
	Scaling                   *RopeScaling
	MaxPositions              int

	Types []string // type of each layer; nil: full_attention

	Rotary  int     // the first features of a head, which rotary positions turn; the others they leave
	Gated   bool    // a gate for each feature of the attention's output, from rows of the query's matrix
	PlusOne bool    // norms scale by 1 + weight
	Linear  *Linear // shape of the layers of type linear_attention; nil without them
}

// RopeScaling is Llama 3's scaling of long wavelengths.
type RopeScaling struct {
	Factor          float64 `json:"factor"`
	LowFreq         float64 `json:"low_freq_factor"`
	HighFreq        float64 `json:"high_freq_factor"`
	OriginalContext int     `json:"original_max_position_embeddings"`
}

// Vision describes the vision tower.
type Vision struct {
	Depth      int   `json:"depth"`
	Hidden     int   `json:"hidden_size"`
	FF         int   `json:"intermediate_size"`
	Heads      int   `json:"num_heads"`
	Patch      int   `json:"patch_size"`
	Merge      int   `json:"spatial_merge_size"`
	Temporal   int   `json:"temporal_patch_size"`
	Channels   int   `json:"in_channels"`
	Window     int   `json:"window_size"`              // side of a window in pixels; 0 without windows
	FullBlocks []int `json:"fullatt_block_indexes"`    // blocks that attend over the whole image
	Positions  int   `json:"num_position_embeddings"`  // size of the learned position table; 0 without
	Deepstack  []int `json:"deepstack_visual_indexes"` // blocks whose output feeds a decoder layer
	Out        int   `json:"out_hidden_size"`          // width of the decoder
}

// HeadDim is the width of one attention head.
func (v *Vision) HeadDim() int { return v.Hidden / v.Heads }

// PatchDim is the number of pixel values of one frame of a patch.
func (v *Vision) PatchDim() int { return v.Channels * v.Patch * v.Patch }

// Full reports whether the block attends over the whole image.
func (v *Vision) Full(block int) bool { return v.Window == 0 || slices.Contains(v.FullBlocks, block) }

// WindowCells is the side of a window in merged patches.
func (v *Vision) WindowCells() int { return max(1, v.Window/v.Merge/v.Patch) }

// InvFreq returns the rotary frequencies of half the turned features, θ^(−2i/Rotary), with
// Llama 3's scaling where the config asks for it.
func (t *Text) InvFreq() []float64 {
	inv := make([]float64, t.Rotary/2)
	for i := range inv {
		inv[i] = math.Pow(t.Theta, -2*float64(i)/float64(t.Rotary))
	}
	s := t.Scaling
	if s == nil {
		return inv
	}
	low := float64(s.OriginalContext) / s.LowFreq
	high := float64(s.OriginalContext) / s.HighFreq
	for i, f := range inv {
		wave := 2 * math.Pi / f
		switch {
		case wave < high: // unchanged
		case wave > low:
			inv[i] = f / s.Factor
		default:
			smooth := (float64(s.OriginalContext)/wave - s.LowFreq) / (s.HighFreq - s.LowFreq)
			inv[i] = (1-smooth)*f/s.Factor + smooth*f
		}
	}
	return inv
}

// Axis returns, for each of the frequencies, the position it uses: 0 for t
// (or the only one), 1 for h, 2 for w.
func (t *Text) Axis() []int {
	axis := make([]int, t.Rotary/2)
	if t.Sections == nil {
		return axis
	}
	if t.Interleaved {
		for i := range axis {
			if k := i % 3; k > 0 && i < 3*t.Sections[k] {
				axis[i] = k
			}
		}
		return axis
	}
	i := 0
	for k, n := range t.Sections {
		for range n {
			if i < len(axis) {
				axis[i] = k
				i++
			}
		}
	}
	return axis
}
