package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironmentOfTheUserIsKept(t *testing.T) {
	root := t.TempDir()
	ptxas := filepath.Join(root, "nvidia", "cu13", "bin", "ptxas")
	require.NoError(t, os.MkdirAll(filepath.Dir(ptxas), 0o755))
	require.NoError(t, os.WriteFile(ptxas, nil, 0o755))
	p := Plugin{Path: filepath.Join(root, "nvidia", "pjrt_c_api_cuda_plugin.so")}
	data := "--xla_gpu_cuda_data_dir=" + filepath.Join(root, "nvidia", "cu13")
	const tune, rest = "--xla_gpu_autotune_level=0", "--xla_gpu_deterministic_ops=true --xla_gpu_enable_triton_gemm=false"
	for _, c := range []struct {
		kind         Kind
		before, want string
	}{
		{CUDA, "", data + " " + tune + " " + rest},
		{CUDA, "--xla_dump_to=/d", "--xla_dump_to=/d " + data + " " + tune + " " + rest},
		{CUDA, "--xla_gpu_cuda_data_dir=/mine --xla_gpu_autotune_level=4",
			"--xla_gpu_cuda_data_dir=/mine --xla_gpu_autotune_level=4 " + rest},
		{CPU, "", ""},
		{CPU, "--xla_dump_to=/d", "--xla_dump_to=/d"},
	} {
		t.Setenv("XLA_FLAGS", c.before)
		t.Setenv("GOPJRT_CUDA_CHECKS", "")
		require.NoError(t, PrepareEnv(p, c.kind, Choices{}))
		require.Equal(t, c.want, os.Getenv("XLA_FLAGS"))
		require.Equal(t, "0", os.Getenv("GOPJRT_CUDA_CHECKS"))
	}
	t.Setenv("GOPJRT_CUDA_CHECKS", "yes")
	require.NoError(t, PrepareEnv(p, CPU, Choices{}))
	require.Equal(t, "yes", os.Getenv("GOPJRT_CUDA_CHECKS"))
}

func TestFloat32IsNotTF32UnlessAllowed(t *testing.T) {
	const override = "NVIDIA_TF32_OVERRIDE"
	for _, c := range []struct {
		kind                 Kind
		allow, before, after string
	}{
		{CUDA, "", "", "0"},
		{CUDA, "false", "", "0"},
		{CUDA, "1", "", ""},
		{CUDA, "", "1", "1"},
		{CPU, "", "", ""},
	} {
		t.Setenv("XLA_FLAGS", "")
		t.Setenv(AllowTF32, c.allow)
		t.Setenv(override, c.before)
		require.NoError(t, PrepareEnv(Plugin{}, c.kind, Choices{}))
		require.Equal(t, c.after, os.Getenv(override), "%+v", c)
	}
}

func TestKernelsAreChosenFromAFileOrMeasuredIntoOne(t *testing.T) {
	for _, c := range []struct {
		choices Choices
		want    string
	}{
		// Choices of a file hold, and products that it lacks follow a fixed rule, because
		// operations are deterministic.
		{Choices{Load: "/a/k.txt"}, "--xla_gpu_autotune_level=4 --xla_gpu_load_autotune_results_from=/a/k.txt --xla_gpu_deterministic_ops=true --xla_gpu_enable_triton_gemm=false"},
		{Choices{Measure: "/a/k.txt"},
			"--xla_gpu_autotune_level=4 --xla_gpu_dump_autotune_results_to=/a/k.txt --xla_gpu_enable_triton_gemm=false"},
	} {
		t.Setenv("XLA_FLAGS", "")
		require.NoError(t, PrepareEnv(Plugin{}, CUDA, c.choices))
		require.Equal(t, c.want, os.Getenv("XLA_FLAGS"))
	}
	t.Setenv("XLA_FLAGS", "--xla_gpu_autotune_level=2 --xla_gpu_deterministic_ops=true")
	err := PrepareEnv(Plugin{}, CUDA, Choices{Load: "/a/my kernels"})
	for _, word := range []string{"xla_gpu_autotune_level", "xla_gpu_deterministic_ops", `"/a/my kernels"`} {
		require.ErrorContains(t, err, word)
	}
}

func TestASecondStartDoesNotTakeTheFlagsOfTheFirstForTheUsers(t *testing.T) {
	t.Setenv("XLA_FLAGS", "--xla_dump_to=/d")
	require.NoError(t, PrepareEnv(Plugin{}, CUDA, Choices{Measure: "/k"}))
	require.NoError(t, PrepareEnv(Plugin{}, CUDA, Choices{}))
	require.Equal(t, "--xla_dump_to=/d --xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true --xla_gpu_enable_triton_gemm=false", os.Getenv("XLA_FLAGS"))
}
