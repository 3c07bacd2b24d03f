package device

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
)

// Builder makes the outputs of a graph from its inputs. It may panic, as GoMLX
// graph code does.
type Builder func(in []*graph.Node) []*graph.Node

// Program is a graph that is compiled anew for every signature of input shapes
// it meets. Keep the number of different shapes small: a device keeps so many
// executables and no more, and frees those that have not run for the longest time.
type Program struct {
	dev      *Device
	name     string
	build    Builder
	compiled map[string]*executable
}

type executable struct {
	graph *graph.Graph
	dims  []shapes.Shape // of the outputs
	last  uint64         // run of the device
}

// Program declares a program. Nothing is compiled until it runs.
func (d *Device) Program(name string, build Builder) *Program {
	p := &Program{dev: d, name: name, build: build, compiled: map[string]*executable{}}
	d.mu.Lock()
	d.programs = append(d.programs, p)
	d.mu.Unlock()
	return p
}

// Executables returns how many shapes the program has been compiled for.
func (p *Program) Executables() int {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	return len(p.compiled)
}

func signature(in []*Array) string {
	var b strings.Builder
	for _, a := range in {
		fmt.Fprintf(&b, "%d%v;", a.shape.DType, a.shape.Dimensions)
	}
	return b.String()
}

// Run executes the program. Arrays listed in donate (by their index in in) are
// consumed: they are freed, and their memory may be reused for the outputs.
func (p *Program) Run(in []*Array, donate ...int) ([]*Array, error) {
	d := p.dev
	buffers := make([]backends.Buffer, len(in))
	for i, a := range in {
		if a == nil || a.buffer == nil {
			return nil, fmt.Errorf("%w: program %s: input %d has been freed", ErrClosed, p.name, i)
		}
		buffers[i] = a.buffer
	}
	gifts := make([]bool, len(in))
	for _, i := range donate {
		gifts[i] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	exe, err := p.executable(in)
	if err != nil {
		return nil, err
	}
	var out []*Array
	err = catch("run "+p.name, func() {
		tensors := exe.graph.RunWithBuffers(buffers, gifts, 0)
		out = make([]*Array, len(tensors))
		for i, t := range tensors {
			// The tensor is only a shell around the buffer: take the buffer out.
			buf, err := t.DonateBuffer(d.backend, 0)
			if err != nil {
				panic(err)
			}
			out[i] = newArray(d, buf, exe.dims[i])
		}
	})
	if err != nil {
		return nil, err
	}
	for _, i := range donate {
		in[i].consumed(d.pure)
	}
	return out, nil
}

// executable returns the graph compiled for the shapes of in. The device is locked.
func (p *Program) executable(in []*Array) (*executable, error) {
	key := signature(in)
	p.dev.runs++
	if exe, ok := p.compiled[key]; ok {
		exe.last = p.dev.runs
		return exe, nil
	}
	p.dev.makeRoom()
	start := time.Now()
	exe := &executable{last: p.dev.runs}
	err := catch("compile "+p.name, func() {
		g := graph.NewGraph(p.dev.backend, p.name)
		nodes := make([]*graph.Node, len(in))
		for i, a := range in {
			nodes[i] = graph.Parameter(g, fmt.Sprintf("p%d", i), a.shape)
		}
		outputs := p.build(nodes)
		for _, o := range outputs {
			exe.dims = append(exe.dims, o.Shape())
		}
		g.Compile(outputs...)
		exe.graph = g
	})
	if err != nil {
		return nil, err
	}
	if !p.dev.pure {
		trim() // what the compiler worked with
	}
	p.dev.compiled += time.Since(start)
	p.compiled[key] = exe
	p.dev.executables.Add(1)
	return exe, nil
}

// makeRoom frees the executable that has not run for the longest time, when there
// are as many as there may be. The device is locked.
func (d *Device) makeRoom() {
	if d.Executables() < d.most {
		return
	}
	var of *Program
	var oldest string
	last := d.runs
	for _, p := range d.programs {
		for key, exe := range p.compiled {
			if exe.last < last {
				of, oldest, last = p, key, exe.last
			}
		}
	}
	if of == nil {
		return
	}
	of.compiled[oldest].graph.Finalize()
	delete(of.compiled, oldest)
	d.executables.Add(-1)
}
