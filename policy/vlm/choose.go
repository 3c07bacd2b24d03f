package vlm

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/fused"
)

// AllDevices selects all local devices of an accelerator, at most eight, and one on a CPU.
const AllDevices = backend.AllDevices

// CompileCacheVariable is the environment variable that replaces the default of
// Options.CompileCache; it has the same values.
const CompileCacheVariable = backend.CacheVariable

// Values of Options.CompileCache other than a folder.
const (
	CompileCacheAuto = backend.CacheAuto // on for the CPU, off for other backends and within go test
	CompileCacheOn   = backend.CacheOn   // in the folder vagen/executables of the user's cache folder
	CompileCacheOff  = backend.CacheOff
)

var (
	// ErrBackend is wrapped by errors about a backend that does not exist.
	ErrBackend = backend.ErrUnknown

	// ErrUnavailable is wrapped by errors about a backend that this machine or program lacks; auto
	// then uses pure Go.
	ErrUnavailable = backend.ErrUnavailable
)

// openDevices opens the model's devices.
func (m *Model) openDevices(ctx context.Context) error {
	o := &m.opts
	if err := fused.CheckVariable(); err != nil {
		return fmt.Errorf("vlm: %w: %w", ErrOption, err)
	}
	opened, err := backend.Open(ctx, backend.Options{
		Backend: o.Backend, Devices: o.Devices, PreferDevices: o.PreferDevices, Divided: o.SameBytes,
		Processes: max(1, o.Nodes.Count), PartPerDevice: o.PartPerDevice, Autotune: o.Autotune,
		AutotuneSHA256: o.AutotuneSHA256, CompileCache: o.CompileCache, Log: o.Log,
	})
	if err != nil {
		return err
	}
	m.opened, m.devices, m.dev = opened, opened.All, opened.All[0]
	if opened.Divided {
		m.parts = opened.Parts
	}
	if o.Continuous && opened.Divided {
		return fmt.Errorf("vlm: %w: Continuous needs one device, there are %d", ErrOption, len(m.devices))
	}
	if o.TokensPerCall > 1 && m.dev.PureGo() {
		return fmt.Errorf("vlm: %w: TokensPerCall is %d, must be 0 or 1 on backend %s", ErrOption, o.TokensPerCall,
			m.dev.Name())
	}
	return nil
}

// Inputs returns what the model was opened from: the folders model and, if they are set,
// critic, reference and adapter, and the file autotune if kernels are chosen from it.
func (m *Model) Inputs() map[string]string {
	paths := map[string]string{"model": m.dir, "critic": m.opts.CriticPath,
		"reference": m.opts.ReferencePath, "adapter": m.opts.Adapter}
	if m.opened != nil {
		paths["autotune"] = m.opened.Kernels()
	}
	maps.DeleteFunc(paths, func(_, path string) bool { return path == "" })
	return paths
}

// ChooseBackend returns the backend that a choice selects on this machine, as Open would:
// "xla:cpu", "xla:cuda" or "go". It installs XLA's plugin if Open would, and logs the
// backend and the reason.
func ChooseBackend(ctx context.Context, choice string, log *slog.Logger) (string, error) {
	d, err := backend.OpenDevice(ctx, choice, log)
	if err != nil {
		return "", err
	}
	defer d.Close()
	return d.Name(), nil
}

// Plugin returns the path of the XLA plugin that runs models on a backend, as
// ChooseBackend and Model.Backend name it. It is "" for pure Go, and for a backend that
// this process has not opened.
func Plugin(ctx context.Context, name string) (string, error) {
	path, err := backend.Plugin(ctx, name)
	if err != nil {
		return "", fmt.Errorf("vlm: %w", err)
	}
	return path, nil
}
