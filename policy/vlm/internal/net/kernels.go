package net

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Kernels holds the programs of one architecture. Weights are inputs, so actor, critic and
// reference share them, and compile time does not grow with the depth: there is one
// executable per kind of block and shape.
type Kernels struct {
	Dev     *device.Device
	Cfg     *model.Config
	Compute dtypes.DType
	Keep    KeepMode
	Share   bool // rows of a pack may have a prefix in common

	Layers []model.Layer      // of the decoder
	Cache  []model.CacheArray // of all layers
	Vision model.Layer
	groups *model.Groups // of the architecture; nets differ in their heads

	*programTable
}

// programTable holds the programs by name, which all devices share.
type programTable struct {
	mu       sync.Mutex
	Programs map[string]*device.Program
	ready    map[string]bool // kinds of steps that have been prepared

	Fetching atomic.Int64 // nanoseconds of copying weights from other devices
}

// KeepMode selects the activations of a block that are kept for its backward pass.
type KeepMode uint8

const (
	KeepAll    KeepMode = iota // everything, including attention probabilities
	KeepMost                   // all but the attention probabilities
	KeepInputs                 // only the block's input; the block is recomputed
)

// NewKernels returns the kernels of an architecture. Layers that keep a state read the rows of a pack one by one, so
// these cannot share prefixes.
func NewKernels(d *device.Device, cfg *model.Config, compute dtypes.DType, keep KeepMode, share bool) *Kernels {
	k := &Kernels{Dev: d, Cfg: cfg, Compute: compute, Keep: keep, groups: cfg.Groups(),
		programTable: &programTable{Programs: map[string]*device.Program{}, ready: map[string]bool{}}}
	k.Layers = cfg.Layers(compute)
	for _, l := range k.Layers {
		k.Cache = append(k.Cache, l.Cache()...)
	}
	k.Share = share && !slices.ContainsFunc(k.Cache, func(a model.CacheArray) bool { return !a.Slots })
	if cfg.Vision != nil {
		k.Vision = cfg.VisionBlock(compute)
	}
	return k
}

// on returns the kernels for arrays on another device.
func (k *Kernels) on(d *device.Device) *Kernels {
	c := *k
	c.Dev = d
	return &c
}

// Program returns the program of a name, declared on first use.
func (k *Kernels) Program(name string, build device.Builder) *device.Program {
	return k.Fused(name, func(in []*Node) ([]*Node, []device.Kernel) { return build(in), nil })
}

// Fused is program for a graph with kernels.
func (k *Kernels) Fused(name string, build device.FusedBuilder) *device.Program {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.Programs[name]
	if !ok {
		p = k.Dev.Fused(name, build)
		k.Programs[name] = p
	}
	return p
}

// Args reads a program's inputs in order.
type Args struct{ In []*Node }

func (a *Args) One() *Node {
	x := a.In[0]
	a.In = a.In[1:]
	return x
}

func (a *Args) Next(n int) []*Node {
	x := a.In[:n]
	a.In = a.In[n:]
	return x
}

func (a *Args) rest() []*Node { return a.Next(len(a.In)) }

// accumulate adds new gradients to acc if there is one.
func accumulate(grads, acc []*Node) []*Node {
	for i := range acc {
		grads[i] = Add(acc[i], grads[i])
	}
	return grads
}

// Embed: table, tokens [n], pos [n,3], then images and imageRow [n] when there
// are images → x [n, hidden], cos, sin.
func (k *Kernels) Embed() *device.Program {
	return k.Program("embed", func(in []*Node) []*Node {
		a := Args{in}
		table, tokens, pos := a.One(), a.One(), a.One()
		var images, row *Node
		if len(a.In) > 0 {
			images, row = a.One(), a.One()
		}
		cos, sin := k.Cfg.Text.Angles(pos)
		return []*Node{model.EmbedForward(table, tokens, images, row, k.Compute), cos, sin}
	})
}

// embedBack: table, tokens, dx, [imageRow, slot], [acc] → [dTable], [dImages]:
// the table's gradient where it is trained, that of the images where there are any.
func (k *Kernels) embedBack(images, trained, acc bool) *device.Program {
	return k.Program(fmt.Sprintf("embed back images=%v trained=%v acc=%v", images, trained, acc),
		func(in []*Node) []*Node {
			a := Args{in}
			table, tokens, dx := a.One(), a.One(), a.One()
			var row, slot, sum *Node
			if images {
				row, slot = a.One(), a.One()
			}
			if acc {
				sum = a.One()
			}
			dTable, dImages := model.EmbedBackward(table, tokens, row, slot, dx, sum)
			var out []*Node
			if trained {
				out = append(out, dTable)
			}
			if images {
				out = append(out, dImages)
			}
			return out
		})
}

// rowLayout is the layout of packs. use collects the kernels of a layer; kept and again are Layout's.
func (k *Kernels) rowLayout(segment *Node, use *model.StepKernels, kept, again bool) *model.Layout {
	d := segment.Shape().Dimensions
	return &model.Layout{Groups: d[0], Length: d[1], Segment: segment, Prefixes: k.Share,
		Use: use, Kept: kept, Again: again}
}

// LayerProgram declares a program of a layer, with kernels where there are some.
func (k *Kernels) LayerProgram(name string, build func(in []*Node, use *model.StepKernels) []*Node) *device.Program {
	if k.Dev.PureGo() || k.Dev.Accelerator() {
		return k.Program(name, func(in []*Node) []*Node { return build(in, nil) })
	}
	return k.Fused(name, func(in []*Node) ([]*Node, []device.Kernel) {
		var use model.StepKernels
		out := build(in, &use)
		return out, use
	})
}

// First returns the first layer of the type of layer i, whose programs all layers of the type share.
func (k *Kernels) First(i int) int { return slices.Index(k.Layers, k.Layers[i]) }

// kept returns the additional outputs of a training forward pass. The block's input is not
// among them, because the caller has it.
func (k *Kernels) kept(kept model.Kept) []*Node {
	switch k.Keep {
	case KeepInputs:
		return nil
	case KeepMost:
		return kept.Main
	default:
		return slices.Concat(kept.Main, kept.Again)
	}
}

// layer: weights, x, cos, sin, segment → y, kept….
func (k *Kernels) layer(i int, train bool) *device.Program {
	l, n := k.Layers[i], len(k.groups.Layers[i].Params)
	name := fmt.Sprintf("layer %d train=%v", k.First(i), train)
	return k.LayerProgram(name, func(in []*Node, use *model.StepKernels) []*Node {
		return k.runForward(l, n, in, train, func(a *Args) *model.Layout {
			return k.rowLayout(a.One(), use, train && k.Keep != KeepInputs, train && k.Keep == KeepAll)
		})
	})
}

// runForward is the graph of a layer's forward pass: n weights, x, cos, sin, layout → y, kept….
func (k *Kernels) runForward(l model.Layer, n int, in []*Node, train bool, layout func(*Args) *model.Layout) []*Node {
	a := Args{in}
	w, x, cos, sin := a.Next(n), a.One(), a.One(), a.One()
	y, kept := l.Forward(w, x, cos, sin, layout(&a))
	if !train {
		return []*Node{y}
	}
	return append([]*Node{y}, k.kept(kept)...)
}

// layerBack: weights, dy, cos, sin, segment, x and kept…, [acc …] → dx, grads….
// The gradients are those of the trained weights of group. acc is set if there are sums to add them to.
func (k *Kernels) layerBack(i int, group *model.Group, acc bool) *device.Program {
	l := k.Layers[i]
	name := fmt.Sprintf("layer %d back acc=%v%s", k.First(i), acc, frozenKey(group))
	return k.LayerProgram(name, func(in []*Node, use *model.StepKernels) []*Node {
		return k.runBackward(l, group, in, acc, func(a *Args) *model.Layout {
			return k.rowLayout(a.One(), use, true, true)
		})
	})
}

// runBackward is the graph of a layer's backward pass: weights, dy, cos, sin, layout, x and kept…, [acc …] → dx, grads….
func (k *Kernels) runBackward(
	l model.Layer, group *model.Group, in []*Node, acc bool, layout func(*Args) *model.Layout,
) []*Node {
	a := Args{in}
	w, dy, cos, sin := a.Next(len(group.Params)), a.One(), a.One(), a.One()
	at, x := layout(&a), a.One()
	sums := 0
	if acc {
		sums = len(group.Trained())
	}
	kept := a.Next(len(a.In) - sums)
	if k.Keep == KeepInputs {
		_, again := l.Forward(w, x, cos, sin, at)
		kept = slices.Concat(again.Main, again.Again)
	}
	dx, grads := l.Backward(w, x, kept, cos, sin, at, dy)
	return append([]*Node{dx}, accumulate(trainedNodes(grads, group), a.rest())...)
}

// Score: head weights, x, at [c], target (see Head.Forward), temperature [1] → the scores that the head has,
// and with train what headBack reads besides.
func (k *Kernels) Score(h *model.Head, train bool) *device.Program {
	return k.Fused(fmt.Sprintf("score %+v train=%v", *h, train), func(in []*Node) ([]*Node, []device.Kernel) {
		a := Args{in}
		w := h.Weights(a.Next(headParams(h)))
		o := h.Forward(w, a.One(), a.One(), a.One(), Reshape(a.One()))
		out := o.Scores()
		if train && h.Tokens {
			return append(out, o.Logits, o.LogSum), nil
		}
		return out, o.Kernels
	})
}

func headParams(h *model.Head) int {
	n := 1
	if h.Tokens {
		n++
	}
	if h.Value {
		n += 2
	}
	return n
}

// HeadBack: head weights, x, at [c], slot [n], target, temperature [1], slopes [c, SlopeColumns+Chosen], dx [n, hidden],
// what score keeps (see KeptOf), [acc …] → dx, grads of the slots….
func (k *Kernels) HeadBack(h *model.Head, slots []headSlot) *device.Program {
	trained := make([]int, len(slots))
	for i, s := range slots {
		trained[i] = s.param
	}
	return k.Program(fmt.Sprintf("head back %+v %v", *h, trained), func(in []*Node) []*Node {
		a := Args{in}
		w := h.Weights(a.Next(headParams(h)))
		x, at, slot, target, temperature, slopes, dx := a.One(), a.One(), a.One(), a.One(), Reshape(a.One()), a.One(), a.One()
		var kept []*Node
		if h.Tokens {
			kept = a.Next(3)
		}
		dx, all := h.Backward(w, x, at, slot, target, temperature, slopes, dx, kept)
		grads := make([]*Node, len(trained))
		for i, param := range trained {
			grads[i] = all[param]
		}
		return append([]*Node{dx}, accumulate(grads, a.rest())...)
	})
}

// Squares: grads… → sums of squares.
func (k *Kernels) Squares() *device.Program {
	return k.Program("squares", func(in []*Node) []*Node { return []*Node{model.SquareSums(in)} })
}

// Adam: n weights, n first moments, n second moments, n gradients, numbers → n
// weights, n first moments, n second moments.
func (k *Kernels) Adam() *device.Program {
	return k.Program("adam", func(in []*Node) []*Node {
		n := len(in) / 4
		opt := in[len(in)-1]
		out := make([]*Node, 3*n)
		for i := range n {
			out[i], out[n+i], out[2*n+i] = model.AdamW(in[i], in[n+i], in[2*n+i], in[3*n+i], opt)
		}
		return out
	})
}

// ZeroLike: x → zeros of its shape in float32.
func (k *Kernels) ZeroLike() *device.Program {
	return k.Program("zero", func(in []*Node) []*Node { return []*Node{ZerosLike(ConvertDType(in[0], dtypes.Float32))} })
}

// AddRows: x, y, row → x with y[row[i]] added to x[i] where row[i] ≥ 0 (deepstack).
func (k *Kernels) AddRows() *device.Program {
	return k.Program("add rows", func(in []*Node) []*Node {
		return []*Node{model.AddRows(in[0], in[1], in[2])}
	})
}

// TakeRows: x [n, hidden], slot [m] → rows of x, zeros where slot is n.
func (k *Kernels) TakeRows() *device.Program {
	return k.Program("take rows", func(in []*Node) []*Node { return []*Node{model.TakeRows(in[0], in[1])} })
}

// AddLists: n arrays, n arrays → n sums.
func (k *Kernels) AddLists() *device.Program {
	return k.Program("add lists", func(in []*Node) []*Node {
		n := len(in) / 2
		out := make([]*Node, n)
		for i := range out {
			out[i] = Add(in[i], ConvertDType(in[n+i], in[i].DType()))
		}
		return out
	})
}

// MergeAdapters: weights of a layer of the decoder (−1: of a vision block), followed by its adapters → its first n
// weights with the adapters merged in.
func (k *Kernels) MergeAdapters(layer, n int) *device.Program {
	block, name := k.Vision, "merge vision adapters"
	if layer >= 0 {
		block, name = k.Layers[layer], fmt.Sprintf("merge adapters %d", k.First(layer))
	}
	return k.Program(name, func(in []*Node) []*Node { return block.Merge(in)[:n] })
}
