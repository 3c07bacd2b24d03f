package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/queue"
)

// TestWhatAWorkerSaysOfARunReachesNoOther: it is said while the server is away, and arrives when
// that of the next run has the address.
func TestWhatAWorkerSaysOfARunReachesNoOther(t *testing.T) {
	o := options(t)
	o.Listen, o.Run = traintest.FreeAddress(t), "run 1\nof two"
	var heard chan string
	play := func() *queue.Queue {
		own := make(chan string, 100)
		heard = own
		o.Hear = func(m []byte, answer func([]byte)) {
			own <- string(m)
			answer([]byte("answer to " + string(m)))
		}
		q, err := queue.Open(t.Context(), o)
		require.NoError(t, err)
		p := player(t)
		p.Dealer = q
		_, _, err = p.Play(t.Context(), episodes(8), 7)
		require.NoError(t, err)
		require.NoError(t, q.Finish(t.Context()))
		return q
	}
	batches := make(chan queue.Batch, 100)
	stop := work(t, "nats://"+o.Listen, func(o *queue.WorkerOptions) {
		inner := o.Open
		o.Open = func(ctx context.Context, b queue.Batch) (queue.Opened, error) {
			answer, err := b.Ask(ctx, []byte(b.Tag))
			if err == nil && string(answer) != "answer to "+b.Tag {
				t.Errorf("%q", answer)
			}
			batches <- b
			opened, openErr := inner(ctx, b)
			if err == nil {
				err = openErr
			}
			return opened, err
		}
	})
	q := play()
	require.Equal(t, "test", <-heard)
	require.NoError(t, q.Close())
	(<-batches).Tell([]byte("of the first run"))
	o.Run, o.Dir = "run 2", t.TempDir()
	q = play()
	require.NoError(t, stop())
	require.NoError(t, q.Close())
	require.Equal(t, "test", <-heard)
	require.Empty(t, heard)
}
