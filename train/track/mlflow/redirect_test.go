package mlflow

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/origin"
)

// TestRedirectsLeadToNoOtherServer: a server that redirects to another port gets an error,
// and the other one gets neither credentials nor bodies.
func TestRedirectsLeadToNoOtherServer(t *testing.T) {
	var asked bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	t.Setenv("MLFLOW_TRACKING_TOKEN", "secret")
	c, err := fromEnvironment()
	require.NoError(t, err)
	err = c.call(t.Context(), http.MethodPost, "runs/update", map[string]int{"n": 1}, nil)
	require.ErrorIs(t, err, origin.ErrForeign)
	require.ErrorIs(t, err, errRefused, "it is not sent again")
	require.False(t, asked)
}
