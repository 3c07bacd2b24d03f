package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/tree"
)

// Names of the backends that run a model's graphs.
const (
	Auto = "auto" // XLA on the CPU if available, else Go; so is ""
	XLA  = "xla"  // XLA on the CPU
	CUDA = "cuda" // XLA on an NVIDIA GPU
	Go   = "go"   // GoMLX in pure Go: needs nothing, 15 to 25 times slower

	// xlaDevices is XLA on the CPU with several devices. It is not a choice of its own.
	xlaDevices = "xla devices"
)

var (
	// ErrOption is wrapped by errors about Options.
	ErrOption = errors.New("bad option")

	// ErrUnknown is wrapped by errors about a backend that does not exist.
	ErrUnknown = errors.New("unknown backend")

	// ErrUnavailable is wrapped by errors about a backend that this machine or program lacks; auto
	// then uses pure Go.
	ErrUnavailable = errors.New("backend is not available")
)

// engine is a backend that all devices of its kind in the process share.
type engine struct {
	backend compute.Backend
	name    string // such as "xla:cpu"
	detail  string // description: the hardware, or why auto chose it
	slow    bool   // fallback because XLA is not available
	plugin  string // path of XLA's plugin; empty on pure Go
}

// opener opens an engine.
type opener func(context.Context, *slog.Logger) (*engine, error)

var openers = map[string]opener{
	XLA: opensXLA(plugin.CPU, 0, plugin.Choices{}),
	// As many devices as a model can use. The number does not depend on how many are used, because XLA sizes its thread
	// pool by it, and sums in matrix products may depend on the threads.
	xlaDevices: opensXLA(plugin.CPU, tree.Leaves, plugin.Choices{}),
	CUDA:       opensXLA(plugin.CUDA, 0, plugin.Choices{}),
	Go:         openGo,
}

// opensXLA finds or installs a plugin and starts it.
func opensXLA(kind plugin.Kind, devices int, choices plugin.Choices) opener {
	return func(ctx context.Context, log *slog.Logger) (*engine, error) {
		return startPlugin(ctx, kind, devices, choices, log)
	}
}

// engines holds the process's backends by name. They are never closed: a PJRT client
// holds thread pools and, on a GPU, most of the memory, and must outlive its buffers,
// which may be garbage collected long after the last device was closed.
type engines map[string]*engineEntry

type engineEntry struct {
	lock   chan struct{} // semaphore of size one that protects engine
	open   opener
	engine *engine

	choices plugin.Choices // of a GPU's kernels
}

var process = newEngines(openers)

func newEngines(openers map[string]opener) engines {
	e := engines{}
	for name, f := range openers {
		e[name] = &engineEntry{lock: make(chan struct{}, 1), open: f}
	}
	e[Auto] = &engineEntry{lock: make(chan struct{}, 1), open: e.chooseAuto}
	return e
}

// OpenDevice opens a device on a backend: "auto" or "", "xla", "cuda" or "go". With auto
// it logs the chosen backend and the reason. XLA's plugin is installed if there is none.
// Closing the device does not close the backend, which other devices share. The log may
// be nil.
func OpenDevice(ctx context.Context, choice string, log *slog.Logger) (*device.Device, error) {
	return process.device(ctx, choice, log)
}

func (e engines) device(ctx context.Context, choice string, log *slog.Logger) (*device.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if choice == "" {
		choice = Auto
	}
	found, err := e.get(ctx, choice, log)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if choice == Auto {
		line := []any{"backend", found.name, "why", found.detail}
		if found.slow {
			line = append(line, "faster", xlaHint)
		}
		log.Info("backend chosen", line...)
	}
	return device.New(found.backend, found.name), nil
}

// several is device where a model's work is divided as for several devices.
func (e engines) several(ctx context.Context, choice string, log *slog.Logger) (*device.Device, error) {
	auto := choice == "" || choice == Auto
	if !auto && choice != XLA {
		return e.device(ctx, choice, log)
	}
	found, err := e.get(ctx, xlaDevices, cmp.Or(log, slog.New(slog.DiscardHandler)))
	switch {
	case auto && errors.Is(err, ErrUnavailable):
		return e.device(ctx, choice, log)
	case err != nil:
		return nil, fmt.Errorf("vlm: %w", err)
	}
	return device.New(found.backend, found.name), nil
}

// chooseAuto chooses XLA on the CPU if it is available, else pure Go. The choice holds for
// the whole process, because models that are trained together must run on the same
// backend. A damaged plugin is an error: deleting a file is better than training 20
// times slower.
func (e engines) chooseAuto(ctx context.Context, log *slog.Logger) (*engine, error) {
	found, err := e.get(ctx, XLA, log)
	if err == nil {
		auto := *found
		auto.detail = "plugin found: " + found.detail
		return &auto, nil
	}
	if !errors.Is(err, ErrUnavailable) {
		return nil, err
	}
	why := err
	if found, err = e.get(ctx, Go, log); err != nil {
		return nil, err
	}
	return &engine{backend: found.backend, name: found.name, detail: why.Error(), slow: true}, nil
}

// Plugin returns the path of XLA's plugin of an opened device's backend; "" for none.
func Plugin(ctx context.Context, name string) (string, error) { return process.plugin(ctx, name) }

// get returns the process's engine of that name; the first call opens it. Failures are
// not cached: the next call tries again.
func (e engines) get(ctx context.Context, name string, log *slog.Logger) (*engine, error) {
	s := e[name]
	if s == nil {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(e)), func(name string) bool { return name == xlaDevices })
		return nil, fmt.Errorf("%w %q: must be one of %s", ErrUnknown, name, strings.Join(names, ", "))
	}
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.engine != nil {
		return s.engine, nil
	}
	if ctx.Err() != nil { // select may choose either case if both are ready
		return nil, context.Cause(ctx)
	}
	found, err := s.open(ctx, log)
	if err != nil {
		return nil, err
	}
	s.engine = found
	return found, nil
}

// plugin returns the path of the plugin of the opened engine with that name; "" for none.
func (e engines) plugin(ctx context.Context, name string) (string, error) {
	for _, s := range e {
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		found := s.engine
		<-s.lock
		if found != nil && found.name == name && found.plugin != "" {
			return found.plugin, nil
		}
	}
	return "", nil
}

// openGo opens the pure-Go backend. Operations must run sequentially: in parallel they
// can deadlock waiting for workers.
func openGo(context.Context, *slog.Logger) (*engine, error) {
	b, err := gobackend.New("ops_sequential")
	if err != nil {
		return nil, fmt.Errorf("backend go: %w", err)
	}
	return &engine{backend: b, name: "go", detail: "pure Go"}, nil
}
