package vlm

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// patch: weights, pixels, place, [table index, table weight] → x, cos, sin.
func (k *kernels) patch() *device.Program {
	return k.program("patch", func(in []*Node) []*Node {
		a := args{in}
		w := a.next(len(k.groups.Patch.Params))
		p := patchInput(&a)
		cos, sin := k.cfg.VisionAngles(p.Place)
		return []*Node{k.cfg.PatchForward(w, p, k.compute), cos, sin}
	})
}

// patchBack: weights, pixels, place, [table index, table weight], dx, [acc …] → grads….
func (k *kernels) patchBack(group *model.Group) *device.Program {
	return k.program("patch back"+frozenKey(group), func(in []*Node) []*Node {
		a := args{in}
		w := a.next(len(k.groups.Patch.Params))
		p := model.PatchInput{Pixels: a.one(), Place: a.one()}
		if k.cfg.Vision.Positions > 0 {
			p.TableIndex, p.TableWeight = a.one(), a.one()
		}
		dx := a.one()
		return accumulate(trainedNodes(k.cfg.PatchBackward(w, p, dx), group), a.rest())
	})
}

func patchInput(a *args) model.PatchInput {
	p := model.PatchInput{Pixels: a.one(), Place: a.one()}
	if len(a.in) > 0 {
		p.TableIndex, p.TableWeight = a.one(), a.one()
	}
	return p
}

// visionLayout reads segment [groups, length], and index and inverse when the
// groups differ in length.
func visionLayout(a *args, even bool) *model.Layout {
	segment := a.one()
	d := segment.Shape().Dimensions
	l := &model.Layout{Groups: d[0], Length: d[1]}
	if !even {
		l.Segment = segment
		l.Index, l.Inverse = a.one(), a.one()
	}
	return l
}

// visionBlock: weights, x, cos, sin, layout → y, kept….
func (k *kernels) visionBlock(train, even bool) *device.Program {
	n := len(k.groups.Blocks[0].Params)
	return k.program(fmt.Sprintf("vision block train=%v even=%v", train, even), func(in []*Node) []*Node {
		return k.runForward(k.vision, n, in, train, func(a *args) *model.Layout { return visionLayout(a, even) })
	})
}

// visionBlockBack: weights, dy, cos, sin, layout, x and kept…, [acc …] → dx, grads….
func (k *kernels) visionBlockBack(even bool, group *model.Group, acc bool) *device.Program {
	return k.program(fmt.Sprintf("vision block back even=%v acc=%v%s", even, acc, frozenKey(group)), func(in []*Node) []*Node {
		return k.runBackward(k.vision, group, in, acc, func(a *args) *model.Layout { return visionLayout(a, even) })
	})
}

func (k *kernels) merger(deep bool) *model.Merger {
	if deep {
		return k.cfg.DeepstackMerger()
	}
	return k.cfg.Merger()
}

// merge: weights, x → tokens.
func (k *kernels) merge(deep bool) *device.Program {
	return k.program(fmt.Sprintf("merge deep=%v", deep), func(in []*Node) []*Node {
		return []*Node{k.merger(deep).Forward(in[:len(in)-1], in[len(in)-1])}
	})
}

// mergeBack: weights, x, dy, [acc …] → dx, grads….
func (k *kernels) mergeBack(deep bool, group *model.Group) *device.Program {
	n := len(k.groups.Merger.Params)
	return k.program(fmt.Sprintf("merge back deep=%v%s", deep, frozenKey(group)), func(in []*Node) []*Node {
		a := args{in}
		w, x, dy := a.next(n), a.one(), a.one()
		dx, grads := k.merger(deep).Backward(w, x, dy)
		return append([]*Node{dx}, accumulate(trainedNodes(grads, group), a.rest())...)
	})
}
