package vlm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/exestore"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// cached is what a process reports that opened a model with a folder of executables.
type cached struct {
	Hash             string // of responses, scores and all files of a checkpoint
	Loaded, Compiled int
}

// useModel generates, scores and trains with the folder of executables that is in the environment.
func useModel(t *testing.T, dir string) cached {
	t.Helper()
	m := openTiny(t, dir, Options{Backend: devicetest.Backend()})
	h := sha256.New()
	prompts := []policy.Prompt{
		{Conversation: 1, Messages: vlmtest.Say("left"), Seed: 1}, {Conversation: 2, Messages: vlmtest.Say(" box?"), Seed: 2},
	}
	played, err := m.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 3})
	require.NoError(t, err)
	for _, c := range played {
		fmt.Fprintln(h, c.Tokens, c.LogProbs)
	}
	rows, want := partsOf(m).FourRows(t)
	scores, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true, Entropy: true}, 1)
	require.NoError(t, err)
	fmt.Fprintln(h, scores)
	partsOf(m).Train(t, 1)
	saved := vlmtest.Files(t, save(t, m))
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		fmt.Fprintln(h, name, saved[name])
	}
	loaded, compiled := m.dev.Store().Counts()
	require.EqualValues(t, loaded, m.Gauges()["executables_loaded"])
	require.Equal(t, m.dev.Executables(), loaded+compiled)
	return cached{Hash: hex.EncodeToString(h.Sum(nil)), Loaded: loaded, Compiled: compiled}
}

// Environment variables of the child process of TestASecondProcessCompilesNothing.
const (
	cachedModel = "VAGEN_TEST_CACHED_MODEL"
	cachedOut   = "VAGEN_TEST_CACHED_OUT"
)

func TestProcessThatKeepsExecutables(t *testing.T) {
	out := os.Getenv(cachedOut)
	if out == "" {
		t.Skip("part of TestASecondProcessCompilesNothing")
	}
	got := useModel(t, os.Getenv(cachedModel))
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(out, raw, 0o600))
}

// keeping runs TestProcessThatKeepsExecutables in another process.
func keeping(t *testing.T, dir, folder string) (got cached, err error) {
	out := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessThatKeepsExecutables$")
	cmd.Env = append(os.Environ(), cachedModel+"="+dir, cachedOut+"="+out, CompileCacheVariable+"="+folder,
		devicetest.Unoptimized)
	if text, err := cmd.CombinedOutput(); err != nil {
		return got, fmt.Errorf("%w: %s", err, text)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(raw, &got)
}

// requireStore skips a test where executables are not kept.
func requireStore(t *testing.T) {
	t.Helper()
	if d := devicetest.Best(t); d.PureGo() || runtime.GOOS != "linux" {
		t.Skipf("the backend is %s on %s", d.Name(), runtime.GOOS)
	}
}

// Responses, scores, weights and moments have the same bytes whether executables are
// compiled or loaded, and a second process compiles nothing.
func TestASecondProcessCompilesNothing(t *testing.T) {
	t.Parallel()
	requireStore(t)
	dir := vlmtest.Folder(t, model.Qwen2, vlmtest.Object{"num_hidden_layers": 1})
	folder := filepath.Join(t.TempDir(), "executables")
	first, err := keeping(t, dir, folder)
	require.NoError(t, err)
	require.Positive(t, first.Compiled)
	second, err := keeping(t, dir, folder)
	require.NoError(t, err)
	require.Equal(t, cached{Hash: first.Hash, Loaded: first.Loaded + first.Compiled}, second)
}

func TestCompileCacheIsChosen(t *testing.T) {
	requireStore(t)
	dir, home := vlmtest.Folder(t, model.Qwen2, nil), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	folder := filepath.Join(home, "other")
	open := func(choice, variable string) (string, error) {
		t.Setenv(CompileCacheVariable, variable)
		m, err := Open(t.Context(), dir, Options{Backend: devicetest.Backend(), CompileCache: choice})
		if err != nil {
			return "", err
		}
		defer m.Close()
		if s := m.dev.Store(); s != nil {
			return s.Dir(), nil
		}
		return "", nil
	}
	standard := filepath.Join(home, "vagen", "executables")
	for _, c := range [][3]string{
		{"", "", ""}, {"auto", "", ""}, // within go test
		{"on", "", standard}, {"", "on", standard}, {"off", "on", ""}, {"auto", folder, folder}, {folder, "off", folder},
		{"", "off", ""},
	} {
		got, err := open(c[0], c[1])
		require.NoError(t, err)
		require.Equal(t, c[2], got, "CompileCache %q, variable %q", c[0], c[1])
	}
	require.NoError(t, os.Chmod(folder, 0o777))
	for _, c := range [][2]string{{folder, ""}, {"", folder}} {
		_, err := open(c[0], c[1])
		require.ErrorIs(t, err, ErrOption)
		testkit.Error(t, err, exestore.ErrUnsafe, folder)
	}
	file := filepath.Join(home, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := open(file, "")
	require.ErrorIs(t, err, ErrOption)
}
