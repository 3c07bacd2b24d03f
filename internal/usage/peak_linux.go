package usage

// PeakResident returns the maximum resident memory of the process in bytes. It does not use
// getrusage, whose value starts with the peak of the parent process.
func PeakResident() int64 { return kilobytes("/proc/self/status", "VmHWM:") }
