// Package usage reports the memory and CPU time that this process uses. Figures
// that the system does not report are 0.
package usage

// Resident returns the process's resident memory in bytes.
func Resident() int64 { return kilobytes("/proc/self/status", "VmRSS:") }
