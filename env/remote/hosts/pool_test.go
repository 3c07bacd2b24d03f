package hosts

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListsThatChangeDoNotAccumulate(t *testing.T) {
	p := New(DefaultOptions())
	for i := range 3 * maxLists {
		_, err := p.Session([]string{fmt.Sprintf("http://host%d", i)}, SessionOptions{})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(p.lists), maxLists)
	require.LessOrEqual(t, len(p.byURL), maxLists)
}

// TestAServiceIsReadmittedWithoutAProbe: a session that has none cannot ask, but an answer readmits it.
func TestAServiceIsReadmittedWithoutAProbe(t *testing.T) {
	p := New(Options{})
	s, err := p.Session([]string{"http://a"}, SessionOptions{})
	require.NoError(t, err)
	for _, result := range []Result{Unreachable, Opened} {
		time.Sleep(time.Microsecond) // longer than the pause
		a := s.Begin(Open, 0)
		require.NotNil(t, a.Host())
		a.Report(result)
		a.Failed()
		require.Equal(t, result == Unreachable, p.Status()[0].Ejected)
	}
	require.NoError(t, p.Close())
	none := new(Session).Begin(Open, 0)
	require.Nil(t, none.Host())
	none.Report(Silent)
}

func TestRequestsHaveTheirAddressAndPath(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:p@h:1/base": "http://u:p@h:1/base/call", "http://h": "http://h/call",
		"https://h/a%2Fb": "https://h/a%2Fb/call",
	} {
		s, err := New(DefaultOptions()).Session([]string{raw}, SessionOptions{})
		require.NoError(t, err)
		r := s.Hosts()[0].Request(t.Context(), http.MethodPost, "/call", []byte("x"))
		require.Equal(t, want, r.URL.String())
		require.Equal(t, raw, s.Hosts()[0].url.String(), "the shared address is unchanged")
	}
}

func TestErrorsOfAddressesHaveNoPasswords(t *testing.T) {
	for _, raw := range []string{"http://u:secret@h:x", "ftp://u:secret@h", "http://u:secret@h?q", "http://u:secret@%zz"} {
		_, err := New(DefaultOptions()).Session([]string{raw}, SessionOptions{})
		require.ErrorContains(t, err, "base_urls")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestKeepAliveOfAService(t *testing.T) {
	for head, want := range map[string]float64{"timeout=120": 120, "max=5, Timeout=7": 7, "timeout=x": 0, "": 0,
		"timeout=-1": 0} {
		var h Host
		h.Heard(http.Header{"Keep-Alive": {head}})
		require.InDelta(t, want, h.KeepsIdle().Seconds(), 0, head)
	}
}
