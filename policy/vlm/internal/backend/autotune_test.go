package backend

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/plugin"
)

func TestKernelsAreLoadedIfTheFileExistsAndElseMeasured(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kernels.txt")
	o := Options{Backend: CUDA, Autotune: file}
	c, err := o.kernelChoices()
	require.NoError(t, err)
	require.Equal(t, plugin.Choices{Measure: filepath.Join(dir, ".measuring-kernels.txt")}, c)
	require.Equal(t, file, measuredFile(c))

	// What XLA has written is kept when the model is closed.
	m := &Devices{choices: c, opts: Options{Log: slog.New(slog.DiscardHandler)}}
	require.NoError(t, m.keepMeasured(), "nothing was compiled")
	require.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(c.Measure, []byte("abc"), 0o644))
	require.NoError(t, m.keepMeasured())
	require.NoFileExists(t, c.Measure)

	c, err = o.kernelChoices()
	require.NoError(t, err)
	require.Equal(t, plugin.Choices{Load: file}, c)
	o.AutotuneSHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc, FIPS 180-2
	_, err = o.kernelChoices()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("abd"), 0o644))
	_, err = o.kernelChoices()
	testkit.Error(t, err, ErrOption, o.AutotuneSHA256)
	require.NoError(t, os.Remove(file))
	_, err = o.kernelChoices()
	require.ErrorContains(t, err, "does not exist")
	o = Options{Backend: CUDA, Autotune: filepath.Join(dir, "none", "kernels.txt")}
	_, err = o.kernelChoices()
	require.ErrorIs(t, err, os.ErrNotExist)
}

// XLA reads its flags once, so a process cannot open a second model with other choices. A
// process that measures continues to measure when the file has been written.
func TestChoicesOfKernelsHoldForTheProcess(t *testing.T) {
	var opened atomic.Int32
	e := newEngines(map[string]opener{CUDA: fakeGo("xla:cuda", &opened)})
	fake := e[CUDA].open
	open := func(c plugin.Choices) (plugin.Choices, error) {
		if _, err := e.choose(t.Context(), c); err != nil {
			return c, err
		}
		e[CUDA].open = fake
		_, got, err := e.tuned(t.Context(), c, nil)
		return got, err
	}
	measure := plugin.Choices{Measure: "/d/.measuring-k.txt"}
	for _, want := range []plugin.Choices{measure, measure, {Load: "/d/k.txt"}} {
		got, err := open(want)
		require.NoError(t, err)
		require.Equal(t, measure, got)
	}
	for _, other := range []plugin.Choices{{}, {Load: "/d/other.txt"}} {
		_, err := open(other)
		testkit.Error(t, err, ErrOption, "chosen by "+other.String(), "chosen by measuring into /d/.measuring-k.txt")
	}
	require.EqualValues(t, 1, opened.Load())
}
