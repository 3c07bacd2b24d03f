package vlm

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

// kernels holds the programs of one architecture. Weights are inputs, so actor, critic and
// reference share them, and compile time does not grow with the depth: there is one
// executable per kind of block and shape.
type kernels struct {
	dev     *device.Device
	cfg     *model.Config
	compute dtypes.DType
	keep    keepMode

	layers []model.Layer      // of the decoder
	cache  []model.CacheArray // of all layers
	vision model.Layer
	groups *model.Groups // of the architecture; nets differ in their heads

	*programTable
}

// programTable holds the programs by name, which all devices share.
type programTable struct {
	mu       sync.Mutex
	programs map[string]*device.Program
	ready    map[string]bool // kinds of steps that have been prepared

	fetching atomic.Int64 // nanoseconds of copying weights from other devices
}

// keepMode selects the activations of a block that are kept for its backward pass.
type keepMode uint8

const (
	keepAll    keepMode = iota // everything, including attention probabilities
	keepMost                   // all but the attention probabilities
	keepInputs                 // only the block's input; the block is recomputed
)

func newKernels(d *device.Device, cfg *model.Config, compute dtypes.DType, keep keepMode) *kernels {
	k := &kernels{dev: d, cfg: cfg, compute: compute, keep: keep, groups: cfg.Groups(),
		programTable: &programTable{programs: map[string]*device.Program{}, ready: map[string]bool{}}}
	k.layers = cfg.Layers(compute)
	for _, l := range k.layers {
		k.cache = append(k.cache, l.Cache()...)
	}
	if cfg.Vision != nil {
		k.vision = cfg.VisionLayer(compute)
	}
	return k
}

// on returns the kernels for arrays on another device.
func (k *kernels) on(d *device.Device) *kernels {
	c := *k
	c.dev = d
	return &c
}

// program returns the program of a name, declared on first use.
func (k *kernels) program(name string, build device.Builder) *device.Program {
	return k.fused(name, func(in []*Node) ([]*Node, []device.Kernel) { return build(in), nil })
}

// fused is program for a graph with kernels.
func (k *kernels) fused(name string, build device.FusedBuilder) *device.Program {
	return k.declared(name, func() *device.Program { return k.dev.Fused(name, build) })
}

// looped is fused for a graph with a loop.
func (k *kernels) looped(name string, build device.LoopBuilder) *device.Program {
	return k.declared(name, func() *device.Program { return k.dev.Loop(name, build) })
}

func (k *kernels) declared(name string, declare func() *device.Program) *device.Program {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.programs[name]
	if !ok {
		p = declare()
		k.programs[name] = p
	}
	return p
}

// args reads a program's inputs in order.
type args struct{ in []*Node }

func (a *args) one() *Node {
	x := a.in[0]
	a.in = a.in[1:]
	return x
}

func (a *args) next(n int) []*Node {
	x := a.in[:n]
	a.in = a.in[n:]
	return x
}

func (a *args) rest() []*Node { return a.next(len(a.in)) }

// accumulate adds new gradients to acc if there is one.
func accumulate(grads, acc []*Node) []*Node {
	for i := range acc {
		grads[i] = Add(acc[i], grads[i])
	}
	return grads
}

// embed: table, tokens [n], pos [n,3], then images and imageRow [n] when there
// are images → x [n, hidden], cos, sin.
func (k *kernels) embed() *device.Program {
	return k.program("embed", func(in []*Node) []*Node {
		a := args{in}
		table, tokens, pos := a.one(), a.one(), a.one()
		var images, row *Node
		if len(a.in) > 0 {
			images, row = a.one(), a.one()
		}
		cos, sin := k.cfg.Text.Angles(pos)
		return []*Node{model.EmbedForward(table, tokens, images, row, k.compute), cos, sin}
	})
}

// embedBack: table, tokens, dx, [imageRow, slot], [acc] → [dTable], [dImages]:
// the table's gradient where it is trained, that of the images where there are any.
func (k *kernels) embedBack(images, trained, acc bool) *device.Program {
	return k.program(fmt.Sprintf("embed back images=%v trained=%v acc=%v", images, trained, acc), func(in []*Node) []*Node {
		a := args{in}
		table, tokens, dx := a.one(), a.one(), a.one()
		var row, slot, sum *Node
		if images {
			row, slot = a.one(), a.one()
		}
		if acc {
			sum = a.one()
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

func rowLayout(segment *Node) *model.Layout {
	d := segment.Shape().Dimensions
	return &model.Layout{Groups: d[0], Length: d[1], Segment: segment}
}

// first returns the first layer of the type of layer i, whose programs all layers of the type share.
func (k *kernels) first(i int) int { return slices.Index(k.layers, k.layers[i]) }

// kept returns the additional outputs of a training forward pass. The block's input is not
// among them, because the caller has it.
func (k *kernels) kept(kept model.Kept) []*Node {
	switch k.keep {
	case keepInputs:
		return nil
	case keepMost:
		return kept.Main
	default:
		return slices.Concat(kept.Main, kept.Again)
	}
}

// layer: weights, x, cos, sin, segment → y, kept….
func (k *kernels) layer(i int, train bool) *device.Program {
	l, n := k.layers[i], len(k.groups.Layers[i].Params)
	return k.program(fmt.Sprintf("layer %d train=%v", k.first(i), train), func(in []*Node) []*Node {
		return k.runForward(l, n, in, train, func(a *args) *model.Layout { return rowLayout(a.one()) })
	})
}

// runForward is the graph of a layer's forward pass: n weights, x, cos, sin, layout → y, kept….
func (k *kernels) runForward(l model.Layer, n int, in []*Node, train bool, layout func(*args) *model.Layout) []*Node {
	a := args{in}
	w, x, cos, sin := a.next(n), a.one(), a.one(), a.one()
	y, kept := l.Forward(w, x, cos, sin, layout(&a))
	if !train {
		return []*Node{y}
	}
	return append([]*Node{y}, k.kept(kept)...)
}

// layerBack: weights, dy, cos, sin, segment, x and kept…, [acc …] → dx, grads….
// The gradients are those of the trained weights of group. acc is set if there are sums to add them to.
func (k *kernels) layerBack(i int, group *model.Group, acc bool) *device.Program {
	l := k.layers[i]
	return k.program(fmt.Sprintf("layer %d back acc=%v%s", k.first(i), acc, frozenKey(group)), func(in []*Node) []*Node {
		return k.runBackward(l, group, in, acc, func(a *args) *model.Layout { return rowLayout(a.one()) })
	})
}

// runBackward is the graph of a layer's backward pass: weights, dy, cos, sin, layout, x and kept…, [acc …] → dx, grads….
func (k *kernels) runBackward(l model.Layer, group *model.Group, in []*Node, acc bool, layout func(*args) *model.Layout) []*Node {
	a := args{in}
	w, dy, cos, sin := a.next(len(group.Params)), a.one(), a.one(), a.one()
	at, x := layout(&a), a.one()
	sums := 0
	if acc {
		sums = len(group.Trained())
	}
	kept := a.next(len(a.in) - sums)
	if k.keep == keepInputs {
		_, again := l.Forward(w, x, cos, sin, at)
		kept = slices.Concat(again.Main, again.Again)
	}
	dx, grads := l.Backward(w, x, kept, cos, sin, at, dy)
	return append([]*Node{dx}, accumulate(trainedNodes(grads, group), a.rest())...)
}

// score: head weights, x, at [c], target [c], temperature [1] → log-probs, entropies, values (those that the head
// has), and with train what headBack reads besides.
func (k *kernels) score(h *model.Head, train bool) *device.Program {
	return k.program(fmt.Sprintf("score %+v train=%v", *h, train), func(in []*Node) []*Node {
		a := args{in}
		w := h.Weights(a.next(headParams(h)))
		o := h.Forward(w, a.one(), a.one(), a.one(), Reshape(a.one()))
		out := o.Scores()
		if train && h.Tokens {
			out = append(out, o.Logits, o.LogSum)
		}
		return out
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

// headBack: head weights, x, at [c], slot [n], target [c], temperature [1], slopes [c, SlopeColumns], dx [n, hidden],
// what score keeps (see keptOf), [acc …] → dx, grads of the slots….
func (k *kernels) headBack(h *model.Head, slots []headSlot) *device.Program {
	trained := make([]int, len(slots))
	for i, s := range slots {
		trained[i] = s.param
	}
	return k.program(fmt.Sprintf("head back %+v %v", *h, trained), func(in []*Node) []*Node {
		a := args{in}
		w := h.Weights(a.next(headParams(h)))
		x, at, slot, target, temperature, slopes, dx := a.one(), a.one(), a.one(), a.one(), Reshape(a.one()), a.one(), a.one()
		var kept []*Node
		if h.Tokens {
			kept = a.next(3)
		}
		dx, all := h.Backward(w, x, at, slot, target, temperature, slopes, dx, kept)
		grads := make([]*Node, len(trained))
		for i, param := range trained {
			grads[i] = all[param]
		}
		return append([]*Node{dx}, accumulate(grads, a.rest())...)
	})
}

// squares: grads… → sums of squares.
func (k *kernels) squares() *device.Program {
	return k.program("squares", func(in []*Node) []*Node { return []*Node{model.SquareSums(in)} })
}

// adam: n weights, n first moments, n second moments, n gradients, numbers → n
// weights, n first moments, n second moments.
func (k *kernels) adam() *device.Program {
	return k.program("adam", func(in []*Node) []*Node {
		n := len(in) / 4
		opt := in[len(in)-1]
		out := make([]*Node, 3*n)
		for i := range n {
			out[i], out[n+i], out[2*n+i] = model.AdamW(in[i], in[n+i], in[2*n+i], in[3*n+i], opt)
		}
		return out
	})
}

// zeroLike: x → zeros of its shape in float32.
func (k *kernels) zeroLike() *device.Program {
	return k.program("zero", func(in []*Node) []*Node { return []*Node{ZerosLike(ConvertDType(in[0], dtypes.Float32))} })
}

// addRows: x, y, row → x with y[row[i]] added to x[i] where row[i] ≥ 0 (deepstack).
func (k *kernels) addRows() *device.Program {
	return k.program("add rows", func(in []*Node) []*Node {
		return []*Node{model.AddRows(in[0], in[1], in[2])}
	})
}

// takeRows: x [n, hidden], slot [m] → rows of x, zeros where slot is n.
func (k *kernels) takeRows() *device.Program {
	return k.program("take rows", func(in []*Node) []*Node { return []*Node{model.TakeRows(in[0], in[1])} })
}

// addLists: n arrays, n arrays → n sums.
func (k *kernels) addLists() *device.Program {
	return k.program("add lists", func(in []*Node) []*Node {
		n := len(in) / 2
		out := make([]*Node, n)
		for i := range out {
			out[i] = Add(in[i], in[n+i])
		}
		return out
	})
}

// addPair: x, y → x + y.
func (k *kernels) addPair() *device.Program {
	return k.program("add", func(in []*Node) []*Node { return []*Node{Add(in[0], ConvertDType(in[1], in[0].DType()))} })
}
