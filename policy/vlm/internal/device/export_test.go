package device

// Keep bounds the number of executables that a device keeps.
func (d *Device) Keep(most int) { d.most = most }
