package device

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Builder builds the outputs of a graph from its inputs. It may panic, as GoMLX
// graph code does.
type Builder func(in []*graph.Node) []*graph.Node

// FusedBuilder is a Builder that also returns the parts of the graph that kernels
// can replace. Products of few rows, x·wᵀ, are found automatically.
type FusedBuilder func(in []*graph.Node) (out []*graph.Node, kernels []Kernel)

// Program is a graph that is compiled for every signature of input shapes it is
// run with. Keep the number of different shapes small: a device keeps a limited
// number of executables and frees the least recently used.
type Program struct {
	dev      *library
	name     string
	build    FusedBuilder
	fused    bool // may call kernels
	compiled map[string]*executable
}

type executable struct {
	key     string       // signature within the program
	graph   *graph.Graph // nil once compiled, and so are outputs
	outputs []*graph.Node
	run     compute.Executable
	dims    []shapes.Shape // of the outputs
	fused   bool           // calls kernels
	lastRun uint64         // value of Device.runs at its last run

	traced  chan struct{} // closed when the graph has been built
	invalid error         // of building it
	ready   chan struct{} // closed when compilation has finished
	err     error         // of building or compilation
	users   int           // executions in progress
	ran     bool
	freed   bool // has been freed
}

// compiled reports whether compilation has finished.
func (e *executable) compiled() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// compile compiles the traced graph.
func (e *executable) compile() error {
	err := e.graph.Compile(e.outputs...)
	e.run = e.graph.Executable()
	return err
}

// free frees a compiled executable. The library must be locked.
func (e *executable) free() {
	e.freed = true
	e.run.Finalize()
}

// Program declares a program. Nothing is compiled until it runs.
func (d *library) Program(name string, build Builder) *Program {
	return d.declare(&Program{name: name, build: func(in []*graph.Node) ([]*graph.Node, []Kernel) {
		return build(in), nil
	}})
}

// Fused is Program for a graph with kernels.
func (d *library) Fused(name string, build FusedBuilder) *Program {
	return d.declare(&Program{name: name, build: build, fused: true})
}

func (d *library) declare(p *Program) *Program {
	p.dev, p.compiled = d, map[string]*executable{}
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

// Compiled reports whether any program has been compiled.
func (d *library) Compiled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.programs, func(p *Program) bool { return len(p.compiled) > 0 })
}

// UsesKernels reports whether all executables of the program call kernels.
func (p *Program) UsesKernels() bool {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	for _, e := range p.compiled {
		if !e.fused {
			return false
		}
	}
	return len(p.compiled) > 0
}

// signature is the key of an executable within its program.
func signature(in []shapes.Shape, donate []int) string {
	b := make([]byte, 0, 16*len(in)) // a decoding step has hundreds of inputs
	number := func(n int, end byte) { b = append(strconv.AppendInt(b, int64(n), 10), end) }
	for _, s := range in {
		number(int(s.DType), ':')
		for _, d := range s.Dimensions {
			number(d, ' ')
		}
		b = append(b, ';')
	}
	for _, i := range donate {
		number(i, ' ')
	}
	return string(b)
}

// Run executes the program on the device of its inputs, of which there must be at least
// one. Arrays listed in donate (by their index in in) are consumed: outputs of the same
// shape overwrite them, matched in order, and those without a matching output are freed.
func (p *Program) Run(in []*Array, donate ...int) ([]*Array, error) {
	buffers, dims := make([]compute.Buffer, len(in)), make([]shapes.Shape, len(in))
	for i, a := range in {
		if a == nil || a.buffer == nil && !a.dev.dry {
			return nil, fmt.Errorf("%w: program %s: input %d has been freed", ErrClosed, p.name, i)
		}
		if a.dev != in[0].dev {
			return nil, fmt.Errorf("device: program %s: input %d is on device %d of %s, input 0 on device %d of %s",
				p.name, i, a.dev.num, a.dev.name, in[0].dev.num, in[0].dev.name)
		}
		buffers[i], dims[i] = a.buffer, a.shape
	}
	if len(in) == 0 || in[0].dev.library != p.dev {
		return nil, fmt.Errorf("device: program %s: it needs an input on a device of %s", p.name, p.dev.name)
	}
	d := in[0].dev
	if d.dry {
		return p.dryRun(d, dims, donate)
	}
	gifts := make([]bool, len(in))
	for _, i := range donate {
		gifts[i] = true
		if k := slices.Index(in, in[i]); k != i || slices.Contains(in[i+1:], in[i]) {
			return nil, fmt.Errorf("device: program %s: donated input %d is also passed as another input", p.name, i)
		}
	}
	exe, err := p.acquire(dims, donate)
	if err != nil {
		return nil, err
	}
	defer p.release(exe)
	var out []*Array
	d.running.Lock()
	defer d.running.Unlock()
	err = catch("run "+p.name, func() error {
		results, err := exe.run.Execute(buffers, gifts, d.num)
		for i, buf := range results {
			out = append(out, newArray(d, buf, exe.dims[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, i := range donate {
		in[i].consumed(d.pure)
	}
	return out, nil
}

// dryRun is Run on a dry device.
func (p *Program) dryRun(d *Device, in []shapes.Shape, donate []int) ([]*Array, error) {
	dims, err := p.Prepare(in, donate...)
	out := make([]*Array, len(dims))
	for i, s := range dims {
		out[i] = &Array{dev: d, shape: s}
	}
	return out, err
}

// acquire returns the executable for the shapes of the inputs, which is not freed until
// release. It compiles the executable, or waits for another caller's compilation.
func (p *Program) acquire(in []shapes.Shape, donate []int) (*executable, error) {
	for {
		exe, mine, err := p.lookUp(in, donate)
		if err != nil {
			return nil, err
		}
		if mine {
			p.trace(exe, in, donate)
			p.finish(exe)
		}
		<-exe.ready
		if exe.err != nil {
			return nil, exe.err
		}
		p.dev.mu.Lock()
		switch {
		case p.dev.closed:
			p.dev.mu.Unlock()
			return nil, ErrClosed
		case !exe.freed:
			exe.ran = true
			exe.users++
			p.dev.executing.Add(1)
			p.dev.mu.Unlock()
			return exe, nil
		}
		p.dev.mu.Unlock() // makeRoom freed it in the meantime
	}
}

// release ends an execution that acquire started.
func (p *Program) release(exe *executable) {
	p.dev.mu.Lock()
	exe.users--
	p.dev.mu.Unlock()
	p.dev.executing.Done()
}

// Prepare compiles the program in the background for inputs of these shapes, some of
// which will be donated, so that several programs compile in parallel. It returns the
// shapes of the outputs. A Run that needs the executable waits for it and returns the
// compilation's error. On the pure-Go backend, where compilation takes no time,
// nothing is compiled.
func (p *Program) Prepare(in []shapes.Shape, donate ...int) ([]shapes.Shape, error) {
	exe, mine, err := p.lookUp(in, donate)
	if err != nil {
		return nil, err
	}
	if !mine {
		<-exe.traced
		return exe.dims, exe.invalid
	}
	if p.trace(exe, in, donate); exe.invalid != nil || p.dev.pure {
		p.finish(exe)
		return exe.dims, exe.err
	}
	p.dev.compiling.Go(func() {
		p.dev.compilers <- struct{}{}
		defer func() { <-p.dev.compilers }()
		p.finish(exe)
	})
	return exe.dims, nil
}

// lookUp returns the program's executable for the shapes. If there is none, it creates
// one (mine is true), which the caller must trace and finish.
func (p *Program) lookUp(in []shapes.Shape, donate []int) (exe *executable, mine bool, err error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, ErrClosed
	}
	key := signature(in, donate)
	d.runs++
	exe, ok := p.compiled[key]
	if !ok {
		d.makeRoom()
		exe = &executable{key: key, traced: make(chan struct{}), ready: make(chan struct{})}
		p.compiled[key] = exe
		d.executables.Add(1)
	}
	exe.lastRun = d.runs
	return exe, !ok, nil
}

// trace builds the graph.
func (p *Program) trace(exe *executable, in []shapes.Shape, donate []int) {
	defer close(exe.traced)
	defer p.dev.startCompileTimer()()
	exe.invalid = catch("compile "+p.name, func() error {
		g := graph.NewGraph(p.dev.backend, p.name)
		nodes := make([]*graph.Node, len(in))
		for i, s := range in {
			nodes[i] = graph.Parameter(g, fmt.Sprintf("p%d", i), s)
		}
		var kernels []Kernel
		exe.outputs, kernels = p.build(nodes)
		for _, o := range exe.outputs {
			exe.dims = append(exe.dims, o.Shape())
		}
		exe.graph = g
		if p.dev.pure {
			return nil
		}
		f := function(g)
		exe.fused = p.fused && p.dev.useKernels(f, exe.outputs, kernels)
		inPlace(f, in, donate, exe.outputs)
		return nil
	})
}

// finish compiles a traced graph, or removes it if tracing or compiling fails.
func (p *Program) finish(exe *executable) {
	defer close(exe.ready)
	if p.dev.oneByOne {
		p.dev.compileMu.Lock()
		defer p.dev.compileMu.Unlock()
	}
	stop := p.dev.startCompileTimer()
	if exe.err = exe.invalid; exe.err == nil {
		exe.err = catch("compile "+p.name, func() error { return p.dev.store.Compile(exe.compile) })
	}
	exe.graph, exe.outputs = nil, nil
	stop()
	if exe.err != nil {
		p.dev.mu.Lock()
		defer p.dev.mu.Unlock()
		delete(p.compiled, exe.key)
		p.dev.executables.Add(-1)
		return
	}
	if !p.dev.pure {
		Trim() // the compiler's working memory
	}
}

// Unused lists executables that were prepared but never run, by program name and
// input shapes.
func (d *library) Unused() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.programs {
		for key, exe := range p.compiled {
			if !exe.ran {
				names = append(names, p.name+" "+key)
			}
		}
	}
	return names
}

// FreeIdle frees the executables that are not in use, and the memory that they leave. Those needed
// again are loaded from the store, or compiled.
func (d *library) FreeIdle() {
	d.mu.Lock()
	for _, p := range d.programs {
		for key, exe := range p.compiled {
			if exe.users == 0 && exe.compiled() {
				exe.free()
				delete(p.compiled, key)
				d.executables.Add(-1)
			}
		}
	}
	d.mu.Unlock()
	Trim()
}

// makeRoom frees the least recently used executable that is not in use if the limit is
// reached. The library must be locked.
func (d *library) makeRoom() {
	if d.Executables() < d.maxExecutables {
		return
	}
	var of *Program
	var oldest string
	last := d.runs
	for _, p := range d.programs {
		for key, exe := range p.compiled {
			if exe.lastRun < last && exe.users == 0 && exe.compiled() {
				of, oldest, last = p, key, exe.lastRun
			}
		}
	}
	if of == nil {
		return
	}
	of.compiled[oldest].free()
	delete(of.compiled, oldest)
	d.executables.Add(-1)
}
