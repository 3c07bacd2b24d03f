package plugin

import (
	"os"
	"strings"
)

// AllowTF32 lets a GPU round the inputs of float32 matrix products to TF32 when
// set to other than "", "0" or "false".
const AllowTF32 = "VAGEN_TF32"

// gpuFlags are defaults of XLA on a GPU, by the flags' names, measured on an
// H100 with a Llama of 135 million parameters (8 rows of 256 tokens).
var gpuFlags = []struct{ name, value string }{
	// Trying out kernels made the first step of training wait for 45 s instead of
	// 2 s, and of writing 28 s instead of 4 s. No step was faster for it. Besides,
	// what is chosen by a stopwatch differs from run to run.
	{"xla_gpu_autotune_level", "0"},
	// Two runs of the same seed differed after one step without it, and were equal
	// with it. Steps took as long, within what they differ by anyway.
	{"xla_gpu_deterministic_ops", "true"},
	// Triton's matrix products take no notice of the switch for TF32.
	{"xla_gpu_enable_triton_gemm", "false"},
}

// PrepareEnv sets, where the user has not, the environment that XLA reads when a
// plugin starts. It is too late for malloc's variables.
func PrepareEnv(p Plugin, kind Kind) {
	// go-xla's check of a CUDA plugin points XLA to a folder of its author's
	// machine, and takes any plugin under a folder named after NVIDIA for one.
	setDefault("GOPJRT_CUDA_CHECKS", "0")
	if kind != CUDA {
		return
	}
	// NVIDIA's libraries use TF32 unless told otherwise, which moves log-probs by
	// 0.01: float32 is to mean float32, as it does for PyTorch.
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

// switchedOn reports whether a variable is set to something that means yes.
func switchedOn(name string) bool {
	switch strings.ToLower(os.Getenv(name)) {
	case "", "0", "false":
		return false
	}
	return true
}
