package vlm

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
	"vagen/policy/vlm/internal/exestore"
)

// CompileCacheVariable is the environment variable that replaces the default of
// Options.CompileCache; it has the same values.
const CompileCacheVariable = "VAGEN_COMPILE_CACHE"

// Values of Options.CompileCache other than a folder.
const (
	CompileCacheAuto = "auto" // on for the CPU, off for other backends and within go test
	CompileCacheOn   = "on"   // in the folder vagen/executables of the user's cache folder
	CompileCacheOff  = "off"
)

// keepExecutables opens the folder of compiled executables. One that the caller has chosen
// must be usable; the default one is only reported.
func (m *Model) keepExecutables() error {
	choice := cmp.Or(m.opts.CompileCache, CompileCacheAuto)
	if choice == CompileCacheAuto {
		choice = cmp.Or(os.Getenv(CompileCacheVariable), CompileCacheAuto)
	}
	auto := choice == CompileCacheAuto
	switch {
	case choice == CompileCacheOff, m.dev.PureGo(), // which compiles nothing
		auto && (m.dev.Accelerator() || testing.Testing()):
		return nil
	case m.choices.Measure != "": // a loaded executable's products would not be measured
		m.opts.Log.Info("executables are not kept between processes", "why", "kernels of matrix products are measured for Autotune")
		return nil
	}
	dir, level := choice, slog.LevelWarn
	if auto {
		level = slog.LevelDebug
	}
	var err error
	if auto || choice == CompileCacheOn {
		dir, err = os.UserCacheDir()
		dir = filepath.Join(dir, "vagen", "executables")
	}
	o := exestore.Options{Limit: exestore.DefaultLimit, Log: m.opts.Log, Level: level}
	if err == nil && m.choices.Load != "" {
		var sum durable.Sum
		sum, err = durable.SumOf(m.choices.Load)
		o.Choices = sum.SHA256
	}
	var s *exestore.Store
	if err == nil {
		s, err = exestore.Open(dir, o)
	}
	switch {
	case err == nil:
		m.dev.UseStore(s)
		return nil
	case auto:
		if errors.Is(err, exestore.ErrUnsafe) {
			level = slog.LevelWarn
		}
		m.opts.Log.Log(context.Background(), level, "executables are not kept between processes", "why", err)
		return nil
	}
	return fmt.Errorf("vlm: %w: CompileCache is %q: %w", ErrOption, choice, err)
}
