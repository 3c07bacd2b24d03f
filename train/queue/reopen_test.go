package queue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// streamDir is where the embedded server has the files of its streams.
func streamDir(dir string) string { return filepath.Join(dir, "jetstream", "$G", "streams") }

// TestAStreamThatCannotBeCreatedYet: a server that is removing files when the stream is created
// refuses it for a moment. A file in the place of the stream's folder has the same effect, once:
// the server removes it then.
func TestAStreamThatCannotBeCreatedYet(t *testing.T) {
	f := newFixture(t, nil)
	other := f.opts
	other.URL = f.q.URL()
	streams := streamDir(f.opts.Dir)
	require.NoError(t, os.Mkdir(filepath.Join(streams, ".kept"), 0o755), "or the server removes the folder")
	require.NoError(t, Discard(t.Context(), other.Connection, "run-1"))
	testkit.Write(t, filepath.Join(streams, f.q.names.results), "")
	q, err := Open(t.Context(), other)
	require.NoError(t, err)
	require.NoError(t, q.Close())
}

// TestADiscardedQueueLeavesNoResults, even if the server cannot move the files out of the way
// because those of an earlier stream are still there.
func TestADiscardedQueueLeavesNoResults(t *testing.T) {
	f := newFixture(t, nil)
	other := f.opts
	other.URL, other.Run = f.q.URL(), "run-2"
	for range 3 {
		_, err := f.q.js.Publish(t.Context(), f.q.names.resultOf("batch"), []byte("result"))
		require.NoError(t, err)
	}
	earlier := filepath.Join(streamDir(f.opts.Dir), "."+f.q.names.results)
	require.NoError(t, os.MkdirAll(earlier, 0o755))
	testkit.Write(t, filepath.Join(earlier, "block"), "")
	require.NoError(t, Discard(t.Context(), other.Connection, "run-1"))
	q, err := Open(t.Context(), other)
	require.NoError(t, err)
	s, err := q.js.Stream(t.Context(), q.names.results)
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().State.Msgs)
	_, err = q.js.Publish(t.Context(), q.names.resultOf("batch"), []byte("result"))
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.State.Msgs)
	require.NoError(t, q.Close())
}
