package plugin

import (
	"os"
	"strings"
)

// AllowTF32 lets a GPU round the inputs of float32 matrix products to TF32 when
// set to other than "", "0" or "false".
const AllowTF32 = "VAGEN_TF32"

// gpuFlags are defaults for XLA's flags on a GPU, measured on an H100 with a Llama of
// 135 million parameters (8 rows of 256 tokens).
var gpuFlags = []struct{ name, value string }{
	// No autotuning. With it the first training step took 45 s instead of 2 s, and the
	// first generation 28 s instead of 4 s, and no step became faster. Besides, a choice
	// by measured time differs from run to run.
	{"xla_gpu_autotune_level", "0"},
	// Deterministic operations. Without this flag two runs of the same seed differed
	// after one step; with it they were equal. The time per step did not change by more
	// than its variation.
	{"xla_gpu_deterministic_ops", "true"},
	// Triton's matrix products ignore the switch for TF32.
	{"xla_gpu_enable_triton_gemm", "false"},
}

// PrepareEnv sets the environment variables that XLA reads when a plugin starts,
// unless the user has set them. At that time it is too late for malloc's variables.
func PrepareEnv(p Plugin, kind Kind) {
	// go-xla's check of a CUDA plugin directs XLA to a folder that exists only on its
	// author's machine, for every plugin under a folder named after NVIDIA.
	setDefault("GOPJRT_CUDA_CHECKS", "0")
	if kind != CUDA {
		return
	}
	// NVIDIA's libraries use TF32 by default, which changes log-probs by 0.01. Disable
	// it, as PyTorch does, so that float32 means float32.
	if !switchedOn(AllowTF32) {
		setDefault("NVIDIA_TF32_OVERRIDE", "0")
	}
	flags := os.Getenv("XLA_FLAGS")
	add := func(name, value string) {
		if value != "" && !strings.Contains(flags, "--"+name+"=") {
			flags += " --" + name + "=" + value
		}
	}
	add("xla_gpu_cuda_data_dir", CUDAData(p))
	for _, f := range gpuFlags {
		add(f.name, f.value)
	}
	_ = os.Setenv("XLA_FLAGS", strings.TrimSpace(flags))
}

func setDefault(name, value string) {
	if os.Getenv(name) == "" {
		_ = os.Setenv(name, value)
	}
}

// switchedOn reports whether a variable is set to other than "", "0" or "false".
func switchedOn(name string) bool {
	switch strings.ToLower(os.Getenv(name)) {
	case "", "0", "false":
		return false
	}
	return true
}
