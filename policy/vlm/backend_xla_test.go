//go:build cgo

package vlm

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/internal/plugin"
)

func TestInstalledReleaseIsTheOneThatGoXLANames(t *testing.T) {
	require.Equal(t, pjrt.DefaultCPUVersion, plugin.ReleaseVersion)
}

func TestDamagedPluginIsAnErrorAlsoForAuto(t *testing.T) {
	for name, data := range map[string][]byte{
		"a header alone": []byte("\x7fELF\x02\x01\x01"), "text": bytes.Repeat([]byte("x"), 999), "empty": nil,
	} {
		for _, choice := range []string{"auto", "xla"} {
			t.Run(name+" "+choice, func(t *testing.T) {
				path := filepath.Join(withoutPlugin(t), "pjrt_c_api_cpu_plugin.so")
				require.NoError(t, os.WriteFile(path, data, 0o755))
				var log lines
				_, err := newEngines(openers).device(t.Context(), choice, slog.New(&log))
				require.ErrorIs(t, err, plugin.ErrCorrupt)
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, "delete the file and run again")
				require.Empty(t, log.got)
			})
		}
	}
}

func TestEnvironmentOfTheUserIsKept(t *testing.T) {
	root := t.TempDir()
	ptxas := filepath.Join(root, "nvidia", "cu13", "bin", "ptxas")
	require.NoError(t, os.MkdirAll(filepath.Dir(ptxas), 0o755))
	require.NoError(t, os.WriteFile(ptxas, nil, 0o755))
	p := plugin.Plugin{Path: filepath.Join(root, "nvidia", "pjrt_c_api_cuda_plugin.so")}
	ours := "--xla_gpu_cuda_data_dir=" + filepath.Join(root, "nvidia", "cu13")
	for _, c := range []struct {
		kind         plugin.Kind
		before, want string
	}{
		{plugin.CUDA, "", ours},
		{plugin.CUDA, "--xla_dump_to=/d", "--xla_dump_to=/d " + ours},
		{plugin.CUDA, "--xla_gpu_cuda_data_dir=/mine", "--xla_gpu_cuda_data_dir=/mine"},
		{plugin.CPU, "", ""},
		{plugin.CPU, "--xla_dump_to=/d", "--xla_dump_to=/d"},
	} {
		t.Setenv("XLA_FLAGS", c.before)
		t.Setenv("GOPJRT_CUDA_CHECKS", "")
		prepareEnv(p, c.kind)
		require.Equal(t, c.want, os.Getenv("XLA_FLAGS"))
		require.Equal(t, "0", os.Getenv("GOPJRT_CUDA_CHECKS"))
	}
	t.Setenv("GOPJRT_CUDA_CHECKS", "yes")
	prepareEnv(p, plugin.CPU)
	require.Equal(t, "yes", os.Getenv("GOPJRT_CUDA_CHECKS"))
}
