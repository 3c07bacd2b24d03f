package plugin

import (
	"os"
	"strings"
	"sync"

	"vagen/internal/field"
)

// AllowTF32 lets a GPU round the inputs of float32 matrix products to TF32 when
// set to other than "", "0" or "false".
const AllowTF32 = "VAGEN_TF32"

// Choices says how XLA chooses the kernel of each matrix product on a GPU: by fixed rules,
// which is the zero value, from a file, or by measuring, with a file for the results. XLA
// writes text if the file's name ends with .txt or .textproto.
type Choices struct {
	Load    string // file of choices; products that it does not contain follow the fixed rules
	Measure string // file that XLA rewrites after every compilation
}

// String describes the choices for messages.
func (c Choices) String() string {
	switch {
	case c.Measure != "":
		return "measuring into " + c.Measure
	case c.Load != "":
		return "the file " + c.Load
	}
	return "fixed rules"
}

// flag is one of XLA's flags.
type flag struct{ name, value string }

// gpuFlags returns defaults for XLA's flags on a GPU, measured on an H100 with a Llama of
// 135 million parameters (8 rows of 256 tokens).
func (c Choices) gpuFlags() []flag {
	// Deterministic operations. Without this flag two runs of the same seed differed
	// after one step; with it they were equal. The time per step did not change by more
	// than its variation.
	deterministic := flag{"xla_gpu_deterministic_ops", "true"}
	// Triton's matrix products ignore the switch for TF32.
	triton := flag{"xla_gpu_enable_triton_gemm", "false"}
	// Level 0 looks at no product; XLA's default compares the candidates' results, too.
	const none, compared = "0", "4"
	switch {
	case c.Measure != "":
		// XLA measures nothing if deterministic operations are required.
		return []flag{{"xla_gpu_autotune_level", compared}, {"xla_gpu_dump_autotune_results_to", c.Measure}, triton}
	case c.Load != "":
		return []flag{{"xla_gpu_autotune_level", compared}, {"xla_gpu_load_autotune_results_from", c.Load}, deterministic,
			triton}
	}
	// No autotuning. With it the first training step took 45 s instead of 2 s, and the
	// first generation 28 s instead of 4 s, and no step became faster. Besides, a choice
	// by measured time differs from run to run.
	return []flag{{"xla_gpu_autotune_level", none}, deterministic, triton}
}

// choosing are the flags that decide about the choice of kernels. With Choices the user must
// not set them.
var choosing = []string{"xla_gpu_autotune_level", "xla_gpu_deterministic_ops", "xla_gpu_exclude_nondeterministic_ops",
	"xla_gpu_dump_autotune_results_to",
	"xla_gpu_load_autotune_results_from", "xla_gpu_require_complete_aot_autotune_results",
	"xla_gpu_per_fusion_autotune_cache_dir"}

// prepared is what PrepareEnv last wrote to XLA_FLAGS, and what the user had set before. A
// further start after a failed one must not take its flags for the user's.
var prepared struct {
	sync.Mutex
	wrote, user string
}

// PrepareEnv sets the environment variables that XLA reads when a plugin starts,
// unless the user has set them. At that time it is too late for malloc's variables.
func PrepareEnv(p Plugin, kind Kind, choices Choices) error {
	// go-xla's check of a CUDA plugin directs XLA to a folder that exists only on its
	// author's machine, for every plugin under a folder named after NVIDIA.
	setDefault("GOPJRT_CUDA_CHECKS", "0")
	if kind != CUDA {
		return nil
	}
	// NVIDIA's libraries use TF32 by default, which changes log-probs by 0.01. Disable
	// it, as PyTorch does, so that float32 means float32.
	if !switchedOn(AllowTF32) {
		setDefault("NVIDIA_TF32_OVERRIDE", "0")
	}
	prepared.Lock()
	defer prepared.Unlock()
	flags := os.Getenv("XLA_FLAGS")
	if prepared.wrote != "" && flags == prepared.wrote {
		flags = prepared.user
	}
	prepared.user = flags
	given := map[string]bool{}
	for word := range strings.FieldsSeq(flags) {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		given[name] = true
	}
	if err := choices.check(given); err != nil {
		return err
	}
	for _, f := range append([]flag{{"xla_gpu_cuda_data_dir", CUDAData(p)}}, choices.gpuFlags()...) {
		if f.value != "" && !given[f.name] {
			flags += " --" + f.name + "=" + f.value
		}
	}
	prepared.wrote = strings.TrimSpace(flags)
	return os.Setenv("XLA_FLAGS", prepared.wrote)
}

// check returns an error for flags of the user that contradict the choices, and for a name that XLA_FLAGS cannot contain.
func (c Choices) check(given map[string]bool) error {
	if c == (Choices{}) {
		return nil
	}
	var bad field.Checks
	for _, name := range choosing {
		if given[name] {
			bad.Say("$XLA_FLAGS sets --%s, which contradicts the file of kernel choices: remove one of them", name)
		}
	}
	if file := c.Load + c.Measure; strings.ContainsAny(file, " \t\r\n'\"") {
		bad.Say("the file of kernel choices is %q, must be a path without spaces and quotes, "+
			"which $XLA_FLAGS cannot contain", file)
	}
	return bad.Err()
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
