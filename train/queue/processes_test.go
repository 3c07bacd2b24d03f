package queue_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/pace"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// The test binary is also the program of workers and trainers: this variable has the role.
const roleVariable = "VAGEN_QUEUE_ROLE"

func TestMain(m *testing.M) {
	pace.Hurry()
	traintest.Main(m, roleVariable, map[string]func() error{"worker": workerProcess, "trainer": trainerProcess})
}

// workerProcess plays until SIGTERM. An episode whose level is poisonous ends the process.
func workerProcess() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := queue.DefaultWorkerOptions()
	o.Key = testKey
	o.URL, o.Open, o.Log = os.Getenv("URL"), players(&traintest.Arena{}, traintest.Guesser()),
		slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Slots, _ = strconv.Atoi(os.Getenv("SLOTS"))
	o.OnTask = func(e rollout.Episode) {
		if p := os.Getenv("POISON"); p != "" && p == fmt.Sprint(e.Seed) {
			traintest.Die()
		}
		traintest.DieOnce("worker", e.Group*8+e.Index)
	}
	return queue.Work(ctx, o)
}

// job is what a trainer process plays.
type job struct {
	Listen   string
	Dir      string
	Episodes int
	Batches  int
	Out      string // file of the results
	Tries    int    // 0 is the default
}

func (j *job) options() queue.Options {
	o := queue.DefaultOptions()
	o.Run, o.Dir, o.Listen, o.Key, o.Lease = "run-1", j.Dir, j.Listen, testKey, time.Second
	o.Tries, o.Server = cmp.Or(j.Tries, o.Tries), embedded.Start
	return o
}

// trainerProcess plays batches and writes the episodes of each.
func trainerProcess() error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv("JOB")), &j); err != nil {
		return err
	}
	o := j.options()
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	rows := 0
	o.CheckRow = func([]int32, []policy.Image) error {
		rows++
		traintest.DieOnce("trainer", rows)
		return nil
	}
	q, err := queue.Open(context.Background(), o)
	if err != nil {
		return err
	}
	defer q.Close()
	r, err := j.play(q)
	if err == nil {
		err = os.WriteFile(j.Out, r, 0o644)
	}
	if err == nil {
		err = q.Finish(context.Background())
	}
	return err
}

// result is what is compared of the episodes, and counts.
type result struct {
	Sums   []string // of each episode of all batches
	Gauges map[string]float64
	Took   float64
}

// play plays the batches of a job.
func (j *job) play(d rollout.Dealer) ([]byte, error) {
	var r result
	begin := time.Now()
	p, es := stubPlayer(), stubEpisodes(j.Episodes)
	for b := range j.Batches {
		p.Tag, p.Dealer = fmt.Sprint("step ", b), d
		ts, _, err := p.Play(context.Background(), es, uint64(b))
		if err != nil {
			return nil, err
		}
		for _, t := range ts {
			r.Sums = append(r.Sums, sumOf(t))
		}
	}
	r.Took = time.Since(begin).Seconds()
	if q, ok := d.(*queue.Queue); ok {
		r.Gauges = q.Gauges()
	}
	return json.Marshal(&r)
}

// sumOf is everything of an episode as a text: tokens, log-probs, rewards.
func sumOf(t *rollout.Trajectory) string {
	out := fmt.Sprint(t.Group, t.Index, t.Seed, t.End, t.Err, t.Success, t.Return())
	for i := range t.Rows {
		out += fmt.Sprint(t.Rows[i].Tokens(), t.Rows[i].LogProbs)
	}
	return out
}

// stub is an environment without images whose observations depend on seed and turn.
type stub struct {
	seed int64
	turn int
}

func (s *stub) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "go"}, nil
}
func (s *stub) Reset(_ context.Context, seed int64) (env.Observation, error) {
	s.seed, s.turn = seed, 0
	return s.show(), nil
}
func (s *stub) show() env.Observation {
	return env.Observation{Text: fmt.Sprint(s.seed%97, " ", s.turn)}
}
func (s *stub) Step(_ context.Context, response string) (env.Outcome, error) {
	s.turn++
	o := env.Outcome{Done: s.turn == 3, Success: s.turn == 3}
	o.Reward = reward.Parts{{Name: "r", Value: float64(len(response)) + float64(s.seed%7)}}
	o.Observation = s.show()
	return o, nil
}
func (s *stub) Close() error { return nil }

func newStub(map[string]any) (env.Env, error) { return &stub{}, nil }

func stubPlayer() *rollout.Player {
	p := &rollout.Player{Policy: traintest.Guesser(), Envs: new(env.Registry), MaxTurns: 3}
	if err := p.Envs.Register("stub", newStub); err != nil {
		panic(err)
	}
	p.Sampling.Temperature, p.Sampling.MaxTokens = 1, 8
	return p
}

func stubEpisodes(n int) []rollout.Episode {
	out := make([]rollout.Episode, n)
	for i := range out {
		out[i] = rollout.Episode{Env: "stub", Seed: int64(i / 8), Group: i / 8, Index: i % 8}
	}
	return out
}

// supervise runs a job in a trainer process with worker processes. kill, if not nil, is called
// often and may kill some.
func supervise(
	t testing.TB, j job, workers, slots int, kill func(trainer *exec.Cmd, workers []*exec.Cmd), variables ...string,
) (out result, deaths int) {
	t.Helper()
	raw, err := json.Marshal(&j)
	require.NoError(t, err)
	deaths = traintest.Supervise(t, workers+1, func(i int) *exec.Cmd {
		v := slices.Clone(variables)
		if i == 0 {
			return traintest.Process(t, roleVariable+"=trainer", append(v, "JOB="+string(raw))...)
		}
		return traintest.Process(t, roleVariable+"=worker", append(v, "URL=nats://"+j.Listen, fmt.Sprint("SLOTS=", slots))...)
	}, func(all []*exec.Cmd) {
		if kill != nil {
			kill(all[0], all[1:])
		}
	})
	raw = testkit.Read(t, j.Out)
	require.NoError(t, json.Unmarshal(raw, &out))
	return out, deaths
}

// many tries are allowed where workers with several episodes are killed: their deaths, and leases
// of a second that end on a slow machine, may hit one episode several times.
const many = 20

func newJob(t testing.TB, episodes, batches int) job {
	t.Helper()
	return job{Listen: traintest.FreeAddress(t), Dir: filepath.Join(t.TempDir(), "queue"), Episodes: episodes,
		Batches: batches, Out: filepath.Join(t.TempDir(), "out.json")}
}

// alone plays a job in this process.
func alone(t testing.TB, j job) []string {
	t.Helper()
	raw, err := j.play(nil)
	require.NoError(t, err)
	r := testkit.JSON[result](t, raw)
	return r.Sums
}

// same shows only the first difference of two lists.
func same(t testing.TB, want, got []string) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Equal(t, want[i], got[i], "episode %d", i)
	}
}

// TestNothingIsLostAndNothingTwice: workers are killed while they play, the trainer with the
// server in it while it receives results, and everything equals the episodes of one process.
func TestNothingIsLostAndNothingTwice(t *testing.T) {
	t.Parallel()
	j := newJob(t, 120, 3)
	j.Tries = many
	want := alone(t, j)
	out, deaths := supervise(t, j, 3, 4, nil,
		"MARKS="+t.TempDir(), "DEATHS=worker:3,worker:40,worker:77,worker:119,trainer:30,trainer:200")
	same(t, want, out.Sums)
	require.Equal(t, 6, deaths)
	require.Zero(t, out.Gauges["queue_unusable"])
}

// TestAPoisonedEpisodeIsGivenUp after it has ended as many workers as it may; all others have
// their results.
func TestAPoisonedEpisodeIsGivenUp(t *testing.T) {
	t.Parallel()
	j := newJob(t, 16, 1)
	want := alone(t, j)
	out, deaths := supervise(t, j, 2, 1, nil, "POISON=1") // the 8 episodes of group 1
	same(t, want[:8], out.Sums[:8])
	require.Equal(t, 8.0, out.Gauges["queue_died"])
	require.Equal(t, 8.0, out.Gauges["queue_unusable"])
	// A report that comes before so many leases can have ended by this machine's clock is not believed, and what was
	// lost is played again: both cost further tries.
	again := int(out.Gauges["queue_invalid"] + out.Gauges["queue_redealt"])
	require.LessOrEqual(t, deaths, (8+again)*j.options().Tries)
	require.GreaterOrEqual(t, deaths, 8, "fewer than allowed only where a lease ended on a slow machine")
	for _, s := range out.Sums[8:] {
		require.Contains(t, s, string(rollout.EndWorker))
		require.Contains(t, s, "3 workers")
	}
}
