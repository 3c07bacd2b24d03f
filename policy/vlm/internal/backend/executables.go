package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"vagen/internal/durable"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/exestore"
)

// CacheVariable is the environment variable that replaces the default of Options.CompileCache.
const CacheVariable = "VAGEN_COMPILE_CACHE"

// Values of Options.CompileCache other than a folder.
const (
	CacheAuto = "auto" // on for the CPU, off for other backends and within go test
	CacheOn   = "on"   // in the folder vagen/executables of the user's cache folder
	CacheOff  = "off"
)

// keepExecutables opens the folder of compiled executables. One that the caller has chosen
// must be usable; the default one is only reported.
func (d *Devices) keepExecutables(first *device.Device) error {
	choice := cmp.Or(d.opts.CompileCache, CacheAuto)
	if choice == CacheAuto {
		choice = cmp.Or(os.Getenv(CacheVariable), CacheAuto)
	}
	auto := choice == CacheAuto
	switch {
	case choice == CacheOff, first.PureGo(), // which compiles nothing
		auto && (first.Accelerator() || testing.Testing()):
		return nil
	case d.choices.Measure != "": // a loaded executable's products would not be measured
		d.opts.Log.Info("executables are not kept between processes", "why",
			"kernels of matrix products are measured for Autotune")
		return nil
	}
	dir, level := choice, slog.LevelWarn
	if auto {
		level = slog.LevelDebug
	}
	var err error
	if auto || choice == CacheOn {
		dir, err = os.UserCacheDir()
		dir = filepath.Join(dir, "vagen", "executables")
	}
	o := exestore.Options{Limit: exestore.DefaultLimit, Log: d.opts.Log, Level: level}
	if err == nil && d.choices.Load != "" {
		var sum durable.Sum
		sum, err = durable.SumOf(d.choices.Load)
		o.Choices = sum.SHA256
	}
	var s *exestore.Store
	if err == nil {
		s, err = exestore.Open(dir, o)
	}
	switch {
	case err == nil:
		first.UseStore(s)
		return nil
	case auto:
		if errors.Is(err, exestore.ErrUnsafe) {
			level = slog.LevelWarn
		}
		d.opts.Log.Log(context.Background(), level, "executables are not kept between processes", "why", err)
		return nil
	}
	return fmt.Errorf("vlm: %w: CompileCache is %q: %w", ErrOption, choice, err)
}
