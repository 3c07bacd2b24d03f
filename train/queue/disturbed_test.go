package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
)

// TestQueuesWhoseNamesBeginAlikeAreApart: a batch of one, and its end, remove nothing of the
// other.
func TestQueuesWhoseNamesBeginAlikeAreApart(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Name = "run" })
	other := namesOf("run_2")
	_, err := f.q.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: other.settings})
	require.NoError(t, err)
	_, err = f.q.js.CreateObjectStore(t.Context(),
		jetstream.ObjectStoreConfig{Bucket: other.bucket("0123456789abcdef01234567")})
	require.NoError(t, err)
	f.start(t)
	f.complete(t)
	require.NoError(t, f.q.Finish(t.Context()))
	var left []string
	for name := range f.q.js.ObjectStoreNames(t.Context()).Name() {
		left = append(left, name)
	}
	require.ElementsMatch(t, []string{other.settings, other.bucket("0123456789abcdef01234567")}, left)
}

// serve starts a server on a port that it keeps when it is started again.
func serve(t *testing.T, so *server.Options) (s *server.Server) {
	t.Helper()
	so.Host, so.JetStream, so.NoSigs, so.NoLog = "127.0.0.1", true, true, true
	if so.Port == 0 {
		so.Port, so.StoreDir = server.RANDOM_PORT, t.TempDir()
	}
	s, err := server.NewServer(so)
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(patience))
	so.Port = s.Addr().(*net.TCPAddr).Port
	t.Cleanup(func() { stop(s) })
	return s
}

// TestAServerThatRefusesTheKeyInTheMiddleEndsRunAndWorker: the client of NATS gives such a
// connection up, so that waiting would not end.
func TestAServerThatRefusesTheKeyInTheMiddleEndsRunAndWorker(t *testing.T) {
	t.Parallel()
	so := &server.Options{Authorization: "hunter2hunter2"}
	s := serve(t, so)
	f := newFixture(t, func(o *Options) { o.URL, o.Key = s.ClientURL(), "hunter2hunter2" })
	f.deal(t)
	ended := make(chan error, 1)
	taken, release := make(chan struct{}, 10), make(chan struct{})
	o := f.workerOptions()
	o.Drain = 0
	o.OnTask = func(rollout.Episode) {
		taken <- struct{}{}
		<-release
	}
	go func() { ended <- Work(t.Context(), o) }()
	<-taken
	stop(s)
	so.Authorization = "swordfish"
	serve(t, so)
	close(release)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, ErrAccess)
	case <-time.After(patience):
		t.Error("the worker does not end")
	}
	select {
	case <-f.done:
		require.ErrorIs(t, f.err, ErrAccess)
	case <-time.After(patience):
		t.Error("the trainer does not end\n", f.log.String())
	}
}

// TestFilesWithoutCredentialsAreErrors, not a reason to wait for the server.
func TestFilesWithoutCredentialsAreErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "creds")
	require.NoError(t, os.WriteFile(file, []byte("no credentials"), 0o600))
	for _, creds := range []string{file, file + ".missing", t.TempDir()} {
		o := DefaultWorkerOptions()
		o.URL, o.Creds = "nats://127.0.0.1:1", creds
		o.Open = func(context.Context, Batch) (Opened, error) { return Opened{}, nil }
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := Work(ctx, o)
		cancel()
		testkit.Error(t, err, ErrOption, creds)
	}
}

// TestEpisodesTravelOverWebsocketsAndToTheServerThatAnswers: one of several URLs.
func TestEpisodesTravelOverWebsocketsAndToTheServerThatAnswers(t *testing.T) {
	so := &server.Options{Username: "alice", Password: "hunter2hunter2"}
	so.Websocket.Host, so.Websocket.Port, so.Websocket.NoTLS = "127.0.0.1", server.RANDOM_PORT, true
	s := serve(t, so)
	f := newFixture(t, func(o *Options) {
		o.URL, o.User, o.Key = "nats://127.0.0.1:1, "+s.ClientURL(), "alice", "hunter2hunter2"
	})
	f.start(t)
	o := f.workerOptions()
	o.URL = s.WebsocketURL()
	require.Contains(t, o.URL, "ws://")
	f.work(t, o)
	f.finish(t)
}

// TestATaskThatNoServerTakesEndsTheRun, instead of being sent for ever.
func TestATaskThatNoServerTakesEndsTheRun(t *testing.T) {
	f := newFixture(t, nil)
	f.es[3].Config = map[string]any{"turns": uint64(2), "map": strings.Repeat("x", maxTask)}
	f.start(t)
	select {
	case <-f.done:
		testkit.Error(t, f.err, ErrOption, "episode 3")
	case <-time.After(patience):
		t.Fatal("the trainer waits")
	}
	f.es[3].Config["map"] = strings.Repeat("x", maxTask-8000) // the rest is for the task and its header
	f.start(t)
	f.complete(t)
}

// TestABatchIsOpenedOnce, also if tasks of another one, which cannot be opened, come in between,
// and if it could not be opened at first.
func TestABatchIsOpenedOnce(t *testing.T) {
	f := newFixture(t, nil)
	f.deal(t)
	o := f.workerOptions()
	open, opens := o.Open, 0
	o.Open = func(ctx context.Context, b Batch) (Opened, error) {
		opens++
		return open(ctx, b)
	}
	w, err := newWorker(t.Context(), o)
	require.NoError(t, err)
	defer w.nc.Close()
	s, err := f.q.js.Stream(t.Context(), f.q.names.tasks)
	require.NoError(t, err)
	m, err := s.GetMsg(t.Context(), s.CachedInfo().State.FirstSeq)
	require.NoError(t, err)
	own := testkit.JSON[task](t, m.Data)
	stale := own
	stale.Deal = "ended"
	for range 10 {
		require.NoError(t, w.open(t.Context(), &own).err)
		require.Error(t, w.open(t.Context(), &stale).err)
	}
	require.Equal(t, 1, opens)
	f.complete(t)
}

// TestAnyNumberOfEpisodesAtATime: without memory for each of them.
func TestAnyNumberOfEpisodesAtATime(t *testing.T) {
	f := newFixture(t, nil)
	f.start(t)
	o := f.workerOptions()
	o.Slots = 1 << 30 // the most that is allowed
	f.work(t, o)
	f.finish(t)
}

// TestTasksThatArriveWhenAWorkerStopsAreNoTries of the episodes.
func TestTasksThatArriveWhenAWorkerStopsAreNoTries(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Tries, o.Lease = 1, time.Minute }) // no lease ends on a slow machine
	f.deal(t)
	w, err := newWorker(t.Context(), f.workerOptions())
	require.NoError(t, err)
	defer w.nc.Close()
	c, err := w.consumer(t.Context())
	require.NoError(t, err)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.fetch(stopped, c, len(f.es), func(h *held) { w.giveBack(t.Context(), h) })
	require.NoError(t, err)
	f.complete(t)
	require.Zero(t, f.q.count.died.Load())
}

// take takes all tasks of a fixture for a new worker.
func take(t *testing.T, f *fixture) (w *worker, all []*held) {
	t.Helper()
	w, err := newWorker(t.Context(), f.workerOptions())
	require.NoError(t, err)
	t.Cleanup(w.nc.Close)
	c, err := w.consumer(t.Context())
	require.NoError(t, err)
	_, err = w.fetch(t.Context(), c, len(f.es), func(h *held) { all = append(all, h) })
	require.NoError(t, err)
	require.Len(t, all, len(f.es))
	return w, all
}

// TestWhatAWorkerSaysOfTasksOfAnEarlierStreamDoesNotCount: the messages of the next stream have the
// same numbers.
func TestWhatAWorkerSaysOfTasksOfAnEarlierStreamDoesNotCount(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Lease = time.Minute })
	f.deal(t)
	old, stale := take(t, f)
	require.NoError(t, f.q.js.DeleteStream(t.Context(), f.q.names.tasks))
	count := func() uint64 {
		s, err := f.q.js.Stream(t.Context(), f.q.names.tasks)
		if err != nil {
			return 0
		}
		return s.CachedInfo().State.Msgs
	}
	require.Eventually(t, func() bool { return count() == uint64(len(f.es)) }, patience, 10*time.Millisecond)
	w, all := take(t, f)
	for _, h := range stale {
		require.NoError(t, h.m.Ack())
	}
	require.NoError(t, old.nc.Flush())
	require.Equal(t, uint64(len(f.es)), count())
	for _, h := range all {
		w.giveBack(t.Context(), h)
	}
	f.complete(t)
	require.Equal(t, int64(len(f.es)), f.q.count.redealt.Load())
}

// TestATaskWhoseBatchIsOverIsDropped by the worker that gets it.
func TestATaskWhoseBatchIsOverIsDropped(t *testing.T) {
	f := newFixture(t, nil)
	raw, err := json.Marshal(&task{Batch: "over", Deal: "ended"})
	require.NoError(t, err)
	_, err = f.q.js.Publish(t.Context(), f.q.names.taskOf("over", "ended"), raw)
	require.NoError(t, err)
	f.work(t, f.workerOptions())
	require.Eventually(t, func() bool {
		s, err := f.q.js.Stream(t.Context(), f.q.names.tasks)
		return err == nil && s.CachedInfo().State.Msgs == 0
	}, patience, 10*time.Millisecond)
}

// TestABatchThatIsForgottenEnds, so that its episodes do not stay.
func TestABatchThatIsForgottenEnds(t *testing.T) {
	w := &worker{opened: map[string]*opened{}}
	var all []*opened
	for i := range 6 {
		of := &opened{}
		of.ctx, of.end = context.WithCancel(t.Context())
		w.keep(fmt.Sprint(i), of)
		all = append(all, of)
	}
	for i, of := range all {
		require.Equal(t, i < 2, of.ctx.Err() != nil, i)
		require.Equal(t, i >= 2, w.opened[fmt.Sprint(i)] == of, i)
		of.end()
	}
}

// TestAnEmbeddedServerThatCannotStartSaysWhy, at once.
func TestAnEmbeddedServerThatCannotStartSaysWhy(t *testing.T) {
	o := testOptions()
	o.Run, o.Dir, o.Listen = "run-1", t.TempDir(), "127.0.0.1:0"
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "jetstream"), nil, 0o600))
	_, err := Open(t.Context(), o)
	testkit.Error(t, err, ErrServer, "not a directory")
}

// TestSettingsOfAnySizeAreRead: those that the server sends in many chunks, and none that are
// longer than allowed.
func TestSettingsOfAnySizeAreRead(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Setup = bytes.Repeat([]byte("setup"), 1<<20) })
	f.start(t)
	o := f.workerOptions()
	open := o.Open
	o.Open = func(ctx context.Context, b Batch) (Opened, error) {
		if !bytes.Equal(b.Setup, f.opts.Setup) {
			return Opened{}, fmt.Errorf("another setup, of %d bytes", len(b.Setup))
		}
		return open(ctx, b)
	}
	f.work(t, o)
	f.finish(t)
	store, err := f.q.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "other"})
	require.NoError(t, err)
	require.NoError(t, writeObject(t.Context(), store, "a", []byte("12345")))
	raw, err := readObject(t.Context(), patience, store, "a", 5)
	require.NoError(t, err)
	require.Equal(t, "12345", string(raw))
	_, err = readObject(t.Context(), patience, store, "a", 4)
	require.ErrorIs(t, err, errTooLong)
}

// TestEpisodesOfAnEndedBatchEnd, so that new weights need not wait for their responses: at once
// when a task of the next batch comes, and soon if all slots are occupied, so that none comes.
func TestEpisodesOfAnEndedBatchEnd(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{6, 100} {
		f := newFixture(t, func(o *Options) { o.Lease = 3 * time.Second })
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		first := *f.p
		first.Dealer, first.Tag = f.q, "first"
		go func() {
			defer close(over)
			_, _, err := first.Play(ctx, f.es, 8)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		o := f.workerOptions()
		o.Slots = slots
		open, opens := o.Open, 0
		playing := make(chan struct{}, 100)
		var use sync.RWMutex
		o.Open = func(ctx context.Context, b Batch) (Opened, error) {
			if opens++; opens > 1 {
				use.Lock() // as weights that are replaced
				defer use.Unlock()
				return open(ctx, b)
			}
			return Opened{Player: func() *rollout.Player {
				return &rollout.Player{Policy: stuck{&use, playing}, Envs: f.p.Envs}
			}}, nil
		}
		f.work(t, o)
		for range f.es {
			<-playing
		}
		cancel()
		<-over
		f.p.Tag = "second"
		f.start(t)
		f.finish(t)
	}
}

// stuck is a policy that answers when its context ends.
type stuck struct {
	use     *sync.RWMutex
	playing chan struct{}
}

func (s stuck) Generate(ctx context.Context, _ []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	s.use.RLock()
	defer s.use.RUnlock()
	s.playing <- struct{}{}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (stuck) Forget(...uint64) {}

// TestTheTrainerSaysWhyResultsDoNotCome: once, with the worker's reason.
func TestTheTrainerSaysWhyResultsDoNotCome(t *testing.T) {
	f := newFixture(t, nil)
	var own record
	f.q.opts.Log = slog.New(slog.NewTextHandler(&own, nil))
	f.deal(t)
	f.limitResults(t, 1)
	for range 2 {
		f.work(t, f.workerOptions())
	}
	require.Eventually(t, func() bool { return f.q.Gauges()["queue_undelivered"] >= 2 }, patience, 10*time.Millisecond)
	const says = "a worker cannot deliver results"
	require.Eventually(t, own.has(says), patience, time.Millisecond)
	require.Contains(t, own.String(), "maximum bytes exceeded")
	f.limitResults(t, -1)
	f.finish(t)
	require.Equal(t, 1, strings.Count(own.String(), says))
}

// TestAUserWithoutJetStreamIsToldSo, instead of waiting: without permissions, and in an account
// for which it is not enabled.
func TestAUserWithoutJetStreamIsToldSo(t *testing.T) {
	t.Parallel()
	plain := server.NewAccount("plain")
	able := server.NewAccount("able")
	so := &server.Options{
		Accounts: []*server.Account{plain, able},
		Users: []*server.User{
			{Username: "publish", Password: "p", Account: able,
				Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>"}}}},
			{Username: "subscribe", Password: "p", Account: able,
				Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}},
			{Username: "account", Password: "p", Account: plain},
		},
	}
	s := serve(t, so)
	registered, err := s.LookupAccount("able")
	require.NoError(t, err)
	require.NoError(t, registered.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1,
		MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}, nil))
	var all sync.WaitGroup // each waits until NATS's client gives up, at the same time
	for user, says := range map[string]string{"publish": "$JS.API", "subscribe": "_INBOX", "account": "enable JetStream"} {
		o := testOptions()
		o.URL, o.User, o.Key, o.Run = s.ClientURL(), user, "p", "run-1"
		w := DefaultWorkerOptions()
		w.Connection = o.Connection
		w.Open = func(context.Context, Batch) (Opened, error) { return Opened{}, nil }
		for what, call := range map[string]func() error{
			"Open":  func() error { _, err := Open(t.Context(), o); return err },
			"Probe": func() error { return Probe(t.Context(), o) },
			"Work":  func() error { return Work(t.Context(), w) },
		} {
			all.Go(func() {
				err := call()
				assert.ErrorIs(t, err, ErrAccess, "%s of %s", what, user)
				assert.ErrorContains(t, err, says, "%s of %s", what, user)
			})
		}
	}
	all.Wait()
}
