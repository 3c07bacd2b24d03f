//go:build cgo

package backend

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/go-xla/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/plugin"
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
				var log strings.Builder
				_, err := newEngines(openers).device(t.Context(), choice, logTo(&log))
				testkit.Error(t, err, plugin.ErrCorrupt, path, "delete the file and run again")
				require.Empty(t, log.String())
			})
		}
	}
}
