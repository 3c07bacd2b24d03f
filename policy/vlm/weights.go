package vlm

import (
	"fmt"
	"math"
	"runtime/debug"

	"vagen/internal/rng"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// tensors holds one array per parameter of a model, group by group in the order
// of model.Groups.All: weights, gradients or moments.
type tensors struct {
	groups []*model.Group
	arrays [][]*device.Array
	// host has the values of a host copy, which has no arrays; nil for parameters that were
	// not copied.
	host [][][]float32
	// parked are the values of arrays that are in host memory between calls; those arrays are nil
	// then.
	parked [][][]float32
	// shared marks arrays that belong to other tensors; nil where none does.
	shared [][]bool
}

func (t *tensors) free() {
	if t == nil {
		return
	}
	for gi, g := range t.arrays {
		for i, a := range g {
			if !t.shares(gi, i) {
				a.Free()
			}
		}
	}
}

// source fills a parameter's part with float32 values.
type source func(group *model.Group, p model.Param, part model.Part, dst []float32) error

// placement returns the device of a group's parameter.
type placement func(group, i int) *device.Device

// on places all parameters on one device.
func on(d *device.Device) placement { return func(int, int) *device.Device { return d } }

// newTensors uploads every parameter, one at a time, except those whose array is in base,
// by the name of their first part.
func newTensors(place placement, groups []*model.Group, base map[string]*device.Array, from source) (*tensors, error) {
	t := &tensors{groups: groups, shared: make([][]bool, len(groups))}
	var buf []float32
	defer func() {
		if large := cap(buf) > 16<<20; large {
			buf = nil
			debug.FreeOSMemory() // the memory would otherwise be kept for minutes
		}
	}()
	for gi, g := range groups {
		arrays := make([]*device.Array, 0, len(g.Params))
		t.arrays, t.shared[gi] = append(t.arrays, arrays), make([]bool, len(g.Params))
		for i, p := range g.Params {
			if a := base[p.Parts[0].Name]; a != nil {
				t.arrays[gi], t.shared[gi][i] = append(t.arrays[gi], a), true
				continue
			}
			if n := p.Size(); cap(buf) < n {
				buf = make([]float32, n)
			}
			dst := buf[:p.Size()]
			at := 0
			for _, part := range p.Parts {
				if err := from(g, p, part, dst[at:at+part.Size()]); err != nil {
					t.free()
					return nil, err
				}
				at += part.Size()
			}
			a, err := device.Put(place(gi, i), dst, p.Dims...)
			if err != nil {
				t.free()
				return nil, err
			}
			t.arrays[gi] = append(t.arrays[gi], a)
		}
	}
	return t, nil
}

// initSource fills parameters with the initial values of new models: normal matrices, ones for
// norms, zeros for biases. Every part has its own random stream.
func initSource(cfg *model.Config, seed uint64) source {
	return func(_ *model.Group, p model.Param, part model.Part, dst []float32) error {
		switch p.Init {
		case model.InitOne:
			for i := range dst {
				dst[i] = 1
			}
		case model.InitZero:
			clear(dst)
		case model.InitUniform:
			r, bound := rng.New(seed, rng.Init, hashName(part.Name)), 1/math.Sqrt(float64(part.Dims[1]))
			for i := range dst {
				dst[i] = float32((2*r.Float64() - 1) * bound)
			}
		default:
			r := rng.New(seed, rng.Init, hashName(part.Name))
			for i := range dst {
				dst[i] = float32(r.NormFloat64() * cfg.InitRange)
			}
		}
		return nil
	}
}

// hashName is FNV-1a.
func hashName(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// each visits every part of every parameter with its values, in order.
func (t *tensors) each(visit func(part model.Part, values []float32) error) error {
	var buf []float32
	for gi, g := range t.groups {
		for pi, p := range g.Params {
			if cap(buf) < p.Size() {
				buf = make([]float32, p.Size())
			}
			values, err := t.read(gi, pi, buf[:p.Size()])
			if err != nil {
				return err
			}
			if values == nil { // was not copied
				continue
			}
			at := 0
			for _, part := range p.Parts {
				if err := visit(part, values[at:at+part.Size()]); err != nil {
					return err
				}
				at += part.Size()
			}
		}
	}
	return nil
}

// read returns the values of a parameter, in buf unless they are in host memory.
func (t *tensors) read(group, i int, buf []float32) ([]float32, error) {
	if t.host != nil {
		return t.host[group][i], nil
	}
	if t.parked != nil && t.arrays[group][i] == nil {
		return t.parked[group][i], nil
	}
	if err := device.Read(t.arrays[group][i], buf); err != nil {
		return nil, fmt.Errorf("vlm: reading %s: %w", t.groups[group].Params[i].Parts[0].Name, err)
	}
	return buf, nil
}

// part returns the tensors of one group, without adapters.
func (t *tensors) part(group int) *tensors {
	plain := &model.Group{Name: t.groups[group].Name}
	for _, p := range t.groups[group].Params {
		if !p.Adapter { // they come last
			plain.Params = append(plain.Params, p)
		}
	}
	n := len(plain.Params)
	one := &tensors{groups: []*model.Group{plain}}
	if t.host != nil {
		one.host = [][][]float32{t.host[group][:n]}
	} else {
		one.arrays = [][]*device.Array{t.arrays[group][:n]}
	}
	if t.parked != nil && t.parked[group] != nil {
		one.parked = [][][]float32{t.parked[group][:n]}
	}
	return one
}

// copy copies the parameters that want selects to host memory.
func (t *tensors) copy(want func(group int, p model.Param) bool) (*tensors, error) {
	c := &tensors{groups: t.groups, host: make([][][]float32, len(t.groups))}
	for gi, g := range t.groups {
		c.host[gi] = make([][]float32, len(g.Params))
		for pi, p := range g.Params {
			if !want(gi, p) {
				continue
			}
			dst := make([]float32, p.Size())
			x, err := t.read(gi, pi, dst)
			if err != nil {
				return nil, err
			}
			copy(dst, x) // x is dst, or what t has in host memory
			c.host[gi][pi] = dst
		}
	}
	return c, nil
}

// replace replaces the values of the parameters that want selects, one parameter at a time.
func (t *tensors) replace(want func(model.Param) bool, f func(part model.Part, old []float32) ([]float32, error)) error {
	for gi, g := range t.groups {
		for pi, p := range g.Params {
			if !want(p) {
				continue
			}
			old, err := device.ReadNew[float32](t.arrays[gi][pi])
			if err != nil {
				return err
			}
			at := 0
			for _, part := range p.Parts {
				x, err := f(part, old[at:at+part.Size()])
				if err != nil {
					return err
				}
				copy(old[at:at+part.Size()], x)
				at += part.Size()
			}
			a, err := device.Put(t.arrays[gi][pi].Device(), old, p.Dims...)
			if err != nil {
				return err
			}
			t.put(gi, pi, a)
		}
	}
	return nil
}
