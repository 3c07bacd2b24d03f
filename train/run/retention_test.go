package run_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/run"
)

// TestTidyEndsARemovalWhereverItStopped: a policy that is kept exists exactly once and
// complete, whether or not it had been moved when the process ended.
func TestTidyEndsARemovalWhereverItStopped(t *testing.T) {
	put := func(t *testing.T, path ...string) {
		file := filepath.Join(path...)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testkit.Write(t, file, "policy")
	}
	for name, c := range map[string]struct {
		files []string
		keep  bool
	}{
		"before the policy moved":          {[]string{"step_8.gone/actor/policy", "step_8.gone/state.json"}, true},
		"after it moved":                   {[]string{"actor_step_8/policy", "step_8.gone/state.json"}, true},
		"after it moved, and half removed": {[]string{"actor_step_8/policy", "step_8.gone/critic/value"}, true},
		"where nothing is to stay":         {[]string{"step_8.old/actor/policy", "step_8.old/state.json"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				put(t, dir, f)
			}
			points := &run.Checkpoints{Dir: dir, Keep: 2, KeepActors: 4}
			for range 2 {
				require.NoError(t, points.Tidy(12))
				left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
				require.NoError(t, err)
				if c.keep {
					require.Equal(t, []string{filepath.Join(dir, "actor_step_8", "policy")}, left)
				} else {
					require.Empty(t, left)
				}
			}
		})
	}
}
