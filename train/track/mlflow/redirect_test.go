package mlflow

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/origin"
)

// TestRedirectsToOtherServersAreFinal: no call is sent again.
func TestRedirectsToOtherServersAreFinal(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://else.test", http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	c, err := fromEnvironment()
	require.NoError(t, err)
	err = c.call(t.Context(), http.MethodPost, "runs/update", nil, nil)
	require.ErrorIs(t, err, origin.ErrForeign)
	require.ErrorIs(t, err, errRefused)
}
