package device_test

import (
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/exestore"
)

// withStore opens XLA's device with executables in dir.
func withStore(t *testing.T, dir string) (*device.Device, *exestore.Store) {
	t.Helper()
	d := devicetest.Best(t)
	if d.PureGo() {
		t.Skip("pure Go compiles nothing")
	}
	s, err := exestore.Open(dir, exestore.Options{Limit: exestore.DefaultLimit, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	d.UseStore(s)
	return d, s
}

func requireCounts(t *testing.T, s *exestore.Store, loaded, compiled int) {
	t.Helper()
	l, c := s.Counts()
	require.Equal(t, []int{loaded, compiled}, []int{l, c}, "loaded and compiled")
}

// overwrites adds two vectors, writes the sum over the first, and reports whether it lies
// there.
func overwrites(t *testing.T, d *device.Device) bool {
	t.Helper()
	p := d.Program("sum", func(in []*graph.Node) []*graph.Node { return []*graph.Node{graph.Add(in[0], in[1])} })
	in := []*device.Array{put(t, d, draw(1<<12, 1)), put(t, d, draw(1<<12, 2))}
	at := in[0].Place()
	out, err := p.Run(in, 0)
	require.NoError(t, err)
	defer device.FreeAll(append(out, in...)...)
	x, y := draw(1<<12, 1), draw(1<<12, 2)
	for i := range x {
		x[i] += y[i]
	}
	require.Equal(t, x, read[float32](t, out[0]))
	return out[0].Place() == at
}

func TestLoadedExecutablesOverwriteDonatedInputs(t *testing.T) {
	dir := t.TempDir()
	d, s := withStore(t, dir)
	want := overwrites(t, d)
	require.True(t, want || d.Accelerator())
	requireCounts(t, s, 0, 1)
	d, s = withStore(t, dir)
	require.Equal(t, want, overwrites(t, d))
	requireCounts(t, s, 1, 0)
}

// A CPU keeps fewer executables where others are in a store; a GPU loads them more slowly.
func TestAStoreHoldsWhatIsNotKept(t *testing.T) {
	d, _ := withStore(t, t.TempDir())
	require.Equal(t, d.Accelerator(), d.Kept() == 512)
}

func TestLoadedExecutablesCallKernels(t *testing.T) {
	devicetest.Kernels(t)
	dir := t.TempDir()
	var want []float32
	for i := range 2 {
		d, s := withStore(t, dir)
		p := product(d)
		got := first(t, p, put(t, d, draw(3*64, 1), 3, 64), put(t, d, draw(50*64, 2), 50, 64))
		require.True(t, p.UsesKernels())
		requireCounts(t, s, i, 1-i)
		if i == 0 {
			want = got
		}
		require.Equal(t, want, got)
	}
}

// keepOne keeps an executable and returns its file.
func keepOne(t *testing.T, dir string) (file string, whole []byte) {
	t.Helper()
	d, _ := withStore(t, dir)
	overwrites(t, d)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err = os.ReadFile(files[0])
	require.NoError(t, err)
	return files[0], whole
}

// Whatever is in a file, the program runs and the next process finds it repaired.
func TestDamagedExecutablesAreCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	file, whole := keepOne(t, dir)
	altered := append([]byte{}, whole...)
	altered[len(altered)/2]++
	other := append([]byte{}, whole...)
	other[len("vagen executable")]++ // version
	for name, data := range map[string][]byte{"empty": nil, "torn": whole[:len(whole)/2], "altered": altered,
		"of another version": other} {
		require.NoError(t, os.WriteFile(file, data, 0o600))
		d, s := withStore(t, dir)
		overwrites(t, d)
		requireCounts(t, s, 0, 1)
		d, s = withStore(t, dir)
		overwrites(t, d)
		requireCounts(t, s, 1, 0)
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, len(whole), len(now), name)
	}
}

// A file with a valid checksum whose bytes the plugin refuses is compiled, too.
func TestExecutablesThatThePluginRefusesAreCompiled(t *testing.T) {
	dir := t.TempDir()
	file, whole := keepOne(t, dir)
	const sumAt = len("vagen executable") + 4 + sha256.Size
	body := []byte("not an executable")
	sum := sha256.Sum256(body)
	require.NoError(t, os.WriteFile(file, slices.Concat(whole[:sumAt], sum[:], body), 0o600))
	d, s := withStore(t, dir)
	overwrites(t, d)
	requireCounts(t, s, 0, 1)
}

func TestAFolderThatDisappearsOnlyCostsCompilations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "executables")
	d, s := withStore(t, dir)
	require.NoError(t, os.RemoveAll(dir))
	overwrites(t, d)
	requireCounts(t, s, 0, 1)
}

func TestVariablesOfXLADistinguishExecutables(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		t.Setenv("TF_TEST_OF_KEYS", []string{"0", "1"}[i])
		d, s := withStore(t, dir)
		overwrites(t, d)
		requireCounts(t, s, 0, 1)
	}
	t.Setenv("XLA_FLAGS", os.Getenv("XLA_FLAGS")+" --xla_dump_to=/nowhere") // read when a plugin starts
	d, s := withStore(t, dir)
	overwrites(t, d)
	requireCounts(t, s, 0, 1)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "nothing is kept of a process that writes files about compilations")
}
