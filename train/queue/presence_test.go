package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/train/queue"
)

var errClosed = errors.New("the service is closed today")

// failing is an Open that fails.
func failing(o *queue.WorkerOptions) {
	o.Open = func(context.Context, queue.Batch) (queue.Opened, error) { return queue.Opened{}, errClosed }
}

// TestABatchWhoseWorkersAllFailedEndsWithTheReason: those that come within the time and fail, too,
// do not make it wait longer.
func TestABatchWhoseWorkersAllFailedEndsWithTheReason(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.NoWorkers = time.Second
	q := open(t, o)
	for range 3 {
		stop := work(t, q.URL(), failing)
		go func() {
			time.Sleep(o.NoWorkers / 2)
			stop()
		}()
	}
	p := player(t)
	p.Dealer = q
	_, _, err := p.Play(t.Context(), episodes(8), 7)
	testkit.Error(t, err, queue.ErrNoWorkers, errClosed.Error(), o.NoWorkers.String())

	work(t, q.URL(), nil) // the queue is as before
	ts, _, err := p.Play(t.Context(), episodes(8), 7)
	require.NoError(t, err)
	require.Equal(t, bytesOf(t, expected(t, episodes(8), 7)), bytesOf(t, ts))
}

// TestABatchWaitsForWorkersThatStartLateOrAreReplaced: for a multiple of the time after which it would
// end it has no worker, then one that ended because it was told to, and then one that works on
// episodes longer than that while others fail. With 0 it waits although all failed.
func TestABatchWaitsForWorkersThatStartLateOrAreReplaced(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.NoWorkers = 100 * time.Millisecond
	limit := 4 * o.NoWorkers
	start := func(o queue.Options) (q *queue.Queue, over chan error) {
		q, over = open(t, o), make(chan error, 1)
		p := player(t)
		p.Dealer = q
		go func() {
			_, _, err := p.Play(context.Background(), episodes(8), 7)
			over <- err
		}()
		time.Sleep(limit)
		return q, over
	}
	q, over := start(o)
	taken, stopped := make(chan bool, 8), make(chan bool)
	stop := work(t, q.URL(), func(o *queue.WorkerOptions) {
		o.Slots, o.Drain = 1, 0
		o.OnTask = func(rollout.Episode) { taken <- true; <-stopped }
	})
	<-taken
	time.AfterFunc(limit, func() { close(stopped) })
	require.NoError(t, stop())
	time.Sleep(limit)

	var failed atomic.Bool
	work(t, q.URL(), func(o *queue.WorkerOptions) {
		o.OnTask = func(rollout.Episode) {
			for !failed.Load() {
				time.Sleep(time.Millisecond)
			}
		}
		o.Slots = 4 // and four are left
	})
	time.Sleep(limit)
	require.Eventually(t, func() bool {
		return errors.Is(queue.Work(t.Context(), failingAt(q.URL())), errClosed)
	}, time.Minute, time.Millisecond)
	time.Sleep(limit)
	failed.Store(true)
	require.NoError(t, <-over)

	o = options(t)
	o.NoWorkers = 0
	q, over = start(o)
	require.ErrorIs(t, queue.Work(t.Context(), failingAt(q.URL())), errClosed)
	time.Sleep(limit)
	select {
	case err := <-over:
		t.Fatal(err)
	default:
	}
	work(t, q.URL(), nil)
	require.NoError(t, <-over)
}

// failingAt are the options of a worker that fails.
func failingAt(url string) queue.WorkerOptions {
	o := queue.DefaultWorkerOptions()
	o.URL, o.Key, o.Slots, o.Open = url, testKey, 4, players(&traintest.Arena{}, traintest.Guesser())
	failing(&o)
	return o
}

// TestReportsOfTheEndOfWorkersAreNotTrusted: nonsense is ignored.
func TestReportsOfTheEndOfWorkersAreNotTrusted(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.NoWorkers = time.Millisecond
	q := open(t, o)
	nc, err := nats.Connect(q.URL(), nats.Token(testKey))
	require.NoError(t, err)
	defer nc.Close()
	for _, raw := range []string{"", "{", "7", "{}", `{"Ended":true,"Err":"no id"}`, `{"ID":7}`} {
		require.NoError(t, nc.Publish("vagen.vagen.worker", []byte(raw)))
	}
	require.NoError(t, nc.Flush())
	p := player(t)
	p.Dealer = q
	time.AfterFunc(time.Second, func() { work(t, q.URL(), nil) })
	_, _, err = p.Play(t.Context(), episodes(8), 7)
	require.NoError(t, err)
}
