package evaluate

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout"
)

// TestErrorsAreStoredWithoutSecrets of URLs.
func TestErrorsAreStoredWithoutSecrets(t *testing.T) {
	r := resultOf(&rollout.Trajectory{Err: errors.New("GET http://a:secret@b/?token=secret")}, policy.Usage{})
	require.Contains(t, r.Error, "GET http://")
	require.NotContains(t, r.Error, "secret")
}

// TestStoringAnEpisodeCostsTheSameInLongLists, where hundreds of thousands of episodes would otherwise be numbered anew
// after each of them.
func TestStoringAnEpisodeCostsTheSameInLongLists(t *testing.T) {
	task := Task{Tag: "a"}
	for i := range 20_000 {
		task.Episodes = append(task.Episodes, rollout.Episode{Env: "lake", Seed: int64(i % 10), Group: i})
	}
	e := &Evaluation{Dir: t.TempDir(), Model: "m", Tasks: []Task{task}, Log: slog.New(slog.DiscardHandler)}
	missing, err := e.begin()
	require.NoError(t, err)
	require.Len(t, missing[0], len(task.Episodes))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, ep := range task.Episodes[19_980:] {
		require.NoError(t, e.store(&e.Tasks[0], &rollout.Trajectory{Episode: ep}, policy.Usage{}))
	}
	runtime.ReadMemStats(&after)
	require.Equal(t, 1998, e.results["a"][0].Repeat, "of its level")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}
