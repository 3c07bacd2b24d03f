package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/plugin"
)

// measuring is the prefix of the file that XLA rewrites while it measures. It is copied to
// the file that Options.Autotune names when the model is closed.
const measuring = ".measuring-"

// kernelChoices returns how kernels are chosen: from the file that the options name if it
// exists, else by measuring.
func (o *Options) kernelChoices() (plugin.Choices, error) {
	if o.Autotune == "" {
		return plugin.Choices{}, nil
	}
	path, err := filepath.Abs(o.Autotune)
	if err != nil {
		return plugin.Choices{}, fmt.Errorf("vlm: Autotune: %w", err)
	}
	sum, err := durable.SumOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.AutotuneSHA256 != "":
		return plugin.Choices{}, fmt.Errorf("vlm: %w: Autotune is %s, which does not exist, but AutotuneSHA256 is %s",
			ErrOption, path, o.AutotuneSHA256)
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return plugin.Choices{}, fmt.Errorf("vlm: %w: Autotune is %s: %w", ErrOption, path, err)
		}
		return plugin.Choices{Measure: filepath.Join(filepath.Dir(path), measuring+filepath.Base(path))}, nil
	case err != nil:
		return plugin.Choices{}, fmt.Errorf("vlm: Autotune: %w", err)
	case o.AutotuneSHA256 != "" && o.AutotuneSHA256 != sum.SHA256:
		return plugin.Choices{}, fmt.Errorf("vlm: %w: Autotune is %s with SHA-256 %s, AutotuneSHA256 is %s", ErrOption, path,
			sum.SHA256, o.AutotuneSHA256)
	}
	return plugin.Choices{Load: path}, nil
}

// tuned opens a device on a GPU whose kernels are chosen as given, and returns how they are
// chosen. XLA reads that once, so all models of a process must have the same choices; while
// it measures, later models continue, although the file may exist by then.
func (e engines) tuned(
	ctx context.Context, want plugin.Choices, log *slog.Logger,
) (*device.Device, plugin.Choices, error) {
	if _, err := e.choose(ctx, want); err != nil {
		return nil, want, err
	}
	d, err := e.device(ctx, CUDA, log)
	if err != nil {
		return nil, want, err
	}
	got, err := e.choose(ctx, want) // another goroutine may have chosen in between
	return d, got, err
}

func (e engines) choose(ctx context.Context, want plugin.Choices) (plugin.Choices, error) {
	s := e[CUDA]
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return want, fmt.Errorf("vlm: %w", context.Cause(ctx))
	}
	switch {
	case s.choices == want:
	case s.engine == nil:
		s.choices, s.open = want, opensXLA(plugin.CUDA, 0, want)
	case want.Load != "" && measuredFile(s.choices) == want.Load:
	default:
		return want, fmt.Errorf("vlm: %w: Autotune asks for kernels chosen by %s, but the GPU has been started in this process with kernels chosen by %s, which hold until the program ends",
			ErrOption, want, s.choices)
	}
	return s.choices, nil
}

// measuredFile is the file that receives measured choices; "" if nothing is measured.
func measuredFile(c plugin.Choices) string {
	if c.Measure == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(c.Measure), strings.TrimPrefix(filepath.Base(c.Measure), measuring))
}

// keepMeasured writes the choices measured so far to the file that the options name.
func (d *Devices) keepMeasured() error {
	to := measuredFile(d.choices)
	if to == "" {
		return nil
	}
	raw, err := regular.ReadFile(d.choices.Measure)
	if errors.Is(err, fs.ErrNotExist) {
		d.opts.Log.Warn("no matrix products were measured", "autotune", to)
		return nil
	}
	if err == nil {
		err = durable.WriteFile(to, raw)
	}
	if err = errors.Join(err, os.Remove(d.choices.Measure)); err != nil {
		return fmt.Errorf("vlm: Autotune: %w", err)
	}
	d.opts.Log.Info("the measured kernels of matrix products are kept; further runs use them", "autotune", to)
	return nil
}
