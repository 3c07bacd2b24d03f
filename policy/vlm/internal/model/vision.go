package model

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// PatchInput is what the vision tower reads, patch by patch. Rows may come in
// any order in which the attention groups are contiguous.
type PatchInput struct {
	Pixels *Node // [patches, channels·patch·patch] uint8, one frame: channel, y, x
	Place  *Node // [patches, 2] int32: row and column in the image's grid of patches
	// Learned positions (Qwen3-VL): four table rows and their weights per patch.
	TableIndex  *Node // [patches, 4] int32
	TableWeight *Node // [patches, 4] float32
}

// pixels converts bytes to normalised floats: (rescale·x − mean) / std per channel.
func (c *Config) pixels(bytes *Node) *Node {
	v := c.Vision
	area := v.Patch * v.Patch
	mean, std := make([]float32, v.PatchDim()), make([]float32, v.PatchDim())
	for i := range mean {
		mean[i], std[i] = float32(c.NormMean[i/area]), float32(c.NormStd[i/area])
	}
	g := bytes.Graph()
	x := MulScalar(ConvertDType(bytes, dtypes.Float32), c.Rescale)
	return Div(Sub(x, Const(g, [][]float32{mean})), Const(g, [][]float32{std}))
}

// frameWeight sums the convolution's weights over its frames, because an image
// is repeated in every frame. The result is [hidden, channels·patch·patch].
func (c *Config) frameWeight(w *Node) *Node {
	v := c.Vision
	area := v.Patch * v.Patch
	sum := ReduceSum(Reshape(w, v.Hidden, v.Channels, v.Temporal, area), 2)
	return Reshape(sum, v.Hidden, v.PatchDim())
}

// PatchForward embeds patches: the result is [patches, hidden].
func (c *Config) PatchForward(weights []*Node, in PatchInput, compute dtypes.DType) *Node {
	var bias *Node
	if len(weights) > 1 {
		bias = weights[1]
	}
	x := linear(cast(c.pixels(in.Pixels), compute), c.frameWeight(weights[0]), bias)
	if in.TableIndex == nil {
		return x
	}
	n, h := rows(x), c.Vision.Hidden
	pos := Reshape(takeRows(weights[2], Reshape(in.TableIndex, 4*n)), n, 4, h)
	pos = ReduceSum(Mul(pos, Reshape(in.TableWeight, n, 4, 1)), 1)
	return Add(x, cast(pos, compute))
}

// PatchBackward returns the gradients of the patch group's parameters.
func (c *Config) PatchBackward(weights []*Node, in PatchInput, dy *Node) []*Node {
	v := c.Vision
	dy = f32(dy)
	dw, db := weightGrads(dy, c.pixels(in.Pixels), len(weights) > 1)
	area := v.Patch * v.Patch
	dw = Reshape(dw, v.Hidden, v.Channels, 1, area)
	dw = BroadcastToDims(dw, v.Hidden, v.Channels, v.Temporal, area)
	grads := []*Node{Reshape(dw, weights[0].Shape().Dimensions...)}
	if len(weights) == 1 {
		return grads
	}
	n := rows(dy)
	d := Mul(Reshape(dy, n, 1, v.Hidden), Reshape(in.TableWeight, n, 4, 1))
	// Not Scatter: it promises XLA that indices are unique, and a GPU then adds only one of several equal ones.
	table := ScatterSum(Zeros(dy.Graph(), weights[2].Shape()), Reshape(in.TableIndex, 4*n, 1), Reshape(d, 4*n, v.Hidden),
		false, false)
	return append(grads, db, table)
}

// VisionAngles returns cos and sin [patches, headDim/2] of the patches' rows
// and columns: half of the frequencies use each.
func (c *Config) VisionAngles(place *Node) (cos, sin *Node) {
	quarter := c.Vision.HeadDim() / 4
	inv := make([]float32, quarter)
	for i := range inv {
		inv[i] = float32(math.Pow(10000, -2*float64(i)/float64(2*quarter)))
	}
	p := ConvertDType(place, dtypes.Float32)
	freq := Const(place.Graph(), [][]float32{inv})
	angle := Concatenate([]*Node{Mul(columns(p, 0, 1), freq), Mul(columns(p, 1, 2), freq)}, 1)
	return Cos(angle), Sin(angle)
}

// Merger turns cells of Merge×Merge patches, whose rows are adjacent, into
// tokens of the decoder's width: norm, then two linear maps with an exact GELU.
type Merger struct {
	Cell      int  // patches per cell
	LayerNorm bool // Qwen3-VL; else RMSNorm
	NormCell  bool // normalise the whole cell instead of each patch (deepstack)
}

// Merger returns the shape of the main merger.
func (c *Config) Merger() *Merger {
	return &Merger{Cell: c.Vision.Merge * c.Vision.Merge, LayerNorm: c.Family.learnedPositions()}
}

// DeepstackMerger returns the shape of the mergers of inner blocks.
func (c *Config) DeepstackMerger() *Merger {
	m := c.Merger()
	m.NormCell = true
	return m
}

func (m *Merger) parts(w []*Node) (norm, normB, fc1, fc1B, fc2, fc2B *Node) {
	if m.LayerNorm {
		return w[0], w[1], w[2], w[3], w[4], w[5]
	}
	return w[0], nil, w[1], w[2], w[3], w[4]
}

func (m *Merger) cells(x *Node) *Node { return Reshape(x, rows(x)/m.Cell, m.Cell*dim(x, 1)) }

func (m *Merger) normed(x, norm, normB *Node) *Node {
	if m.NormCell {
		return m.block().norm(m.cells(x), norm, normB)
	}
	return m.cells(m.block().norm(x, norm, normB))
}

// block has the merger's norm.
func (m *Merger) block() *Block { return &Block{LayerNorm: m.LayerNorm, Eps: visionEps} }

// Forward maps x [patches, hidden] to [patches/cell, out].
func (m *Merger) Forward(weights []*Node, x *Node) *Node {
	norm, normB, fc1, fc1B, fc2, fc2B := m.parts(weights)
	return linear(geluErf(linear(m.normed(x, norm, normB), fc1, fc1B)), fc2, fc2B)
}

// Backward maps the gradient of the result to those of x and the parameters.
func (m *Merger) Backward(weights []*Node, x, dy *Node) (*Node, []*Node) {
	norm, normB, fc1, fc1B, fc2, _ := m.parts(weights)
	dy = cast(dy, x.DType())
	n := m.normed(x, norm, normB)
	u := linear(n, fc1, fc1B)
	d, dfc2, dfc2B := linearBack(dy, geluErf(u), fc2, true)
	d, dfc1, dfc1B := linearBack(Mul(d, geluErfBack(u)), n, fc1, true)
	in := x
	if m.NormCell {
		in = m.cells(x)
	} else {
		d = Reshape(d, x.Shape().Dimensions...)
	}
	dx, dn, dnb := m.block().normBack(d, in, norm)
	grads := []*Node{dn}
	if m.LayerNorm {
		grads = append(grads, dnb)
	}
	return Reshape(dx, x.Shape().Dimensions...), append(grads, dfc1, dfc1B, dfc2, dfc2B)
}
