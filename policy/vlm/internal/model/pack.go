package model

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
)

// PackMatrix returns a matrix [out, in] in bfloat16 or int8, in the layout that kernels read: panels of fused.Panel
// outputs, of which the last one is filled up with zeros. In bfloat16 it is [panels, in, 64]. In int8 every output
// has a scale, its largest magnitude / 127, and numbers are multiples of it, to the nearest: [panels, in + 4, 64],
// where the last four rows of bytes are a panel's scales in float32, and the others [in/4, 64, 4]. There in has to be
// a multiple of 4.
func PackMatrix(w *Node, to dtypes.DType) *Node {
	w = f32(w)
	out, in := dim(w, 0), dim(w, 1)
	panels := (out + fused.Panel - 1) / fused.Panel
	if missing := panels*fused.Panel - out; missing > 0 {
		w = Concatenate([]*Node{w, Zeros(w.Graph(), shape(dtypes.Float32, missing, in))}, 0)
	}
	if to == dtypes.BFloat16 {
		return cast(TransposeAllDims(Reshape(w, panels, fused.Panel, in), 0, 2, 1), to)
	}
	scale := DivScalar(ReduceAndKeep(Abs(w), ReduceMax, -1), 127)
	zero := Equal(scale, ZerosLike(scale))
	q := Round(Div(w, Where(zero, OnesLike(scale), scale)))
	q = TransposeAllDims(Reshape(q, panels, fused.Panel, in/fused.Quad, fused.Quad), 0, 2, 1, 3)
	q = ConvertDType(Reshape(q, panels, in, fused.Panel), to)
	scales := Reshape(Bitcast(Reshape(scale, panels, fused.Panel), to), panels, fused.Scales, fused.Panel)
	return Concatenate([]*Node{q, scales}, 1)
}

// Unpack returns the matrix with so many outputs that a packed one stands for, in float32. Kernels that read the
// matrix read the packed one instead.
func (s *StepKernels) Unpack(w *Node, out int) *Node {
	panels, in := dim(w, 0), dim(w, 1)
	var m *Node
	if w.DType() == dtypes.Int8 {
		in -= fused.Scales
		m = Reshape(f32(Slice(w, AxisRange(), AxisRange(0, in))), panels, in/fused.Quad, fused.Panel, fused.Quad)
		scales := Reshape(Slice(w, AxisRange(), AxisRange(in)), panels, fused.Panel, fused.Scales)
		m = Mul(m, Reshape(Bitcast(scales, dtypes.Float32), panels, 1, fused.Panel, 1))
		m = TransposeAllDims(m, 0, 2, 1, 3)
	} else {
		m = TransposeAllDims(f32(w), 0, 2, 1)
	}
	m = Slice(Reshape(m, panels*fused.Panel, in), AxisRange(0, out))
	*s = append(*s, device.Kernel{Name: fused.Unpack, In: []*Node{w}, Out: []*Node{m}})
	return m
}

// unpacked reports whether Unpack made a weight.
func (s StepKernels) unpacked(w *Node) bool {
	for _, k := range s {
		if k.Name == fused.Unpack && k.Out[0] == w {
			return true
		}
	}
	return false
}
