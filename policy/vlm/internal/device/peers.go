package device

import (
	"fmt"

	"github.com/gomlx/compute"
)

// Count returns the number of devices of the backend. On the pure-Go backend there is no
// limit (see Peers), and Count is 0.
func (d *library) Count() int {
	if d.pure {
		return 0
	}
	return d.backend.NumDevices()
}

// Peers returns n devices of d's backend, beginning with d, that run the same compiled
// programs. The pure-Go backend has one device; its peers are goroutines with arrays of
// their own.
func (d *Device) Peers(n int) ([]*Device, error) {
	if most := d.Count(); n < 1 || !d.pure && n > most {
		return nil, fmt.Errorf("device: %d devices of %s, must be from 1 to %d", n, d.name, most)
	}
	out := []*Device{d}
	for i := 1; i < n; i++ {
		p := &Device{library: d.library}
		if !d.pure {
			p.num = compute.DeviceNum(i)
		}
		out = append(out, p)
	}
	return out, nil
}

// Copy copies a float32 array to another device of its backend.
func Copy(a *Array, to *Device) (*Array, error) {
	if a == nil || a.buffer == nil {
		return nil, fmt.Errorf("%w: copy of a freed array", ErrClosed)
	}
	if to.dry {
		return &Array{dev: to, shape: a.shape}, nil
	}
	if to.pure || a.dev.num == to.num {
		x, err := ReadNew[float32](a)
		if err != nil {
			return nil, err
		}
		return Put(to, x, a.shape.Dimensions...)
	}
	var buf compute.Buffer
	err := catch("copy", func() (err error) {
		buf, err = a.buffer.CopyToDevice(to.num)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newArray(to, buf, a.shape), nil
}
