package queue

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/regular"
	"vagen/internal/testkit"
)

// TestAnEmbeddedQueueWithoutAKeyMakesItsOwn: only who can read the file, which is the user, logs in. Every
// server has another key, and the file ends with it.
func TestAnEmbeddedQueueWithoutAKeyMakesItsOwn(t *testing.T) {
	for _, user := range []string{"", "alice"} {
		o := testOptions()
		o.Run, o.Dir, o.Listen, o.User = "run-1", t.TempDir(), "127.0.0.1:0", user
		if user != "" { // whose password is in a file
			o.KeyFile = filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(o.KeyFile, []byte("hunter2hunter2\n"), 0o600))
		}
		keys := map[string]bool{}
		for range 2 {
			q, err := Open(t.Context(), o)
			require.NoError(t, err)
			client := o
			client.URL, client.KeyFile, client.User = q.URL(), "", ""
			require.ErrorIs(t, Probe(t.Context(), client), ErrAccess, "without the key")
			w := DefaultWorkerOptions()
			w.URL = q.URL()
			w.Open = func(context.Context, Batch) (Opened, error) { return Opened{}, nil }
			require.ErrorIs(t, Work(t.Context(), w), ErrAccess)
			file := o.KeyFile
			if user == "" {
				file = q.KeyFile()
				require.Equal(t, filepath.Join(o.Dir, "key"), file)
				info, err := os.Stat(file)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode())
				keys[testkit.Text(t, file)] = true
			} else {
				require.Empty(t, q.KeyFile())
			}
			client.KeyFile, client.User = file, user
			require.NoError(t, Probe(t.Context(), client))
			require.NoError(t, q.Close())
			if user == "" {
				require.NoFileExists(t, file)
				continue
			}
			require.FileExists(t, file)
			keys[user] = true
		}
		require.Len(t, keys, map[string]int{"": 2, "alice": 1}[user])
	}
}

// TestAWorkerWaitsForTheFileOfTheKey: it may start before the trainer. An empty file is an error.
func TestAWorkerWaitsForTheFileOfTheKey(t *testing.T) {
	o := DefaultWorkerOptions()
	o.URL, o.KeyFile = "nats://127.0.0.1:1", filepath.Join(t.TempDir(), "key")
	o.Open = func(context.Context, Batch) (Opened, error) { return Opened{}, nil }
	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, Work(ended, o))
	require.NoError(t, os.WriteFile(o.KeyFile, []byte("\n"), 0o600))
	require.ErrorContains(t, Work(t.Context(), o), o.KeyFile+" is empty")
}

// TestTheFileOfAKeyMustBeRegular: opening a pipe would block a worker, which then ends at no signal.
func TestTheFileOfAKeyMustBeRegular(t *testing.T) {
	_, err := (&Connection{KeyFile: os.DevNull}).secret()
	require.ErrorIs(t, err, regular.ErrNotRegular)
	testkit.Error(t, err, ErrOption, "KeyFile")
}
