package device

import "unsafe"

// Keep bounds the number of executables that a device keeps.
func (d *Device) Keep(most int) { d.maxExecutables = most }

// Kept is that bound.
func (d *Device) Kept() int { return d.maxExecutables }

// Place is where XLA keeps an array on the CPU, nil on other backends.
func (a *Array) Place() unsafe.Pointer { return a.hostAddress() }

// EqualGPUs is CheckEqualGPUs for another driver and environment.
var EqualGPUs = equalGPUs
