package vlm

import (
	"context"
	"fmt"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/tree"
)

// AllDevices selects all local devices of an accelerator, at most eight, and one on a CPU.
const AllDevices = -1

// openDevices opens the model's devices.
func (m *Model) openDevices(ctx context.Context) error {
	o := &m.opts
	m.tree = o.Devices > 1 || o.SameBytes || o.Nodes.Count > 1
	if err := m.openFirst(ctx); err != nil {
		return err
	}
	if o.TokensPerCall > 1 && m.dev.PureGo() {
		return fmt.Errorf("vlm: %w: TokensPerCall is %d, must be 0 or 1 on backend %s", ErrOption, o.TokensPerCall, m.dev.Name())
	}
	var err error
	n := max(1, o.Devices)
	if o.Devices == AllDevices {
		n = m.allDevices()
		m.tree = m.tree || n > 1
	}
	if most := m.dev.Count(); !m.dev.PureGo() && n > most {
		return fmt.Errorf("vlm: %w: Devices is %d, but %s has %d", ErrOption, n, m.dev.Name(), most)
	}
	if n > 1 && m.dev.Accelerator() {
		if err := device.CheckEqualGPUs(); err != nil {
			return fmt.Errorf("vlm: %w: Devices is %d: %w", ErrOption, n, err)
		}
	}
	if m.leaves = tree.Leaves; o.PartPerDevice {
		m.leaves = n * o.Nodes.Count
	}
	if m.devices, err = m.dev.Peers(n); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if err := m.keepExecutables(); err != nil {
		return err
	}
	if n > 1 {
		o.Log.Info("several devices", "backend", m.dev.Name(), "devices", n)
	}
	return nil
}

// openFirst opens the first device.
func (m *Model) openFirst(ctx context.Context) (err error) {
	o := &m.opts
	switch {
	case o.Backend == backendCUDA:
		want, err := o.kernelChoices()
		if err != nil {
			return err
		}
		d, choices, err := processEngines.tuned(ctx, want, o.Log)
		if err != nil {
			return err
		}
		m.dev, m.choices = d, choices
		if m.choices.Measure != "" {
			m.dev.CompileOneByOne()
			o.Log.Warn("kernels of matrix products are measured: this run cannot be repeated byte for byte, later runs with the file can", "autotune", o.Autotune)
		}
		return nil
	case m.tree:
		m.dev, err = processEngines.several(ctx, o.Backend, o.Log)
	default:
		m.dev, err = processEngines.device(ctx, o.Backend, o.Log)
	}
	return err
}

// allDevices returns the number of devices that AllDevices selects.
func (m *Model) allDevices() int {
	o, have := &m.opts, 1
	if m.dev.Accelerator() {
		have = min(m.dev.Count(), tree.Leaves/o.Nodes.Count)
	}
	want := o.PreferDevices
	switch {
	case want < 1:
	case want <= have && tree.Check(want*o.Nodes.Count) == nil:
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
