package backend

import (
	"context"
	"fmt"
	"log/slog"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/tree"
)

// AllDevices selects all local devices of an accelerator, at most eight, and one on a CPU.
const AllDevices = -1

// Options select devices and how programs are compiled on them; see vlm.Options.
type Options struct {
	Backend       string
	Devices       int // 1, 2, 4, 8 or AllDevices
	PreferDevices int
	Divided       bool // divide work on one device as on several
	Processes     int  // that train together, at least 1
	PartPerDevice bool

	Autotune, AutotuneSHA256, CompileCache string
	Log                                    *slog.Logger // not nil
}

// Devices are the opened devices of one model.
type Devices struct {
	All     []*device.Device
	Divided bool // work is divided into Parts
	Parts   int

	choices plugin.Choices // of a GPU's kernels
	opts    Options
}

// Open opens the devices of a model. Errors about options wrap ErrOption.
func Open(ctx context.Context, o Options) (*Devices, error) {
	d := &Devices{opts: o, Divided: o.Divided || o.Devices > 1 || o.Processes > 1}
	first, err := d.openFirst(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.openOthers(first); err != nil {
		first.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the devices, and writes the choices of kernels measured so far to the file that
// the options name.
func (d *Devices) Close() error {
	d.All[0].Close()
	return d.keepMeasured()
}

// Kernels returns the file from which kernels are chosen; "" for none.
func (d *Devices) Kernels() string { return d.choices.Load }

// openOthers opens further devices and the store of executables.
func (d *Devices) openOthers(first *device.Device) error {
	o := &d.opts
	n := max(1, o.Devices)
	if o.Devices == AllDevices {
		n = d.allDevices(first)
		d.Divided = d.Divided || n > 1
	}
	if most := first.Count(); !first.PureGo() && n > most {
		return fmt.Errorf("vlm: %w: Devices is %d, but %s has %d", ErrOption, n, first.Name(), most)
	}
	if n > 1 && first.Accelerator() {
		if err := device.CheckEqualGPUs(); err != nil {
			return fmt.Errorf("vlm: %w: Devices is %d: %w", ErrOption, n, err)
		}
	}
	if d.Parts = tree.Leaves; o.PartPerDevice {
		d.Parts = n * o.Processes
	}
	var err error
	if d.All, err = first.Peers(n); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if err := d.keepExecutables(first); err != nil {
		return err
	}
	if n > 1 {
		o.Log.Info("several devices", "backend", first.Name(), "devices", n)
	}
	return nil
}

// openFirst opens the first device.
func (d *Devices) openFirst(ctx context.Context) (*device.Device, error) {
	o := &d.opts
	switch {
	case o.Backend == CUDA:
		want, err := o.kernelChoices()
		if err != nil {
			return nil, err
		}
		first, choices, err := process.tuned(ctx, want, o.Log)
		if err != nil {
			return nil, err
		}
		if d.choices = choices; choices.Measure != "" {
			first.CompileOneByOne()
			o.Log.Warn("kernels of matrix products are measured: this run cannot be repeated byte for byte, "+
				"later runs with the file can", "autotune", o.Autotune)
		}
		return first, nil
	case d.Divided:
		return process.several(ctx, o.Backend, o.Log)
	}
	return process.device(ctx, o.Backend, o.Log)
}

// allDevices returns the number of devices that AllDevices selects.
func (d *Devices) allDevices(first *device.Device) int {
	o, have := &d.opts, 1
	if first.Accelerator() {
		have = min(first.Count(), tree.Leaves/o.Processes)
	}
	want := o.PreferDevices
	switch {
	case want < 1:
	case want <= have && tree.Check(want*o.Processes) == nil:
		return want
	default:
		o.Log.Info("another number of devices is used than preferred", "preferred", want, "devices", tree.Largest(have))
		return tree.Largest(have)
	}
	if n := tree.Largest(have); n < have {
		o.Log.Warn("some devices are not used: their number must be 1, 2, 4 or 8", "devices", have, "used", n)
	}
	return tree.Largest(have)
}
