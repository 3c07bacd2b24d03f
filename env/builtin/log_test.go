package builtin

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run's log names services of environments that do not answer, without their passwords.
func TestServicesThatEndAreLogged(t *testing.T) {
	for _, name := range []string{"remote", "remote_legacy"} {
		var log bytes.Buffer
		r := LoggedRegistry(nil, slog.New(slog.NewTextHandler(&log, nil)))
		// Nothing listens at port 1.
		e, err := r.New(name, map[string]any{"base_urls": "http://u:secret@127.0.0.1:1/" + name, "env_name": "x",
			"retries": 0})
		require.NoError(t, err)
		_, err = e.Reset(t.Context(), 1)
		require.Error(t, err)
		require.Contains(t, log.String(), `level=WARN msg="service ejected" url=http://u:xxxxx@127.0.0.1:1/`+name)
		require.NotContains(t, log.String(), "secret")
	}
}
