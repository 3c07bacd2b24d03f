// Package device runs GoMLX graphs on buffers that stay on the device.
//
// It converts GoMLX's panics to errors. A Device owns the programs compiled for a
// backend; an Array is one buffer on the device with its shape; a Program is one
// graph, compiled once for every signature of input shapes.
package device

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/gotype"
	"github.com/gomlx/compute/shapes"

	"vagen/policy/vlm/internal/exestore"
)

// ErrClosed is returned by operations on a closed Device or a freed Array.
var ErrClosed = errors.New("device: closed")

// Device is one device of a backend. Its methods may be called from several
// goroutines; executions on one device are serialised, those on different devices are
// not.
type Device struct {
	*library
	num compute.DeviceNum
	dry bool // see Dry

	running       sync.Mutex   // held during an execution
	arrays, bytes atomic.Int64 // live
	peak          atomic.Int64 // maximum of bytes
}

// library holds the programs compiled for a backend, which all of its devices run.
type library struct {
	backend compute.Backend
	name    string
	pure    bool            // GoMLX's pure-Go backend, which lacks some operations
	store   *exestore.Store // of executables; nil keeps none

	mu             sync.Mutex
	programs       []*Program
	maxExecutables int    // limit on executables
	runs           uint64 // counter of executions
	closed         bool

	executing sync.WaitGroup // executions
	compiling sync.WaitGroup // background compilations
	compilers chan struct{}  // semaphore of background compilations
	oneByOne  bool
	compileMu sync.Mutex // held during a compilation if oneByOne

	clockMu     sync.Mutex
	building    int       // programs being built or compiled now
	since       time.Time // start of the current building period
	compileTime time.Duration

	executables atomic.Int64 // of all programs
}

// maxExecutables limits the host memory used by executables, which is one or two megabytes each. A training step of one
// configuration has some dozens, with pictures a hundred; the prompt lengths met over weeks of training would need an
// unlimited number. maxLoaded is the limit on a CPU with a store, which gives back within milliseconds what was
// freed.
const (
	maxExecutables = 512
	maxLoaded      = 144
)

// New wraps the first device of a backend, which the caller still owns and may share
// between devices. The name is for messages, such as "xla:cpu" or "go".
func New(backend compute.Backend, name string) *Device {
	return &Device{library: &library{backend: backend, name: name, pure: backend.String() == "go",
		maxExecutables: maxExecutables,
		compilers:      make(chan struct{}, runtime.GOMAXPROCS(0))}}
}

// Dry returns a device whose arrays have shapes and no numbers. Running a program there compiles it for them in the
// background, so that a dry run of some work compiles in parallel what the work needs.
func (d *Device) Dry() *Device { return &Device{library: d.library, dry: true} }

// Name returns the backend's name.
func (d *library) Name() string { return d.name }

// Backend returns GoMLX's backend, to ask what it is.
func (d *library) Backend() compute.Backend { return d.backend }

// PureGo reports whether the backend is GoMLX's pure-Go one. Graphs must then
// avoid DynamicSlice and DynamicUpdateSlice.
func (d *library) PureGo() bool { return d.pure }

// CompileOneByOne makes compilations wait for each other, where the compiler measures
// kernels, and others would disturb it. It must be called before the first program runs.
func (d *library) CompileOneByOne() { d.oneByOne = true }

// CompileTime is the total time during which at least one program was being built
// or compiled.
func (d *library) CompileTime() time.Duration {
	d.clockMu.Lock()
	defer d.clockMu.Unlock()
	return d.compileTime
}

// UseStore has executables loaded from a store instead of compiled, and added to it. It must be
// called before the first program runs.
func (d *library) UseStore(s *exestore.Store) {
	d.store = s
	if s != nil && !d.Accelerator() {
		d.maxExecutables = min(d.maxExecutables, maxLoaded)
	}
}

// Store returns the store that UseStore set; nil for none.
func (d *library) Store() *exestore.Store { return d.store }

// startCompileTimer adds the time until stop is called to CompileTime.
func (d *library) startCompileTimer() (stop func()) {
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

// Executables returns the number of executables of all programs and shapes.
func (d *library) Executables() int { return int(d.executables.Load()) }

// Live returns the number of arrays that were created and not freed yet, and
// their bytes on the device.
func (d *Device) Live() (arrays, bytes int64) { return d.arrays.Load(), d.bytes.Load() }

// Accelerator reports whether arrays are in memory separate from the host's.
func (d *library) Accelerator() bool { return strings.Contains(d.name, "cuda") }

// Large reports whether arrays need so much memory that returning what other work leaves is worth its time.
func (d *Device) Large() bool { return d.bytes.Load() >= 128<<20 }

// Resident returns the bytes of the process's memory that arrays use.
func (d *Device) Resident() int64 {
	if d.Accelerator() {
		return 0
	}
	return d.bytes.Load()
}

// Peak returns the maximum of the bytes of live arrays. Temporary memory of
// running programs, except their outputs, is not counted.
func (d *Device) Peak() int64 { return d.peak.Load() }

// Close frees every program, but not the backend, which the caller owns. Programs
// must not be run afterwards, also not on the device's peers.
func (d *library) Close() {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	d.mu.Unlock()
	if was {
		return
	}
	d.compiling.Wait()
	d.executing.Wait()
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

// catch runs f. Its error, or its panic, becomes an error that names the operation.
func catch(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(error); !ok {
				err = fmt.Errorf("%v", r)
			}
		}
		if err != nil {
			err = fmt.Errorf("device: %s: %w", what, err)
		}
	}()
	return f()
}

// Array is a buffer on the device.
type Array struct {
	dev    *Device
	buffer compute.Buffer
	shape  shapes.Shape
}

func newArray(d *Device, buffer compute.Buffer, shape shapes.Shape) *Array {
	a := &Array{dev: d, buffer: buffer, shape: shape}
	d.arrays.Add(1)
	now := d.bytes.Add(a.Bytes())
	for most := d.peak.Load(); now > most && !d.peak.CompareAndSwap(most, now); {
		most = d.peak.Load()
	}
	return a
}

// untrack stops tracking the buffer without freeing it.
func (a *Array) untrack() {
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

// Device returns the device that holds the array.
func (a *Array) Device() *Device { return a.dev }

// Bytes returns the size on the device.
func (a *Array) Bytes() int64 { return int64(a.shape.ByteSize()) }

// Shape returns type and dimensions.
func (a *Array) Shape() shapes.Shape { return a.shape }

// DType returns the element type.
func (a *Array) DType() dtypes.DType { return a.shape.DType }

// Put copies data to the device. Without dims the result is a vector;
// the product of the dims must be len(data).
func Put[T gotype.Supported](d *Device, data []T, dims ...int) (*Array, error) {
	if len(dims) == 0 {
		dims = []int{len(data)}
	}
	shape := shapes.Make(dtypes.FromGenericsType[T](), dims...)
	if shape.Size() != len(data) {
		return nil, fmt.Errorf("device: put: %d numbers, shape %v needs another count", len(data), dims)
	}
	return put(d, "put", data, shape)
}

// Scalar puts one number on the device as an array without dimensions.
func Scalar[T gotype.Supported](d *Device, x T) (*Array, error) {
	return put(d, "put scalar", []T{x}, shapes.Make(dtypes.FromGenericsType[T]()))
}

func put[T gotype.Supported](d *Device, what string, data []T, shape shapes.Shape) (*Array, error) {
	if d.dry {
		return &Array{dev: d, shape: shape}, nil
	}
	var buf compute.Buffer
	err := catch(what, func() (err error) {
		buf, err = d.backend.BufferFromFlatData(d.num, data, shape)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newArray(d, buf, shape), nil
}

// Read copies the array into dst, which must have its size and type.
func Read[T gotype.Supported](a *Array, dst []T) error {
	if a == nil || a.buffer == nil {
		return fmt.Errorf("%w: read of a freed array", ErrClosed)
	}
	if len(dst) != a.Size() {
		return fmt.Errorf("device: read: %d numbers, but the slice has length %d", a.Size(), len(dst))
	}
	if want := dtypes.FromGenericsType[T](); want != a.DType() {
		return fmt.Errorf("device: read: numbers are %v, the slice has %v", a.DType(), want)
	}
	return catch("read", func() error { return a.buffer.ToFlatData(dst) })
}

// ReadNew copies the array into a new slice.
func ReadNew[T gotype.Supported](a *Array) ([]T, error) {
	if a == nil || a.buffer == nil {
		return nil, fmt.Errorf("%w: read of a freed array", ErrClosed)
	}
	dst := make([]T, a.Size())
	return dst, Read(a, dst)
}

// Free releases the buffer now instead of at garbage collection. Freeing twice,
// or freeing nil, does nothing.
func (a *Array) Free() {
	if a == nil || a.buffer == nil {
		return
	}
	_ = catch("free", a.buffer.Finalize)
	a.untrack()
}

// consumed drops a donated buffer. XLA marks it deleted, but its handle must still
// be freed; the pure-Go backend has taken ownership of it.
func (a *Array) consumed(pure bool) {
	if pure {
		a.untrack()
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
