package engine

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/origin"
	"vagen/internal/testkit"
)

// TestRedirectsToOtherServersAreFinal: no attempt is repeated.
func TestRedirectsToOtherServersAreFinal(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://else.test", http.StatusTemporaryRedirect))
	defer server.Close()
	o := DefaultOptions()
	err := newWire(&o).call(t.Context(), server.URL, http.MethodPost, "/generate", nil, nil)
	require.ErrorIs(t, err, origin.ErrForeign)
	require.True(t, fatal(err))
}

func TestAnswersThatAreNotUTF8AreRefused(t *testing.T) {
	for _, text := range []string{"\"caf\xe9\"", `"caf\ud83d"`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(text))
		}))
		o := DefaultOptions()
		var out string
		err := newWire(&o).call(t.Context(), server.URL, http.MethodGet, "/generate", nil, &out)
		server.Close()
		testkit.Error(t, err, ErrProtocol, "line 1, byte 5")
	}
}
