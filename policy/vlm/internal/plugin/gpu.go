package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// leastDriver is the oldest major version of NVIDIA's driver that the pinned libraries run on.
const leastDriver = 580

// machine is what is known of a machine's GPUs before a plugin is loaded.
type machine struct {
	files fs.FS // the root of the file system
	smi   bool  // nvidia-smi is installed
}

func thisMachine() machine {
	_, err := exec.LookPath("nvidia-smi")
	return machine{os.DirFS("/"), err == nil}
}

// hasGPU reports whether there seems to be an NVIDIA GPU.
func (m machine) hasGPU() bool {
	for _, pattern := range []string{"dev/nvidia*", "dev/dxg"} {
		if found, _ := fs.Glob(m.files, pattern); len(found) > 0 {
			return true
		}
	}
	return m.smi
}

// version finds the version in the driver's own description, such as "NVRM version: NVIDIA
// UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 …".
var version = regexp.MustCompile(`\s(\d+)\.\d+(\.\d+)?\s`)

// driver returns the version of NVIDIA's kernel driver. It is not found where the driver is
// not part of this system, such as under WSL.
func (m machine) driver() (name string, major int, ok bool) {
	raw, err := fs.ReadFile(m.files, "proc/driver/nvidia/version")
	if err != nil {
		return "", 0, false
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	found := version.FindStringSubmatch(line)
	if found == nil {
		return "", 0, false
	}
	major, err = strconv.Atoi(found[1])
	return strings.TrimSpace(found[0]), major, err == nil
}

// check returns why the pinned CUDA plugin cannot run on a machine, before gigabytes are
// downloaded for it.
func (m machine) check() error {
	if !m.hasGPU() {
		return fmt.Errorf("no NVIDIA GPU was found: neither /dev/nvidia* nor /dev/dxg exists, and nvidia-smi is not installed")
	}
	if name, major, ok := m.driver(); ok && major < leastDriver {
		return fmt.Errorf("NVIDIA's driver is %s, must be %d or newer", name, leastDriver)
	}
	return nil
}

// RequireGPU returns an error if this machine has no NVIDIA GPU. It says nothing about the
// driver: a plugin of the user's own may need another one than the pinned plugin.
func RequireGPU() error {
	if m := thisMachine(); !m.hasGPU() {
		return m.check()
	}
	return nil
}

// ExplainGPU adds to an error of a CUDA plugin's start what this machine lacks, which XLA
// only says on standard error.
func ExplainGPU(err error) error { return thisMachine().explain(err) }

func (m machine) explain(err error) error {
	switch why := m.check(); {
	case err == nil:
		return nil
	case why != nil:
		return fmt.Errorf("%w (%w)", why, err)
	case strings.Contains(err.Error(), "RESOURCE_EXHAUSTED") ||
		strings.Contains(strings.ToLower(err.Error()), "out of memory"):
		return fmt.Errorf("the GPU has too little free memory: end other programs on it, or set $XLA_PYTHON_CLIENT_MEM_FRACTION or $XLA_PYTHON_CLIENT_PREALLOCATE=false (%w)", err)
	}
	if _, _, ok := m.driver(); !ok {
		return fmt.Errorf("the version of NVIDIA's driver is unknown; it must be %d or newer, and libcuda.so.1 must be on the loader's path (%w)", leastDriver, err)
	}
	return fmt.Errorf("%w; check that the GPU is visible (nvidia-smi, $CUDA_VISIBLE_DEVICES)", err)
}
