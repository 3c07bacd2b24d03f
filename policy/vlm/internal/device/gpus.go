package device

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// CheckEqualGPUs returns an error if the GPUs that this process sees are of different
// models. Programs are compiled for one of them, and a step waits for the slowest. Where
// the driver does not list its GPUs, nothing is checked; numbers in CUDA_VISIBLE_DEVICES
// are taken as a deliberate choice, because they do not follow the driver's order.
func CheckEqualGPUs() error {
	return equalGPUs(os.DirFS("/proc/driver/nvidia/gpus"), os.Getenv("CUDA_VISIBLE_DEVICES"))
}

func equalGPUs(driver fs.FS, visible string) error {
	files, err := fs.Glob(driver, "*/information")
	if err != nil {
		return fmt.Errorf("listing GPUs: %w", err)
	}
	var models []string
	for _, name := range files {
		text, err := fs.ReadFile(driver, name)
		if err != nil {
			continue
		}
		model, uuid := field(string(text), "Model"), field(string(text), "GPU UUID")
		if visible == "" || uuid != "" && strings.Contains(visible, uuid) {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	if models = slices.Compact(models); len(models) > 1 {
		return fmt.Errorf("GPUs are of different models, %s; select equal ones with CUDA_VISIBLE_DEVICES, or use one device",
			strings.Join(models, " and "))
	}
	return nil
}

// field returns the value of a line "name: value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
