package transport

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

type other struct{ http.RoundTripper }

// TestAReplacedDefaultIsNoPanic: programs wrap http.DefaultTransport to trace requests.
func TestAReplacedDefaultIsNoPanic(t *testing.T) {
	own := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = own })
	a := Default()
	require.NotSame(t, own, a)
	require.NotNil(t, a.Proxy)
	http.DefaultTransport = other{own}
	require.NotNil(t, Default().Proxy)
}
