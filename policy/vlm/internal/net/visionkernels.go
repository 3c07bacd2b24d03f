package net

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// patch: weights, pixels, place, [table index, table weight] → x, cos, sin.
func (k *Kernels) patch() *device.Program {
	return k.Program("patch", func(in []*Node) []*Node {
		a := Args{in}
		w := a.Next(len(k.groups.Patch.Params))
		p := k.patchInput(&a)
		cos, sin := k.Cfg.VisionAngles(p.Place)
		return []*Node{k.Cfg.PatchForward(w, p, k.Compute), cos, sin}
	})
}

// patchBack: weights, pixels, place, [table index, table weight], dx, [acc …] → grads….
func (k *Kernels) patchBack(group *model.Group) *device.Program {
	return k.Program("patch back"+frozenKey(group), func(in []*Node) []*Node {
		a := Args{in}
		w := a.Next(len(k.groups.Patch.Params))
		p, dx := k.patchInput(&a), a.One()
		return accumulate(trainedNodes(k.Cfg.PatchBackward(w, p, dx), group), a.rest())
	})
}

func (k *Kernels) patchInput(a *Args) model.PatchInput {
	p := model.PatchInput{Pixels: a.One(), Place: a.One()}
	if k.Cfg.Vision.Positions > 0 {
		p.TableIndex, p.TableWeight = a.One(), a.One()
	}
	return p
}

// visionLayout reads segment [groups, length], and index and inverse when the
// groups differ in length.
func visionLayout(a *Args, even bool) *model.Layout {
	segment := a.One()
	d := segment.Shape().Dimensions
	l := &model.Layout{Groups: d[0], Length: d[1]}
	if !even {
		l.Segment = segment
		l.Index, l.Inverse = a.One(), a.One()
	}
	return l
}

// visionBlock: weights, x, cos, sin, layout → y, kept….
func (k *Kernels) visionBlock(train, even bool) *device.Program {
	n := len(k.groups.Blocks[0].Params)
	name := fmt.Sprintf("vision block train=%v even=%v", train, even)
	return k.LayerProgram(name, func(in []*Node, use *model.StepKernels) []*Node {
		return k.runForward(k.Vision, n, in, train, func(a *Args) *model.Layout {
			l := visionLayout(a, even)
			l.Use, l.Again = use, train && k.Keep == KeepAll
			return l
		})
	})
}

// visionBlockBack: weights, dy, cos, sin, layout, x and kept…, [acc …] → dx, grads….
func (k *Kernels) visionBlockBack(even bool, group *model.Group, acc bool) *device.Program {
	return k.Program(fmt.Sprintf("vision block back even=%v acc=%v%s", even, acc, frozenKey(group)),
		func(in []*Node) []*Node {
			return k.runBackward(k.Vision, group, in, acc, func(a *Args) *model.Layout { return visionLayout(a, even) })
		})
}

func (k *Kernels) merger(deep bool) *model.Merger {
	if deep {
		return k.Cfg.DeepstackMerger()
	}
	return k.Cfg.Merger()
}

// merge: weights, x → tokens.
func (k *Kernels) merge(deep bool) *device.Program {
	return k.Program(fmt.Sprintf("merge deep=%v", deep), func(in []*Node) []*Node {
		return []*Node{k.merger(deep).Forward(in[:len(in)-1], in[len(in)-1])}
	})
}

// mergeBack: weights, x, dy, [acc …] → dx, grads….
func (k *Kernels) mergeBack(deep bool, group *model.Group) *device.Program {
	n := len(k.groups.Merger.Params)
	return k.Program(fmt.Sprintf("merge back deep=%v%s", deep, frozenKey(group)), func(in []*Node) []*Node {
		a := Args{in}
		w, x, dy := a.Next(n), a.One(), a.One()
		dx, grads := k.merger(deep).Backward(w, x, dy)
		return append([]*Node{dx}, accumulate(trainedNodes(grads, group), a.rest())...)
	})
}
