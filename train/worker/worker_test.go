package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/pace"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
	"vagen/train/run"
	"vagen/train/worker"
)

// The test binary is also the program of workers and trainers: this variable has the role.
const roleVariable = "VAGEN_WORKER_ROLE"

func TestMain(m *testing.M) {
	pace.Hurry()
	traintest.Main(m, roleVariable, map[string]func() error{"worker": workerProcess, "trainer": trainerProcess})
}

// workerProcess plays with the policy that the learner sends along.
func workerProcess() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := worker.DefaultOptions()
	o.KeyFile = filepath.Join(os.Getenv("DIR"), "queue", "key")
	o.URL, o.Slots, o.Log = os.Getenv("URL"), 2, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
		Level: slog.LevelWarn}))
	o.Policy = func(_ context.Context, _ *config.Config, version []byte) (policy.Policy, error) {
		b := traintest.Walker()
		return b, b.SetTable(version)
	}
	played := 0
	o.OnTask = func(rollout.Episode) {
		played++
		traintest.DieOnce("worker"+os.Getenv("NUMBER"), played)
	}
	return worker.Work(ctx, o)
}

// learner is a bandit that ends the process, once each, at rows of results and at updates.
type learner struct {
	*traintest.Bandit
	rows, updates *atomic.Int64
}

func newLearner(context.Context, string) (policy.Learner, error) {
	l := learner{traintest.Walker(), new(atomic.Int64), new(atomic.Int64)}
	l.Alter = func(*policy.Batch, *policy.Stats) error {
		traintest.DieOnce("update", int(l.updates.Add(1)))
		return nil
	}
	return l, nil
}

func (l learner) CheckRow([]int32, []policy.Image) error {
	traintest.DieOnce("row", int(l.rows.Add(1)))
	return nil
}

// lake is a run on FrozenLake with validations and a checkpoint after every step.
func lake(dir, server, listen string) config.Config {
	c := config.Default()
	c.Run.Seed, c.Run.Queue = 3, server
	if server != "" {
		c.Run.QueueOptions.Listen, c.Run.QueueOptions.Lease = listen, 1
		c.Run.QueueOptions.Tries = 20 // four deaths, and leases that end on a slow machine, may hit one episode
	}
	c.Env.Name, c.Env.Config = "frozenlake", map[string]any{"render_mode": "text"}
	c.Algorithm.Estimator, c.Critic.Kind = "masked_grpo", "none"
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 6, 6, 4
	c.Rollout.Trajectories, c.Rollout.MaxTurns = 4, 3
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Optim.Rate = 6, 2
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.SaveFreq, c.Trainer.ValBefore, c.Trainer.Dir = 4, 2, 1, true, dir
	episodes := filepath.Join(dir, "rollouts")
	c.Trainer.RolloutDir = &episodes
	return c
}

func trainRun(ctx context.Context, c config.Config) error {
	r, err := run.Open(ctx, c, run.Options{
		Learner: newLearner, QueueServer: embedded.Start,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := r.Train(ctx); err != nil {
		return err
	}
	return r.Close()
}

func trainerProcess() error {
	return trainRun(context.Background(), lake(os.Getenv("DIR"), config.QueueEmbedded, os.Getenv("LISTEN")))
}

// files returns what a run wrote: the metrics that do not depend on the machine, the policies,
// and the episodes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := traintest.Files(t, dir, "queue") // whose server may still remove files after it was closed
	maps.DeleteFunc(out, func(name, _ string) bool {
		base := filepath.Base(name)
		return base != "table.json" && base != "metrics.jsonl" && filepath.Ext(name) != ".parquet"
	})
	return out
}

// TestTrainingWithWorkersGivesTheBytesOfOneProcess: four workers, four of which die while they
// play, and a trainer that dies while it receives results and while it updates.
func TestTrainingWithWorkersGivesTheBytesOfOneProcess(t *testing.T) {
	alone := filepath.Join(t.TempDir(), "alone")
	require.NoError(t, trainRun(t.Context(), lake(alone, "", "")))
	want := files(t, alone)
	require.Contains(t, want, "metrics.jsonl")
	require.Contains(t, want["metrics.jsonl"], "train/success")

	dir, listen, marks := filepath.Join(t.TempDir(), "queue"), traintest.FreeAddress(t), t.TempDir()
	common := []string{"MARKS=" + marks, "DEATHS=worker1:3,worker2:5,worker1:9,worker3:2,row:9,update:2,row:60,update:4"}
	deaths := traintest.Supervise(t, 5, func(i int) *exec.Cmd {
		if i == 0 {
			return traintest.Process(t, roleVariable+"=trainer", append(common, "DIR="+dir, "LISTEN="+listen)...)
		}
		return traintest.Process(
			t,
			roleVariable+"=worker",
			append(common, "DIR="+dir, "URL=nats://"+listen, fmt.Sprint("NUMBER=", i))...)
	}, func([]*exec.Cmd) {})
	require.GreaterOrEqual(t, deaths, 4)
	for _, name := range []string{"row:9", "update:2"} {
		require.FileExists(t, filepath.Join(marks, name))
	}
	got := files(t, dir)
	for name, raw := range want {
		require.Equal(t, raw, got[name], name)
	}
	require.Len(t, got, len(want))
	require.NoDirExists(t, filepath.Join(dir, "queue", "jetstream", "$G", "streams", "VAGEN_vagen_RESULTS"),
		"the queue is removed at the end")
}

// TestARunWhoseWorkersAllFailedEndsWithTheReasonAndResumes: the worker cannot use the policy of a
// later step. The files of the resumed run are those of one process.
func TestARunWhoseWorkersAllFailedEndsWithTheReasonAndResumes(t *testing.T) {
	alone := filepath.Join(t.TempDir(), "alone")
	require.NoError(t, trainRun(t.Context(), lake(alone, "", "")))
	c := lake(filepath.Join(t.TempDir(), "queue"), config.QueueEmbedded, traintest.FreeAddress(t))
	c.Run.QueueOptions.NoWorkers = 0.5
	errClosed := errors.New("the servers are closed today")
	play := func(batches int) (played, worked error) {
		r, err := run.Open(t.Context(), c, run.Options{Learner: newLearner, QueueServer: embedded.Start})
		require.NoError(t, err)
		o := worker.DefaultOptions()
		o.URL, o.Slots = "nats://"+c.Run.QueueOptions.Listen, 2
		o.KeyFile = filepath.Join(c.Trainer.Dir, "queue", "key")
		o.Policy = func(_ context.Context, _ *config.Config, version []byte) (policy.Policy, error) {
			if batches--; batches < 0 {
				return nil, errClosed
			}
			b := traintest.Walker()
			return b, b.SetTable(version)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Work(ctx, o) }()
		played = r.Train(t.Context())
		cancel()
		worked = <-ended
		require.NoError(t, r.Close())
		return played, worked
	}
	played, worked := play(3)
	require.ErrorIs(t, worked, errClosed)
	testkit.Error(t, played, queue.ErrNoWorkers, errClosed.Error())
	played, worked = play(1000)
	require.NoError(t, errors.Join(played, worked))
	want, got := files(t, alone), files(t, c.Trainer.Dir)
	for name, raw := range want {
		require.Equal(t, raw, got[name], name)
	}
	require.Len(t, got, len(want))
}
