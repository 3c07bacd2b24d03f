package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
)

// record collects the log.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func (r *record) has(text string) func() bool {
	return func() bool { return strings.Contains(r.String(), text) }
}

const patience = 2 * time.Minute // of loops that wait for something; reached only if it never happens

type fixture struct {
	opts Options
	log  record
	q    *Queue
	es   []rollout.Episode
	p    *rollout.Player
	done <-chan struct{}
	ts   []*rollout.Trajectory
	err  error
}

// newFixture opens a queue for episodes of the guessing game.
func newFixture(t *testing.T, change func(o *Options)) *fixture {
	t.Helper()
	f := &fixture{opts: testOptions()}
	f.opts.Run, f.opts.Dir, f.opts.Listen, f.opts.Lease, f.opts.Tries = "run-1", t.TempDir(), "127.0.0.1:0",
		300*time.Millisecond, 1000
	f.opts.Log = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&f.opts)
	}
	if f.opts.Creds == "" {
		f.opts.Key = cmp.Or(f.opts.Key, "hunter2hunter2")
	}
	var err error
	f.q, err = Open(t.Context(), f.opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.q.Close()) })
	for i := range 6 {
		f.es = append(f.es, rollout.Episode{Env: "guess", Config: map[string]any{"turns": uint64(2)}, Seed: 5, Group: i,
			MaxTurns: 2})
	}
	f.p = &rollout.Player{Policy: traintest.Guesser(), Envs: (&traintest.Arena{}).Registry(t), MaxTurns: 2}
	f.p.Sampling.Temperature, f.p.Sampling.MaxTokens = 1, 8
	return f
}

// deal starts to play, and waits until the tasks are on the server, for tests without a worker.
func (f *fixture) deal(t *testing.T) {
	t.Helper()
	f.start(t)
	require.Eventually(t, func() bool {
		s, err := f.q.js.Stream(t.Context(), f.q.names.tasks)
		return err == nil && s.CachedInfo().State.Msgs == uint64(len(f.es))
	}, patience, 10*time.Millisecond)
}

// start starts to play.
func (f *fixture) start(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	f.done = done
	p := *f.p
	p.Dealer = f.q
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		f.ts, _, f.err = p.Play(ctx, f.es, 9)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (f *fixture) workerOptions() WorkerOptions {
	o := DefaultWorkerOptions()
	o.Connection = f.opts.Connection
	o.URL, o.Cert, o.CertKey = f.q.URL(), "", ""
	envs, guesser := f.p.Envs, traintest.Guesser()
	o.Open = func(context.Context, Batch) (Opened, error) {
		return Opened{Player: func() *rollout.Player { return &rollout.Player{Policy: guesser, Envs: envs} }}, nil
	}
	return o
}

func (f *fixture) work(t *testing.T, o WorkerOptions) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Work(ctx, o) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return stop
}

// finish waits for the episodes and compares them with those of the player itself.
func (f *fixture) finish(t *testing.T) {
	t.Helper()
	<-f.done
	require.NoError(t, f.err)
	want, _, err := f.p.Play(t.Context(), f.es, 9)
	require.NoError(t, err)
	same(t, want, f.ts)
}

// complete is finish with a worker that plays what is left.
func (f *fixture) complete(t *testing.T) {
	t.Helper()
	f.work(t, f.workerOptions())
	f.finish(t)
}

func same(t *testing.T, want, got []*rollout.Trajectory) {
	t.Helper()
	d, err := store.FirstDifference(want, got)
	require.NoError(t, err)
	require.Nil(t, d)
}

// TestHostileResultsAreCountedAndPlayedAgain: nothing that a worker can send ends the run or
// becomes part of it.
func TestHostileResultsAreCountedAndPlayedAgain(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.CheckRow = func(tokens []int32, _ []policy.Image) error {
			for _, id := range tokens {
				if id == 1<<30 {
					panic("no such token")
				}
			}
			return nil
		}
	})
	g := newForger(t, f)
	honest, _, err := f.p.Play(t.Context(), f.es[:1], 9)
	require.NoError(t, err)
	bucket, err := f.q.js.ObjectStore(t.Context(), f.q.names.bucket(g.batch))
	require.NoError(t, err)
	attempt := 0
	encoded := func(change func(t *rollout.Trajectory)) []byte {
		c := *honest[0]
		c.Turns, c.Rows = append([]rollout.Turn{}, c.Turns...), append([]rollout.Row{}, c.Rows...)
		change(&c)
		raw, err := store.Encode(0, []*rollout.Trajectory{&c}, func(name string, png func() ([]byte, error)) error {
			raw, err := png()
			if err == nil {
				_, err = bucket.PutBytes(t.Context(), name, raw)
			}
			return err
		})
		require.NoError(t, err)
		return raw
	}
	for _, places := range []string{"", "x", "0", "7/0", "-1/0", "0/-1", "0/0,", strings.Repeat("0/0,", 100) + "0/0"} {
		g.send(places, nil)
	}
	nan := float32(math.NaN())
	good := encoded(func(*rollout.Trajectory) {})
	for i, body := range [][]byte{
		nil, []byte("garbage"), good[:len(good)/2], bytes.Repeat([]byte{0xff}, 1000),
		encoded(func(t *rollout.Trajectory) { t.Group = 3 }),
		encoded(func(t *rollout.Trajectory) { t.Seed++ }),
		encoded(func(t *rollout.Trajectory) { t.Env = "other" }),
		encoded(func(t *rollout.Trajectory) { t.MaxTurns = 1 << 40 }),
		encoded(func(t *rollout.Trajectory) { t.End = "won" }),
		encoded(func(t *rollout.Trajectory) { t.End = rollout.EndWorker }),
		encoded(func(t *rollout.Trajectory) { t.End = rollout.EndEnv }),
		encoded(func(t *rollout.Trajectory) { t.Attempt = -1 }),
		encoded(func(t *rollout.Trajectory) { t.Turns = nil }),
		encoded(func(t *rollout.Trajectory) { t.Turns = t.Turns[:1] }),
		encoded(func(t *rollout.Trajectory) { t.Turns = append(t.Turns, t.Turns...) }),
		encoded(func(t *rollout.Trajectory) { t.Metrics = map[string]float64{"x": math.Inf(1)} }),
		encoded(func(t *rollout.Trajectory) {
			t.Turns[1].Reward = append(t.Turns[1].Reward[:0:0], t.Turns[1].Reward...)
			t.Turns[1].Reward[0].Value = math.NaN()
		}),
		encoded(func(t *rollout.Trajectory) {
			t.Rows[0].LogProbs = append([]float32{}, t.Rows[0].LogProbs...)
			t.Rows[0].LogProbs[2] = nan
		}),
		encoded(func(t *rollout.Trajectory) {
			row := rollout.Row{LogProbs: []float32{0, -1}}
			row.AppendContext(0, -5)
			row.AppendResponse(3)
			t.Rows = []rollout.Row{row}
		}),
		encoded(func(t *rollout.Trajectory) {
			var row rollout.Row
			row.AppendContext(0, 1<<30)
			row.AppendResponse(3)
			row.AppendContext(1, 4)
			row.AppendResponse(3)
			row.LogProbs = make([]float32, 4)
			t.Rows = []rollout.Row{row}
		}),
	} {
		g.send(fmt.Sprintf("0/%d", attempt), body)
		attempt++
		require.Eventually(t, func() bool { return f.q.count.faults.Load() == int64(attempt) }, patience, time.Millisecond,
			"body %d: %s", i, f.log.String())
	}
	g.send(fmt.Sprintf("0/%d,0/%d", attempt, attempt), good)
	g.send(fmt.Sprintf("0/%d", attempt), nil, objectHeader, "../../etc/passwd")
	g.send(fmt.Sprintf("0/%d", attempt+2), []byte(strings.Repeat("\xff", 1<<20)), faultHeader, "odd")
	require.Zero(t, f.q.count.played.Load())
	f.complete(t)
	require.Greater(t, f.q.count.invalid.Load(), int64(20))
}

// TestAQueueOfAnotherRunIsRefused, clearly, until it is discarded.
func TestAQueueOfAnotherRunIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	other := f.opts
	other.URL, other.Run = f.q.URL(), "run-2"
	_, err := Open(t.Context(), other)
	testkit.Error(t, err, ErrOtherRun, `belongs to the run "run-1"`)
	require.ErrorIs(t, Probe(t.Context(), other), ErrOtherRun)
	require.ErrorIs(t, Discard(t.Context(), other.Connection, "run-3"), ErrOtherRun)
	require.NoError(t, Discard(t.Context(), other.Connection, "run-1"))
	require.ErrorIs(t, Discard(t.Context(), other.Connection, "run-1"), ErrServer)
	require.NoError(t, Probe(t.Context(), other))
	q, err := Open(t.Context(), other)
	require.NoError(t, err)
	require.NoError(t, q.Finish(t.Context()))
	require.NoError(t, q.Close())
	names := f.opts
	names.URL, names.Name = f.q.URL(), "second"
	q, err = Open(t.Context(), names)
	require.NoError(t, err, "another name on the same server")
	require.NoError(t, q.Close())
}

// TestWrongCredentialsAreErrorsWithoutSecrets, for trainers and workers.
func TestWrongCredentialsAreErrorsWithoutSecrets(t *testing.T) {
	for _, user := range []string{"", "alice"} {
		f := newFixture(t, func(o *Options) { o.User, o.Key = user, "hunter2hunter2" })
		wrong := f.opts
		wrong.URL, wrong.Key = f.q.URL(), "swordfish"
		_, err := Open(t.Context(), wrong)
		require.ErrorIs(t, err, ErrAccess)
		require.NotContains(t, err.Error(), "swordfish")
		require.ErrorIs(t, Probe(t.Context(), wrong), ErrAccess)
		o := f.workerOptions()
		o.Key = "swordfish"
		require.ErrorIs(t, Work(t.Context(), o), ErrAccess)
		f.deal(t)
		f.complete(t)
		require.False(t, f.log.has("hunter2")())
	}
}

// TestOptionsAreChecked.
func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"URL": func(o *Options) { o.URL = "http://h" }, "credentials": func(o *Options) { o.URL = "nats://u:geheim@h" },
		"Name":   func(o *Options) { o.Name = "a.b" },
		"Listen": func(o *Options) { o.Listen = "0.0.0.0:1" }, "Lease": func(o *Options) { o.Lease = 0 },
		"Tries":  func(o *Options) { o.Tries = 0 },
		"Window": func(o *Options) { o.Window = 0 }, "Run": func(o *Options) { o.Run = "" }, "Dir": func(o *Options) {
			o.Dir = ""
		},
		"Server": func(o *Options) { o.Server = nil },
		"Creds":  func(o *Options) { o.Creds = "/c" }, "CA": func(o *Options) { o.CA = "/c" }, "User": func(o *Options) {
			o.User = "u"
		}, "Cert": func(o *Options) { o.Cert = "/c" },
		"KeyFile": func(o *Options) { o.Key, o.KeyFile = "geheim", "/k" },
	} {
		o := testOptions()
		o.Run, o.Dir = "r", t.TempDir()
		change(&o)
		_, err := Open(t.Context(), o)
		testkit.Error(t, err, ErrOption, name)
		require.NotContains(t, err.Error(), "geheim")
	}
	o := DefaultWorkerOptions()
	o.URL, o.Slots, o.Drain = Embedded, 0, -1
	err := Work(t.Context(), o)
	for _, key := range []string{"URL", "Slots", "Drain", "Open"} {
		require.ErrorContains(t, err, key)
	}
	f := newFixture(t, nil)
	again := f.opts
	again.Listen, again.Dir = strings.TrimPrefix(f.q.URL(), "nats://"), t.TempDir()
	_, err = Open(t.Context(), again)
	require.ErrorIs(t, err, ErrServer, "the address is in use")
	require.ErrorIs(t, Probe(t.Context(), again), ErrServer)
	gone := f.opts
	gone.URL = "nats://127.0.0.1:1"
	_, err = Open(t.Context(), gone)
	require.ErrorIs(t, err, ErrServer)
}

// limitResults limits the bytes of results on the server.
func (f *fixture) limitResults(t *testing.T, most int64) {
	t.Helper()
	s, err := f.q.js.Stream(t.Context(), f.q.names.results)
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxBytes = most
	_, err = f.q.js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
}

// TestAFullServerLosesNothing: workers keep their results until the server takes them.
func TestAFullServerLosesNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.deal(t)
	f.limitResults(t, 1)
	f.work(t, f.workerOptions())
	require.Eventually(t, f.log.has("the server takes no results"), patience, 10*time.Millisecond)
	require.Zero(t, f.q.count.played.Load())
	f.limitResults(t, -1)
	f.finish(t)
	require.Zero(t, f.q.count.died.Load())
}

// TestAnEmbeddedServerThatStopsEndsTheRun, which can be resumed.
func TestAnEmbeddedServerThatStopsEndsTheRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.deal(t)
	require.NoError(t, f.q.server.Server.(interface{ DisableJetStream() error }).DisableJetStream())
	<-f.done
	testkit.Error(t, f.err, ErrServer, "resumed when its disk has room")
}

// TestWhatTheServerLosesIsPlayedAgain: a server that starts again without its memory, and one
// whose streams were removed.
func TestWhatTheServerLosesIsPlayedAgain(t *testing.T) {
	t.Parallel()
	so := &server.Options{}
	s := serve(t, so)
	f := newFixture(t, func(o *Options) { o.URL = s.ClientURL() })
	f.deal(t)
	stop(s)
	serve(t, so)
	idle := f.work(t, f.workerOptions())
	f.finish(t)
	require.Positive(t, f.q.count.redealt.Load())

	require.NoError(t, idle())
	f.p.Tag = "second"
	f.deal(t)
	for _, name := range []string{f.q.names.tasks, f.q.names.results} {
		require.NoError(t, f.q.js.DeleteStream(t.Context(), name))
	}
	f.complete(t)
}

// TestALostTaskIsPlayedAgain, also while a task of an earlier process is in the queue, which no
// worker can play.
func TestALostTaskIsPlayedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.deal(t)
	tasks, err := f.q.js.Stream(t.Context(), f.q.names.tasks)
	require.NoError(t, err)
	m, err := tasks.GetMsg(t.Context(), tasks.CachedInfo().State.FirstSeq)
	require.NoError(t, err)
	require.NoError(t, tasks.DeleteMsg(t.Context(), m.Sequence))
	stale := testkit.JSON[task](t, m.Data)
	stale.Deal = "ended"
	raw, err := json.Marshal(&stale)
	require.NoError(t, err)
	_, err = f.q.js.Publish(t.Context(), f.q.names.taskOf(stale.Batch, stale.Deal), raw)
	require.NoError(t, err)
	f.complete(t)
	require.Equal(t, int64(1), f.q.count.redealt.Load())
}

// TestLeasesAreExtendedFromTheBeginning: episodes that take longer are played once.
func TestLeasesAreExtendedFromTheBeginning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Lease = 3 * time.Second }) // long enough for a machine under load
	f.deal(t)
	var played atomic.Int64
	o := f.workerOptions()
	o.Slots = len(f.es)
	o.OnTask = func(rollout.Episode) {
		played.Add(1)
		time.Sleep(f.opts.Lease * 2)
	}
	f.work(t, o)
	f.finish(t)
	require.Equal(t, int64(len(f.es)), played.Load())
}

// TestAWorkerThatStopsGivesItsEpisodesBack, without counting them as tries.
func TestAWorkerThatStopsGivesItsEpisodesBack(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Tries, o.Lease = 1, time.Minute }) // no lease ends on a slow machine
	f.deal(t)
	started, block := make(chan struct{}, 10), make(chan struct{})
	for range 3 {
		o := f.workerOptions()
		o.Drain = 0
		o.OnTask = func(rollout.Episode) {
			started <- struct{}{}
			<-block
		}
		stop := f.work(t, o)
		<-started
		go func() { // the episode continues after its context has ended
			require.Eventually(t, f.log.has("given to other workers"), patience, time.Millisecond)
			block <- struct{}{}
		}()
		require.NoError(t, stop())
	}
	f.complete(t)
	require.Zero(t, f.q.count.died.Load())
}

// TestAWorkerThatCannotOpenABatchEnds, and the batch's episodes stay for others. If episodes
// fail in every worker, the run ends with the reason.
func TestAWorkerThatCannotOpenABatchEnds(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Tries, o.Lease = 2, time.Minute })
	f.deal(t)
	o := f.workerOptions()
	o.Open = func(context.Context, Batch) (Opened, error) {
		return Opened{}, fmt.Errorf("no model")
	}
	require.ErrorContains(t, Work(t.Context(), o), "no model")
	o = f.workerOptions()
	o.Open = func(context.Context, Batch) (Opened, error) {
		return Opened{Player: func() *rollout.Player { panic("broken worker") }}, nil
	}
	f.work(t, o)
	<-f.done
	testkit.Error(t, f.err, ErrFailed, "broken worker")
}

// TestLargeResultsTravelAsObjects.
func TestLargeResultsTravelAsObjects(t *testing.T) {
	f := newFixture(t, nil)
	f.deal(t)
	o := f.workerOptions()
	w, err := newWorker(t.Context(), o)
	require.NoError(t, err)
	defer w.nc.Close()
	w.limit = 2000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go w.run(ctx)
	f.finish(t)
	require.NotZero(t, f.q.count.played.Load())
	n := 0
	for name := range f.q.js.ObjectStoreNames(t.Context()).Name() {
		bucket, err := f.q.js.ObjectStore(t.Context(), name)
		require.NoError(t, err)
		list, err := bucket.List(t.Context())
		require.NoError(t, err)
		for _, i := range list {
			if strings.HasPrefix(i.Name, "result-") {
				n++
			}
		}
	}
	require.Equal(t, len(f.es), n)
	require.DirExists(t, filepath.Join(f.opts.Dir, "jetstream"))
}
