//go:build cgo

package xla

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"

	"vagen/internal/field"
	"vagen/policy/vlm/internal/exestore"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/plugin"
)

// Environment variables about a GPU's memory, under the names that JAX gave them.
const (
	memoryFraction = "XLA_PYTHON_CLIENT_MEM_FRACTION" // in (0, 1]
	preallocate    = "XLA_PYTHON_CLIENT_PREALLOCATE"  // true or false
	allocator      = "XLA_PYTHON_CLIENT_ALLOCATOR"    // default, bfc, platform or cuda_async
)

// defaultMemoryFraction is the default share of a GPU's memory. The rest is for the
// driver and for libraries that allocate by themselves. JAX's default of 0.75
// leaves room for a second framework.
const defaultMemoryFraction = 0.9

// Start loads a verified plugin and creates the backend for a kind of hardware. It
// sets the environment variables that XLA reads, unless the user has set them.
//
// The plugin is named by its path. By name, GoMLX would load every plugin on the
// search path, also unverified ones, to test whether it loads, and might start an
// installation of its own. On the CPU, Start enables shared buffers, which GoMLX
// only does for the name "cpu", and registers the functions of package fused; if
// that fails, the reason is logged at debug level.
//
// A GPU's client has all visible GPUs. On the CPU, devices is the number of devices, which
// share its processors; 0 is the plugin's default. choices are for a GPU only.
func Start(
	p plugin.Plugin, kind plugin.Kind, devices int, choices plugin.Choices, log *slog.Logger,
) (b compute.Backend, err error) {
	if strings.Contains(p.Path, ",") {
		return nil, fmt.Errorf("xla: plugin path %q contains a comma, which GoMLX does not support", p.Path)
	}
	name, options := p.Path+",shared_buffers", pjrt.NamedValuesMap(nil)
	if kind == plugin.CUDA {
		if options, err = gpuOptions(os.Getenv); err != nil {
			return nil, err
		}
		// GoMLX overwrites the option with false, unless the name has it.
		name = fmt.Sprintf("%s,preallocate=%v", p.Path, options["preallocate"])
	}
	if kind == plugin.CPU && devices > 0 {
		options = pjrt.NamedValuesMap{"cpu_device_count": int64(devices)}
	}
	if err := plugin.PrepareEnv(p, kind, choices); err != nil {
		return nil, fmt.Errorf("xla: %w", err)
	}
	defer func() {
		if r := recover(); r != nil { // GoMLX panics
			b, err = nil, fmt.Errorf("%v", r)
		}
		if err != nil && kind == plugin.CUDA {
			err = plugin.ExplainGPU(err)
		}
	}()
	attach(p, log)
	made, err := xla.NewWithOptions(name, options)
	if err != nil {
		return nil, err
	}
	if kind == plugin.CPU {
		if err := fused.Register(p.Path); err != nil {
			log.Debug("decoding without fused kernels", "why", err)
		}
	}
	return made, nil
}

// attach lets package exestore receive the plugin's compilations. A plugin that cannot be
// loaded is reported by NewWithOptions.
func attach(p plugin.Plugin, log *slog.Logger) {
	loaded, err := pjrt.GetPlugin(p.Path)
	if err == nil {
		err = exestore.Attach(loaded, p.SHA256)
	}
	if err != nil {
		log.Debug("executables are not kept between processes", "why", err)
	}
}

// gpuOptions are the options of the client of a GPU.
func gpuOptions(getenv func(string) string) (pjrt.NamedValuesMap, error) {
	out := pjrt.NamedValuesMap{"memory_fraction": float32(defaultMemoryFraction), "preallocate": true}
	var bad field.Checks
	if s := getenv(memoryFraction); s != "" {
		x, err := strconv.ParseFloat(s, 32)
		if err != nil || !(x > 0 && x <= 1) {
			bad.Say("$%s is %q, must be a number above 0 and at most 1", memoryFraction, s)
		}
		out["memory_fraction"] = float32(x)
	}
	if s := getenv(preallocate); s != "" {
		on, err := strconv.ParseBool(s)
		if err != nil {
			bad.Say("$%s is %q, must be true or false", preallocate, s)
		}
		out["preallocate"] = on
	}
	switch s := getenv(allocator); s {
	case "":
	case "default", "bfc", "platform", "cuda_async":
		out["allocator"] = s
	default:
		bad.Say("$%s is %q, must be default, bfc, platform or cuda_async", allocator, s)
	}
	return out, bad.Err()
}
