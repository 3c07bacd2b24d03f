// Package device runs GoMLX graphs on buffers that stay on the device.
//
// It is the edge at which GoMLX's panics become errors. A Device owns the
// programs compiled for a backend; an Array is one buffer on the device with its
// shape; a Program is one graph, compiled once for every signature of input
// shapes that it meets.
package device

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/shapes"
)

// ErrClosed is returned by operations on a closed Device or a freed Array.
var ErrClosed = errors.New("device: closed")

// Device is a backend with the programs compiled for it. Its methods may be
// called from several goroutines; executions are serialised.
type Device struct {
	backend backends.Backend
	name    string
	pure    bool // GoMLX's pure-Go backend, which lacks some operations

	mu       sync.Mutex
	programs []*Program
	most     int    // executables at one time
	runs     uint64 // so far
	closed   bool

	compiling sync.WaitGroup // in the background
	compilers chan struct{}  // those at work in the background

	clockMu     sync.Mutex
	building    int       // programs at this time
	since       time.Time // when there was one
	compileTime time.Duration

	executables   atomic.Int64 // of all programs
	arrays, bytes atomic.Int64 // not freed yet
	peak          atomic.Int64 // the most bytes so far
}

// mostExecutables bounds what executables take of the host's memory, which is about
// a megabyte each. A training step of one configuration has some dozens; what
// conversations of all lengths need over weeks has no such limit.
const mostExecutables = 512

// New wraps a backend, which stays the caller's and may serve several devices.
// The name is for messages, such as "xla:cpu" or "go".
func New(backend backends.Backend, name string) *Device {
	return &Device{backend: backend, name: name, pure: backend.String() == "go", most: mostExecutables,
		compilers: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Name tells which backend this is.
func (d *Device) Name() string { return d.name }

// PureGo reports whether the backend is GoMLX's pure-Go one. Graphs must then
// avoid Pad, DynamicSlice, DynamicUpdateSlice, shifts, Clamp and Reverse.
func (d *Device) PureGo() bool { return d.pure }

// CompileTime is the time so far during which programs were built and compiled, one
// or several at the same time.
func (d *Device) CompileTime() time.Duration {
	d.clockMu.Lock()
	defer d.clockMu.Unlock()
	return d.compileTime
}

// clock counts the time until stop is called to CompileTime.
func (d *Device) clock() (stop func()) {
	d.clockMu.Lock()
	defer d.clockMu.Unlock()
	if d.building++; d.building == 1 {
		d.since = time.Now()
	}
	return func() {
		d.clockMu.Lock()
		defer d.clockMu.Unlock()
		if d.building--; d.building == 0 {
			d.compileTime += time.Since(d.since)
		}
	}
}

// Executables returns how many executables there are, of all programs and shapes.
func (d *Device) Executables() int { return int(d.executables.Load()) }

// Live returns how many arrays have been made and not been freed yet, and the
// bytes that they take on the device.
func (d *Device) Live() (arrays, bytes int64) { return d.arrays.Load(), d.bytes.Load() }

// Accelerator reports whether arrays are in a memory of their own.
func (d *Device) Accelerator() bool { return strings.Contains(d.name, "cuda") }

// Resident is what arrays take of the process's memory.
func (d *Device) Resident() int64 {
	if d.Accelerator() {
		return 0
	}
	return d.bytes.Load()
}

// Peak returns the most bytes that arrays have taken at one time. What programs
// use while they run, their outputs aside, is not counted.
func (d *Device) Peak() int64 { return d.peak.Load() }

// Close frees every program, and leaves the backend to whoever made it. Programs
// must not be run afterwards.
func (d *Device) Close() {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	d.mu.Unlock()
	if was {
		return
	}
	d.compiling.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.programs {
		for _, e := range p.compiled {
			if e.compiled() {
				e.free()
			}
		}
		p.compiled = nil
	}
	d.executables.Store(0)
}

// catch runs f and turns a panic into an error that names what was done.
func catch(what string, f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = fmt.Errorf("device: %s: %w", what, e)
				return
			}
			err = fmt.Errorf("device: %s: %v", what, r)
		}
	}()
	f()
	return nil
}

// Array is a buffer on the device.
type Array struct {
	dev    *Device
	buffer backends.Buffer
	shape  shapes.Shape
}

func newArray(d *Device, buffer backends.Buffer, shape shapes.Shape) *Array {
	a := &Array{dev: d, buffer: buffer, shape: shape}
	d.arrays.Add(1)
	now := d.bytes.Add(a.Bytes())
	for most := d.peak.Load(); now > most && !d.peak.CompareAndSwap(most, now); {
		most = d.peak.Load()
	}
	return a
}

// forget leaves the buffer to somebody else.
func (a *Array) forget() {
	if a.buffer == nil {
		return
	}
	a.buffer = nil
	a.dev.arrays.Add(-1)
	a.dev.bytes.Add(-a.Bytes())
}

// Dims returns the dimensions. The slice must not be changed.
func (a *Array) Dims() []int { return a.shape.Dimensions }

// Size returns the number of elements.
func (a *Array) Size() int { return a.shape.Size() }

// Bytes returns the size on the device.
func (a *Array) Bytes() int64 { return int64(a.shape.Memory()) }

// Shape returns type and dimensions.
func (a *Array) Shape() shapes.Shape { return a.shape }

// DType returns the element type.
func (a *Array) DType() dtypes.DType { return a.shape.DType }

// Put copies data to the device. Without dims the result is a vector;
// the product of the dims must be len(data).
func Put[T dtypes.Supported](d *Device, data []T, dims ...int) (*Array, error) {
	if len(dims) == 0 {
		dims = []int{len(data)}
	}
	shape := shapes.Make(dtypes.FromGenericsType[T](), dims...)
	if shape.Size() != len(data) {
		return nil, fmt.Errorf("device: put: %d numbers do not fill shape %v", len(data), dims)
	}
	var buf backends.Buffer
	err := catch("put", func() {
		var err error
		if buf, err = d.backend.BufferFromFlatData(0, data, shape); err != nil {
			panic(err)
		}
	})
	if err != nil {
		return nil, err
	}
	return newArray(d, buf, shape), nil
}

// Scalar puts one number on the device as an array without dimensions.
func Scalar[T dtypes.Supported](d *Device, x T) (*Array, error) {
	shape := shapes.Make(dtypes.FromGenericsType[T]())
	var buf backends.Buffer
	err := catch("put scalar", func() {
		var err error
		if buf, err = d.backend.BufferFromFlatData(0, []T{x}, shape); err != nil {
			panic(err)
		}
	})
	if err != nil {
		return nil, err
	}
	return newArray(d, buf, shape), nil
}

// Read copies the array into dst, which must have its size and type.
func Read[T dtypes.Supported](a *Array, dst []T) error {
	if a == nil || a.buffer == nil {
		return fmt.Errorf("%w: read of a freed array", ErrClosed)
	}
	if len(dst) != a.Size() {
		return fmt.Errorf("device: read: %d numbers into a slice of %d", a.Size(), len(dst))
	}
	return catch("read", func() {
		if err := a.dev.backend.BufferToFlatData(a.buffer, dst); err != nil {
			panic(err)
		}
	})
}

// ReadNew copies the array into a new slice.
func ReadNew[T dtypes.Supported](a *Array) ([]T, error) {
	if a == nil || a.buffer == nil {
		return nil, fmt.Errorf("%w: read of a freed array", ErrClosed)
	}
	dst := make([]T, a.Size())
	return dst, Read(a, dst)
}

// Free releases the buffer now rather than when it is collected. Freeing twice,
// or freeing nil, does nothing.
func (a *Array) Free() {
	if a == nil || a.buffer == nil {
		return
	}
	_ = catch("free", func() { _ = a.dev.backend.BufferFinalize(a.buffer) })
	a.forget()
}

// consumed forgets a donated buffer. XLA marks it deleted but its handle still
// has to be freed; the pure-Go backend has taken it over.
func (a *Array) consumed(pure bool) {
	if pure {
		a.forget()
	} else {
		a.Free()
	}
}

// FreeAll frees several arrays.
func FreeAll(arrays ...*Array) {
	for _, a := range arrays {
		a.Free()
	}
}
