package engine

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/origin"
)

// TestRedirectsLeadToNoOtherServer: a server that redirects to another port gets an error,
// and the other one gets neither the key nor the request.
func TestRedirectsLeadToNoOtherServer(t *testing.T) {
	var asked bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	o := DefaultOptions()
	o.Key = "secret"
	err := newWire(&o).call(t.Context(), server.URL, http.MethodPost, "/generate", map[string]int{"n": 1}, nil)
	require.ErrorIs(t, err, origin.ErrForeign)
	require.True(t, fatal(err), "no attempt is repeated")
	require.False(t, asked)
}

func TestAnswersThatAreNotUTF8AreRefused(t *testing.T) {
	for _, text := range []string{"\"caf\xe9\"", `"caf\ud83d"`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		o := DefaultOptions()
		var out string
		err := newWire(&o).call(t.Context(), server.URL, http.MethodGet, "/generate", nil, &out)
		server.Close()
		require.ErrorIs(t, err, ErrProtocol)
		require.ErrorContains(t, err, "line 1, byte 5")
	}
}
