package vlm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/simplego"

	"vagen/policy/vlm/internal/device"
)

// Names of the engines that run a model's graphs.
const (
	backendAuto = "auto" // XLA on the CPU if it can be had, else Go
	backendXLA  = "xla"  // XLA on the CPU
	backendCUDA = "cuda" // XLA on an NVIDIA GPU
	backendGo   = "go"   // GoMLX in pure Go: needs nothing, 15 to 25 times slower
)

var (
	// ErrBackend is wrapped by errors about a backend that does not exist.
	ErrBackend = errors.New("unknown backend")

	// errNoEngine is wrapped when a backend cannot be had on this machine, for
	// which auto has an answer.
	errNoEngine = errors.New("backend is not available")
)

// engine is a backend that all devices of its kind in the process share.
type engine struct {
	backend backends.Backend
	name    string // such as "xla:cpu"
	detail  string // what it runs on, for people
}

// engines keeps the process's backends. They live as long as it does: a PJRT
// client holds thread pools, and on a GPU most of the memory, and its buffers
// may be collected long after the last device was closed, which the client
// must not be destroyed before.
type engines struct {
	slots map[string]*slot
}

type slot struct {
	turn chan struct{} // holds the token of whoever may look
	open opener
	have *engine
}

// opener makes an engine.
type opener func(context.Context, *slog.Logger) (*engine, error)

var openers = map[string]opener{backendXLA: openXLA, backendCUDA: openCUDA, backendGo: openGo}

func newEngines(openers map[string]opener) *engines {
	e := &engines{slots: map[string]*slot{}}
	for name, f := range openers {
		e.slots[name] = &slot{turn: make(chan struct{}, 1), open: f}
	}
	return e
}

var processEngines = newEngines(openers)

// openDevice opens a device on a backend: "auto" or "", "xla", "cuda" or "go".
// With auto it tells log, in one line, which backend that is and why. XLA's
// plugin is installed if there is none. Closing the device leaves the backend,
// which other devices share.
func openDevice(ctx context.Context, choice string, log *slog.Logger) (*device.Device, error) {
	return processEngines.device(ctx, choice, log)
}

func (e *engines) device(ctx context.Context, choice string, log *slog.Logger) (*device.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var found *engine
	var err error
	switch {
	case choice == "" || choice == backendAuto:
		found, err = e.auto(ctx, log)
	case e.slots[choice] != nil:
		found, err = e.get(ctx, choice, log)
	default:
		return nil, fmt.Errorf("vlm: %w %q: must be %s, %s", ErrBackend, choice, backendAuto,
			strings.Join(slices.Sorted(maps.Keys(e.slots)), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	return device.New(found.backend, found.name), nil
}

// auto takes XLA on the CPU if it can be had, else pure Go. A damaged plugin is
// an error: it is better to delete a file than to train 20 times slower.
func (e *engines) auto(ctx context.Context, log *slog.Logger) (*engine, error) {
	found, err := e.get(ctx, backendXLA, log)
	if err == nil {
		log.Info("backend chosen", "backend", found.name, "why", "its plugin is there: "+found.detail)
		return found, nil
	}
	if !errors.Is(err, errNoEngine) {
		return nil, err
	}
	why := err
	if found, err = e.get(ctx, backendGo, log); err != nil {
		return nil, err
	}
	log.Info("backend chosen", "backend", found.name, "why", why.Error(), "faster", xlaHint)
	return found, nil
}

// get returns the process's engine of that name and opens it at the first call.
// A failure is not kept: the next call tries again.
func (e *engines) get(ctx context.Context, name string, log *slog.Logger) (*engine, error) {
	s := e.slots[name]
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.have != nil {
		return s.have, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	found, err := s.open(ctx, log)
	if err != nil {
		return nil, err
	}
	s.have = found
	return found, nil
}

// openGo makes the pure-Go backend. Operations must run one after another: run
// in parallel, they can wait for workers that wait for them.
func openGo(context.Context, *slog.Logger) (*engine, error) {
	b, err := construct(func() (backends.Backend, error) { return simplego.New("ops_sequential") })
	if err != nil {
		return nil, fmt.Errorf("backend go: %w", err)
	}
	return &engine{backend: b, name: "go", detail: "pure Go"}, nil
}

// construct calls a constructor of GoMLX, some of which panic.
func construct(f func() (backends.Backend, error)) (b backends.Backend, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = e
				return
			}
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}
