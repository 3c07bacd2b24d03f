package vlm

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// Bits of optimised programs are tested where they are made, in package generate.
func TestMain(m *testing.M) {
	devicetest.WithoutLLVM()
	vlmtest.Main(m)
}

func TestXLAIsInstalledWhereItIsRequired(t *testing.T) {
	d := devicetest.Best(t)
	require.True(t, !devicetest.Required() || !d.PureGo(), "the backend is %s", d.Name())
}

// openTiny opens a folder; by default in pure Go, with micro-batches that tiny rows
// fill.
func openTiny(t testing.TB, dir string, o Options) *Model {
	t.Helper()
	if o.Backend == "" {
		o.Backend = backend.Go
	}
	o.MicroTokens, o.HeadTokens = cmp.Or(o.MicroTokens, 128), cmp.Or(o.HeadTokens, 64)
	m, err := Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// newTiny opens the model of a new folder.
func newTiny(t testing.TB, family model.Family, o Options) *Model {
	t.Helper()
	return openTiny(t, vlmtest.Folder(t, family, nil), o)
}

func save(t testing.TB, m *Model) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, m.Save(t.Context(), dir))
	return dir
}

var everything = policy.ScoreRequest{LogProbs: true, Reference: true, Values: true, Entropy: true}

func partsOf(m *Model) *vlmtest.Model { return vlmtest.Of(m) }
