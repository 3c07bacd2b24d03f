package hub

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneModelIsFetchedByOneCallAtATime(t *testing.T) {
	h := serve(t)
	cache := t.TempDir()
	busy, waits := make(chan struct{}), make(chan struct{})
	var once sync.Once
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".safetensors") {
			once.Do(func() {
				close(busy)
				<-waits // the other call is here and finds the model locked
			})
		}
		h.ServeHTTP(w, r)
	}))
	defer front.Close()
	first := make(chan error, 1)
	go func() {
		_, err := Fetch(t.Context(), "who/what", Options{Endpoint: front.URL, Cache: cache})
		first <- err
	}()
	<-busy
	log := slog.New(telling{slog.DiscardHandler, waits})
	dir, err := Fetch(t.Context(), "who/what", Options{Endpoint: front.URL, Cache: cache, Log: log})
	require.NoError(t, err)
	require.NoError(t, <-first)
	got, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, h.files["model.safetensors"], string(got))
	n := 0
	for _, path := range h.asked {
		if strings.Contains(path, ".safetensors") {
			n++
		}
	}
	require.Equal(t, 1, n, "the second call takes what the first one fetched")
}

// telling closes a channel when something is logged.
type telling struct {
	slog.Handler
	logged chan struct{}
}

func (telling) Enabled(context.Context, slog.Level) bool { return true }

func (l telling) Handle(context.Context, slog.Record) error {
	close(l.logged)
	return nil
}
