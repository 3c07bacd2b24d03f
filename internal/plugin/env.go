package plugin

import (
	"os"
	"strings"
)

// PrepareEnv sets, where the user has not, the environment that XLA reads when a
// plugin starts. This is the place for further defaults in XLA_FLAGS, each with
// the measurement that speaks for it. It is too late for malloc's variables.
func PrepareEnv(p Plugin, kind Kind) {
	const checks, flags, dataDir = "GOPJRT_CUDA_CHECKS", "XLA_FLAGS", "--xla_gpu_cuda_data_dir"
	// go-xla's check of a CUDA plugin points XLA to a folder of its author's
	// machine, and takes any plugin under a folder named after NVIDIA for one.
	if os.Getenv(checks) == "" {
		_ = os.Setenv(checks, "0")
	}
	old := os.Getenv(flags)
	if data := CUDAData(p); kind == CUDA && data != "" && !strings.Contains(old, dataDir) {
		_ = os.Setenv(flags, strings.TrimSpace(old+" "+dataDir+"="+data))
	}
}
