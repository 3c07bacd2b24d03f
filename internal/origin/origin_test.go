package origin

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hops is a transport that answers with redirects to its addresses, one after the other, and
// then with status 200. It records the requests.
type hops struct {
	to   []string
	seen []*http.Request
}

func (h *hops) RoundTrip(r *http.Request) (*http.Response, error) {
	h.seen = append(h.seen, r)
	a := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if n := len(h.seen); n <= len(h.to) {
		a.StatusCode = http.StatusTemporaryRedirect
		a.Header.Set("Location", h.to[n-1])
	}
	return a, nil
}

func send(t *testing.T, rule Rule, to ...string) (*hops, int, error) {
	t.Helper()
	h := &hops{to: to}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://here.test/a", strings.NewReader("body"))
	require.NoError(t, err)
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		r.Header.Set(name, "secret")
	}
	a, err := Client(rule, h).Do(r)
	if err != nil {
		return h, 0, err
	}
	return h, a.StatusCode, a.Body.Close()
}

// foreign are addresses of other origins than https://here.test.
var foreign = []string{
	"http://here.test/a",
	"https://here.test:444/a",
	"https://sub.here.test/a",
	"https://else.test/a",
	"//else.test/a",
}

// TestAClientHasARuleForRedirects: what each rule follows, and that credentials and bodies
// never reach another origin that may not have them.
func TestAClientHasARuleForRedirects(t *testing.T) {
	for _, address := range foreign {
		h, status, err := send(t, None, address)
		require.NoError(t, err)
		require.Equal(t, http.StatusTemporaryRedirect, status)
		require.Len(t, h.seen, 1)

		h, _, err = send(t, Stay, address)
		require.ErrorIs(t, err, ErrForeign, address)
		require.True(t, Refused(err))
		require.Len(t, h.seen, 1)

		h, status, err = send(t, KeepKeys, address, "https://here.test:443/b")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Len(t, h.seen, 3)
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
			require.Empty(t, h.seen[1].Header.Values(name), "%s to %s", name, address)
		}
	}
	for _, address := range []string{"/b", "https://here.test:443/b"} {
		for _, rule := range []Rule{Stay, KeepKeys} {
			h, status, err := send(t, rule, address)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "secret", h.seen[1].Header.Get("Authorization"), address)
		}
	}
}

// TestNoRuleIsTheStrictestRule: a client without a known rule follows nothing.
func TestNoRuleIsTheStrictestRule(t *testing.T) {
	for _, rule := range []Rule{0, -1, 99} {
		h, status, err := send(t, rule, "/b")
		require.NoError(t, err)
		require.Equal(t, http.StatusTemporaryRedirect, status)
		require.Len(t, h.seen, 1)
	}
}

// TestRedirectsEnd: a chain without an end is an error that no retry mends.
func TestRedirectsEnd(t *testing.T) {
	for _, rule := range []Rule{Stay, KeepKeys} {
		h, _, err := send(t, rule, strings.Split(strings.Repeat("/b ", 20), " ")[:20]...)
		require.ErrorIs(t, err, ErrRedirects)
		require.True(t, Refused(err))
		require.Len(t, h.seen, maxRedirects)
	}
	require.False(t, Refused(nil))
	require.False(t, Refused(http.ErrHandlerTimeout))
}

// TestSame: default ports and letter case do not make another origin.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"http://a/x", "http://A:80/y?z", true},
		{"https://a", "https://a:443", true},
		{"https://a", "https://a:80", false},
		{"http://a", "https://a", false},
		{"http://a", "http://b.a", false},
		{"http://[::1]", "http://[::1]:80", true},
		{"ftp://a", "ftp://a:80", false},
	} {
		a, err := url.Parse(c.a)
		require.NoError(t, err)
		b, err := url.Parse(c.b)
		require.NoError(t, err)
		require.Equal(t, c.want, Same(a, b), "%s %s", c.a, c.b)
	}
}
