package queue

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// TestQueuesWhoseNamesBeginAlikeAreApart: a batch of one, and its end, remove nothing of the
// other.
func TestQueuesWhoseNamesBeginAlikeAreApart(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Name = "run" })
	other := namesOf("run_2")
	_, err := f.q.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: other.settings()})
	require.NoError(t, err)
	_, err = f.q.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: other.bucket("0123456789abcdef01234567")})
	require.NoError(t, err)
	f.start(t)
	f.work(t, f.workerOptions())
	f.finish(t)
	require.NoError(t, f.q.Finish(t.Context()))
	var left []string
	for name := range f.q.js.ObjectStoreNames(t.Context()).Name() {
		left = append(left, name)
	}
	require.ElementsMatch(t, []string{other.settings(), other.bucket("0123456789abcdef01234567")}, left)
}
