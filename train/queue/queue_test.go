package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

func init() { queue.TestServer = embedded.Start }

// options are those of an embedded server on a free port.
func options(t testing.TB) queue.Options {
	t.Helper()
	o := queue.DefaultOptions()
	o.Run, o.Dir, o.Listen, o.Lease, o.Setup = "run-1", t.TempDir(), "127.0.0.1:0", time.Second, []byte("setup")
	o.Key, o.Server = testKey, embedded.Start
	o.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	return o
}

// testKey lets workers of tests log in.
const testKey = "hunter2hunter2"

type testWriter struct{ testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if w.Context().Err() == nil {
		w.Log(string(b))
	}
	return len(b), nil
}

func open(t testing.TB, o queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

// players returns an Open for workers that play the guessing game with a bandit, which answers
// as that of the trainer does.
func players(a *traintest.Arena, p policy.Policy) func(context.Context, queue.Batch) (queue.Opened, error) {
	return func(context.Context, queue.Batch) (queue.Opened, error) {
		envs, err := a.Open()
		if err == nil {
			err = envs.Register("stub", newStub)
		}
		return queue.Opened{Player: func() *rollout.Player { return &rollout.Player{Policy: p, Envs: envs} }}, err
	}
}

// work starts a worker in this process; stop waits for its end.
func work(t testing.TB, url string, change func(o *queue.WorkerOptions)) (stop func() error) {
	t.Helper()
	o := queue.DefaultWorkerOptions()
	o.URL, o.Key, o.Slots, o.Open = url, testKey, 4, players(&traintest.Arena{}, traintest.Guesser())
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = queue.Work(ctx, o)
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		<-done
		return err
	})
	t.Cleanup(func() { stop() })
	return stop
}

// player plays the guessing game, which shows an image in every turn.
func player(t testing.TB) *rollout.Player {
	t.Helper()
	return &rollout.Player{
		Policy: traintest.Guesser(), Envs: (&traintest.Arena{}).Registry(t), MaxTurns: 3, Tag: "test",
		Sampling: policy.Sampling{Temperature: 1, MaxTokens: 8},
	}
}

func episodes(n int) []rollout.Episode {
	out := make([]rollout.Episode, n)
	for i := range out {
		out[i] = rollout.Episode{Env: "guess", Config: map[string]any{"turns": uint64(3)}, Seed: int64(i / 4), Group: i / 4,
			Index: i % 4, Source: "source"}
	}
	return out
}

// bytesOf returns the file of trajectories, which has everything that is recorded.
func bytesOf(t testing.TB, ts []*rollout.Trajectory) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "episodes.parquet")
	require.NoError(t, store.Save(path, 1, ts))
	return testkit.Read(t, path)
}

// expected plays episodes in this process.
func expected(t testing.TB, es []rollout.Episode, seed uint64) []*rollout.Trajectory {
	t.Helper()
	ts, _, err := player(t).Play(t.Context(), es, seed)
	require.NoError(t, err)
	return ts
}

// TestWorkersPlayWhatThePlayerPlays: byte by byte, with images, for any number of workers.
func TestWorkersPlayWhatThePlayerPlays(t *testing.T) {
	es := episodes(40)
	want := bytesOf(t, expected(t, es, 7))
	for _, n := range []int{1, 3} {
		q := open(t, options(t))
		for range n {
			work(t, q.URL(), nil)
		}
		p := player(t)
		p.Dealer = q
		for range 2 { // equal batches of a process are both played
			ts, _, err := p.Play(t.Context(), es, 7)
			require.NoError(t, err)
			require.Equal(t, want, bytesOf(t, ts))
			require.Equal(t, "source", ts[3].Source)
		}
		require.Equal(t, 80.0, q.Gauges()["queue_played"])
		require.Zero(t, q.Gauges()["queue_faults"], fmt.Sprint(q.Gauges()))
	}
}
