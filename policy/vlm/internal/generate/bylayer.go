package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Where the cache has states, its layers are of several types and too large as graphs to be compiled once each in the
// program of a whole model. A program of one layer takes their place, which all layers of its type share, so that
// compile time does not depend on the depth.
func (n Programs) byLayer() bool { return len(n.states()) > 0 }

// appendsByLayer reports whether contexts are read layer by layer: also where launching a program takes little of the
// time. Then each number of pictures needs another embedding only, and the cache is extended in place. Decoding steps
// of a small model would take a tenth longer.
func (n Programs) appendsByLayer() bool { return n.byLayer() || !n.Dev.Accelerator() }

// AppendsInPlace reports whether the cache has no second copy while contexts are read.
func AppendsInPlace(n *net.Net) bool { return Programs{Net: n}.appendsByLayer() && !n.Dev.PureGo() }

// only returns the programs of a model with one of the layers.
func (n Programs) only(i int) Programs {
	one, k := *n.Net, *n.Kernels
	k.Layers, k.Cache = n.Layers[i:i+1], n.Layers[i].Cache()
	one.Kernels = &k
	return Programs{&one, n.Packed}
}

// endsAt reports whether a layer's outputs are read for the last token of a row alone: those of the last layer, unless
// features of pictures are added to them.
func (n Programs) endsAt(layer int) bool {
	return layer == len(n.Layers)-1 && (n.Cfg.Vision == nil || layer >= len(n.Cfg.Vision.Deepstack))
}

// appendLayer: a layer's weights, x, cos, sin, fresh, ends if it reads them, then, unless open, its arrays of the cache
// and what follows them in the inputs of appendTokens → x, the layer's arrays of the prefix.
func (n Programs) appendLayer(i int, open bool, slots int) *device.Program {
	name := fmt.Sprintf("append layer %d open=%v slots=%d", n.First(i), open, slots)
	if n.endsAt(i) {
		name += " ends"
	}
	return n.LayerProgram(name, func(in []*Node, use *model.StepKernels) []*Node {
		a, one := net.Args{In: in}, n.only(i)
		w, x, cos, sin, fresh := a.Next(len(n.Groups.Layers[i].Params)), a.One(), a.One(), a.One(), a.One()
		var ends *Node
		if n.endsAt(i) {
			ends = a.One()
		}
		cache := newCacheIn(one, &a, open, x.Graph(), fresh.Shape().Dimensions[0])
		y, after := one.Layers[0].Append(w, x, cos, sin, cache.past(0), fresh, ends, use)
		return append([]*Node{y}, cache.extend(0, after, slots)...)
	})
}

// stepLayer: a layer's weights, x, cos, sin, now, its arrays of the cache, allow, recentAllow → x, the layer's
// recent segments and states.
func (n Programs) stepLayer(i int) *device.Program {
	return n.Fused(n.stepName(fmt.Sprintf("step layer %d", n.First(i))), func(in []*Node) ([]*Node, []device.Kernel) {
		n := n.merged()
		a, one := net.Args{In: in}, n.only(i)
		w, x, cos, sin := a.Next(len(n.Groups.Layers[i].Params)), a.One(), a.One(), a.One()
		p := &stepIn{net: one, now: a.One()}
		p.readCache(&a)
		past := p.cache.past(0)
		past.Live = p.live()
		var kernels model.StepKernels
		w = unpack(w, n.Groups.Layers[i].Params, &kernels)
		y, after := one.Layers[0].Step(w, x, cos, sin, past, &kernels)
		return append([]*Node{y}, after...), kernels
	})
}

// stepEmbed: table, now → x, cos, sin.
func (n Programs) stepEmbed() *device.Program {
	return n.Program("step embed", func(in []*Node) []*Node {
		p := &stepIn{net: n, now: in[1]}
		cos, sin := n.Cfg.Text.Angles(p.positions())
		return []*Node{model.EmbedForward(in[0], p.column(nowToken), nil, nil, n.Compute), cos, sin}
	})
}

// sampleAt: the head's weights, x, reads, sampling inputs → id, log-prob. In a decoding step, where the rows of x are
// those of the batch, now takes the place of reads and of the number of tokens.
func (n Programs) sampleAt(s model.Sampler, step bool) *device.Program {
	name, tied := fmt.Sprintf("sample step=%v %+v", step, s), n.Spec.Tied
	if step {
		name, tied = n.stepName(name), n.tied()
	}
	return n.Fused(name, func(in []*Node) ([]*Node, []device.Kernel) {
		a := net.Args{In: in}
		var kernels model.StepKernels
		w := n.unpackHead(n.headWeights(&a, a.One(), tied), &kernels)
		x, at, seeds := a.One(), a.One(), a.One()
		var forced, count *Node
		if step {
			p := &stepIn{net: n, now: at}
			forced, count = p.column(nowForced), ConvertDType(p.column(nowCount), dtypes.Uint32)
		} else {
			x, count = model.TakeRows(x, at), a.One()
		}
		id, logProb := n.sampleTokens(w, x, s, seeds, count, a.One(), forced, &kernels)
		return []*Node{id, logProb}, kernels
	})
}

// arraysOf returns a layer's arrays of the prefix and the recent segments, and where they are in these.
func (s *Session) arraysOf(layer int) (arrays []*device.Array, at []**device.Array) {
	from, to := s.Net.arraysOf(layer)
	recent := 0
	for _, x := range s.Net.Cache[:from] {
		if x.Slots {
			recent++
		}
	}
	arrays = slices.Clone(s.prefix[from:to])
	for i, x := range s.Net.Cache[from:to] {
		if !x.Slots {
			at = append(at, &s.prefix[from+i])
			continue
		}
		arrays, at = append(arrays, s.recent[recent]), append(at, &s.recent[recent])
		recent++
	}
	return arrays, at
}

// appendByLayer is appendTokens layer by layer: in are its inputs after the weights. It consumes the prefix.
func (f *DecodeBatch) appendByLayer(own *net.Scope, in []*device.Array, open, images bool) ([]*device.Array, error) {
	n, w := f.Net, f.scheduler.w
	embed, fresh, ends, sampling := in[:2], in[2], in[3], in[4:8]
	var imageRow *device.Array
	var deep []*device.Array
	if images {
		imageRow, deep = in[9], in[10:10+len(n.Cfg.Vision.Deepstack)]
		embed = append(slices.Clone(embed), in[8], imageRow)
	}
	out, err := n.Embed().Run(append(slices.Clone(w.Embed), embed...))
	if err != nil {
		return nil, err
	}
	own.Own(out...)
	x, angles := out[0], out[1:]
	if x.Bytes() >= 1<<20 { // what layers need for less stays in the heap anyway
		defer n.Dev.Reuse()()
	}
	cache := &net.Scope{}
	defer cache.Free()
	for i, weights := range w.Layers {
		all := append(slices.Clone(weights), x, angles[0], angles[1], fresh)
		if n.endsAt(i) {
			all = append(all, ends)
		}
		var donate []int // the layer's prefix, so that there is no second one
		if !open {
			mine, _ := f.arraysOf(i)
			for k := range n.Layers[i].Cache() {
				donate = append(donate, len(all)+k)
			}
			all = append(append(all, mine...), in[len(in)-4:]...)
		}
		out, err := n.appendLayer(i, open, f.Slots).Run(all, donate...)
		if err != nil {
			return nil, err
		}
		x.Free()
		x = own.Own(out[0])[0]
		cache.Own(out[1:]...)
		if i < len(deep) {
			if out, err = n.AddRows().Run([]*device.Array{x, deep[i], imageRow}); err != nil {
				return nil, err
			}
			x = own.Own(out...)[0]
		}
	}
	if !n.endsAt(len(n.Layers) - 1) {
		if out, err = n.TakeRows().Run([]*device.Array{x, ends}); err != nil {
			return nil, err
		}
		x = own.Own(out...)[0]
	}
	out, err = n.sampleAt(f.scheduler.sampler, false).Run(append(append(n.headArrays(w), x), sampling...))
	if err == nil {
		out, cache.Arrays = append(out, cache.Arrays...), nil
	}
	return out, err
}

// stepByLayer is step layer by layer: in are its inputs after the weights. It replaces the cache's arrays.
func (f *DecodeBatch) stepByLayer(own *net.Scope, in []*device.Array, s model.Sampler) ([]*device.Array, error) {
	n, w := f.Net, f.scheduler.decoding
	now, seeds, params, masks := in[0], in[1], in[2], in[len(in)-2:]
	out, err := n.stepEmbed().Run([]*device.Array{w.Embed[0], now})
	if err != nil {
		return nil, err
	}
	own.Own(out...)
	x, angles := out[0], out[1:]
	for i, weights := range w.Layers {
		all := append(slices.Clone(weights), x, angles[0], angles[1], now)
		arrays, at := f.arraysOf(i)
		var donate []int
		for _, a := range at {
			donate = append(donate, len(all)+slices.Index(arrays, *a))
		}
		out, err := n.stepLayer(i).Run(append(append(all, arrays...), masks...), donate...)
		if err != nil {
			return nil, err
		}
		for k, a := range at {
			*a = out[1+k]
		}
		x.Free()
		x = out[0]
		own.Own(x)
	}
	return n.sampleAt(s, true).Run(append(n.headArrays(w), x, now, seeds, params))
}
