package exestore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vagen/internal/regular"
)

// version is that of the format of files and of what keys are made of.
const version = 1

// key identifies an executable: a SHA-256 of everything that decides its code.
type key [sha256.Size]byte

func (k key) String() string { return hex.EncodeToString(k[:]) }

// newKey returns the key of parts, whose order and number must not vary within a version.
func newKey(parts ...string) (k key) {
	h := sha256.New()
	length := func(n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	length(version)
	for _, p := range parts {
		length(len(p))
		_, _ = io.WriteString(h, p)
	}
	h.Sum(k[:0])
	return k
}

// machine identifies the processors and the driver of GPUs. XLA generates code for the
// processor of this machine and divides loops by the number of processors.
var machine = sync.OnceValue(func() string {
	list, _ := regular.ReadFile("/proc/cpuinfo") // supported has tested it
	driver, _ := regular.ReadFile("/proc/driver/nvidia/version")
	return strings.Join(append(processors(string(list)), runtime.GOARCH, strconv.Itoa(runtime.NumCPU()), string(driver)),
		"\n")
})

// supported returns why executables cannot be kept on this machine; "" if they can.
func supported() string {
	list, err := regular.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "the processor cannot be identified: " + err.Error()
	}
	if len(processors(string(list))) == 0 {
		return "the processor cannot be identified: /proc/cpuinfo has no model and no features"
	}
	return ""
}

// processorFields are the fields of /proc/cpuinfo that identify a processor. Others, such
// as its frequency, change while it runs.
var processorFields = []string{
	"vendor_id", "cpu family", "model", "model name", "stepping", "flags", // x86
	"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", // ARM
}

// processors returns the distinct identifying lines of Linux's list of processors.
func processors(list string) []string {
	var out []string
	for line := range strings.Lines(list) {
		name, value, _ := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		line = name + ": " + strings.TrimSpace(value)
		if slices.Contains(processorFields, name) && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// environment lists the variables that XLA, or a library that it compiles with, reads.
// Too many only cost a compilation, so names are matched by prefix.
func environment() string {
	prefixes := []string{"XLA_", "TF_", "TSL_", "NVIDIA_TF32_OVERRIDE=", "NPROC=", "PJRT_NPROC=", "OMP_", "ONEDNN_",
		"DNNL_", "CUBLAS", "CUDNN_"}
	all := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(v, p) })
	})
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// dumps reports whether XLA writes files about every compilation, which loading omits.
func dumps() bool { return strings.Contains(os.Getenv("XLA_FLAGS"), "xla_dump") }
