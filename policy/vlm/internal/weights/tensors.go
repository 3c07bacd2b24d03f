// Package weights holds a model's parameters: as arrays on devices or numbers in host memory, and as the named
// tensors of files, with adapters.
package weights

import (
	"fmt"
	"hash"
	"runtime/debug"
	"unsafe"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Tensors holds one array per parameter of a model, group by group in the order
// of model.Groups.All: weights, gradients or moments.
type Tensors struct {
	Groups []*model.Group
	Arrays [][]*device.Array
	// host has the values of a host copy, which has no arrays; nil for parameters that were
	// not copied.
	host [][][]float32
	// OnHost are the values of arrays that are in host memory between calls; those arrays are nil
	// then.
	OnHost [][][]float32
	// shared marks arrays that belong to other tensors; nil where none does.
	Shared [][]bool
}

func (t *Tensors) Free() {
	if t == nil {
		return
	}
	for gi, g := range t.Arrays {
		for i, a := range g {
			if !t.Shares(gi, i) {
				a.Free()
			}
		}
	}
}

// Source fills a parameter's part with float32 values.
type Source func(p model.Param, part model.Stored, dst []float32) error

func (from Source) fill(p model.Param, dst []float32) error {
	return p.Divide(dst, func(part model.Stored, dst []float32) error { return from(p, part, dst) })
}

// Placement returns the device of a group's parameter.
type Placement func(group, i int) *device.Device

// On places all parameters on one device.
func On(d *device.Device) Placement { return func(int, int) *device.Device { return d } }

// New uploads every parameter, one at a time, except those whose array is in base,
// by the name of their first part.
func New(place Placement, groups []*model.Group, base map[string]*device.Array, from Source) (*Tensors, error) {
	t := &Tensors{Groups: groups, Shared: make([][]bool, len(groups))}
	var buf []float32
	defer func() {
		if large := cap(buf) > 16<<20; large {
			buf = nil
			debug.FreeOSMemory() // the memory would otherwise be kept for minutes
		}
	}()
	for gi, g := range groups {
		arrays := make([]*device.Array, 0, len(g.Params))
		t.Arrays, t.Shared[gi] = append(t.Arrays, arrays), make([]bool, len(g.Params))
		for i, p := range g.Params {
			if a := base[p.Parts[0].Name]; a != nil {
				t.Arrays[gi], t.Shared[gi][i] = append(t.Arrays[gi], a), true
				continue
			}
			if n := p.Size(); cap(buf) < n {
				buf = make([]float32, n)
			}
			dst := buf[:p.Size()]
			var a *device.Array
			err := from.fill(p, dst)
			if err == nil {
				a, err = device.Put(place(gi, i), dst, p.Dims...)
			}
			if err != nil {
				t.Free()
				return nil, err
			}
			t.Arrays[gi] = append(t.Arrays[gi], a)
		}
	}
	return t, nil
}

// Each visits every part of the parameters that want selects with its values, in order; nil selects all. Others are
// not read.
func (t *Tensors) Each(want func(model.Param) bool, visit func(part model.Stored, values []float32) error) error {
	var buf []float32
	for gi, g := range t.Groups {
		for pi, p := range g.Params {
			if want != nil && !want(p) {
				continue
			}
			if cap(buf) < p.Size() {
				buf = make([]float32, p.Size())
			}
			values, err := t.Read(gi, pi, buf[:p.Size()])
			if err != nil {
				return err
			}
			if values == nil { // was not copied
				continue
			}
			if err := p.Divide(values, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Read returns the values of a parameter, in buf unless they are in host memory.
func (t *Tensors) Read(group, i int, buf []float32) ([]float32, error) {
	if t.host != nil {
		return t.host[group][i], nil
	}
	if t.OnHost != nil && t.Arrays[group][i] == nil {
		return t.OnHost[group][i], nil
	}
	if err := device.Read(t.Arrays[group][i], buf); err != nil {
		return nil, fmt.Errorf("vlm: reading %s: %w", t.Groups[group].Params[i].Parts[0].Name, err)
	}
	return buf, nil
}

// Part returns the tensors of one group, without adapters.
func (t *Tensors) Part(group int) *Tensors {
	plain := &model.Group{Name: t.Groups[group].Name}
	for _, p := range t.Groups[group].Params {
		if !p.Adapter { // they come last
			plain.Params = append(plain.Params, p)
		}
	}
	n := len(plain.Params)
	one := &Tensors{Groups: []*model.Group{plain}}
	if t.host != nil {
		one.host = [][][]float32{t.host[group][:n]}
	} else {
		one.Arrays = [][]*device.Array{t.Arrays[group][:n]}
	}
	if t.OnHost != nil && t.OnHost[group] != nil {
		one.OnHost = [][][]float32{t.OnHost[group][:n]}
	}
	return one
}

// Copy copies the parameters that want selects to host memory.
func (t *Tensors) Copy(want func(model.Param) bool) (*Tensors, error) {
	c := &Tensors{Groups: t.Groups, host: make([][][]float32, len(t.Groups))}
	for gi, g := range t.Groups {
		c.host[gi] = make([][]float32, len(g.Params))
		for pi, p := range g.Params {
			if !want(p) {
				continue
			}
			dst := make([]float32, p.Size())
			x, err := t.Read(gi, pi, dst)
			if err != nil {
				return nil, err
			}
			copy(dst, x) // x is dst, or what t has in host memory
			c.host[gi][pi] = dst
		}
	}
	return c, nil
}

// Replace replaces the values of the parameters that want selects, one parameter at a time.
func (t *Tensors) Replace(
	want func(model.Param) bool, f func(part model.Stored, old []float32) ([]float32, error),
) error {
	for gi, g := range t.Groups {
		for pi, p := range g.Params {
			if !want(p) {
				continue
			}
			old, err := device.ReadNew[float32](t.Arrays[gi][pi])
			if err != nil {
				return err
			}
			err = p.Divide(old, func(part model.Stored, old []float32) error {
				x, err := f(part, old)
				copy(old, x)
				return err
			})
			if err != nil {
				return err
			}
			a, err := device.Put(t.Arrays[gi][pi].Device(), old, p.Dims...)
			if err != nil {
				return err
			}
			t.Put(gi, pi, a)
		}
	}
	return nil
}

// Shares reports whether the array of a parameter belongs to other tensors.
func (t *Tensors) Shares(group, i int) bool { return t.Shared != nil && t.Shared[group][i] }

// Put sets a parameter's array, which the tensors then own.
func (t *Tensors) Put(group, i int, a *device.Array) {
	if t.Shares(group, i) {
		t.Shared[group][i] = false
	} else {
		t.Arrays[group][i].Free()
	}
	t.Arrays[group][i] = a
}

// Bytes is the size of the tensors on the device, without shared arrays.
func (t *Tensors) Bytes() (sum int64) {
	if t == nil {
		return 0
	}
	for gi, g := range t.Arrays {
		for i, a := range g {
			if a != nil && !t.Shares(gi, i) {
				sum += a.Bytes()
			}
		}
	}
	return sum
}

// Digest writes the values of a group's parameters that want selects and that are not shared with
// other tensors.
func (t *Tensors) Digest(h hash.Hash, group int, want func(model.Param) bool) error {
	var buf []float32
	for i, p := range t.Groups[group].Params {
		if t.Shares(group, i) || !want(p) {
			continue
		}
		if cap(buf) < p.Size() {
			buf = make([]float32, p.Size())
		}
		x, err := t.Read(group, i, buf[:p.Size()])
		if err != nil {
			return err
		}
		h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)))
	}
	return nil
}
