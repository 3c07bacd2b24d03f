package remote

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPagesOfOtherHostsAreRefused(t *testing.T) {
	open := serve(t, nil)
	named := serve(t, func(o *ServerOptions) { o.Hosts = []string{"box.example"} })
	keyed := serve(t, func(o *ServerOptions) { o.APIKey = "k" })
	lan := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80}
	for i, c := range []struct {
		s            *Server
		host, origin string
		at           net.Addr
		want         int
	}{
		{open, "localhost:8000", "", nil, 200}, {open, "127.0.0.1:8000", "", nil, 200}, {open, "[::1]:8000", "", nil, 200},
		{open, "evil.example", "", nil, 403}, {open, "localhost.evil.example", "", nil, 403}, {open, "", "", nil, 403},
		{open, "localhost:8000", "http://localhost:8000", nil, 200},
		{open, "localhost:8000", "http://localhost:3000", nil, 403},
		{open, "localhost:8000", "https://evil.example", nil, 403}, {open, "localhost:8000", "null", nil, 403},
		{open, "192.0.2.7", "", lan, 200}, {open, "localhost", "", lan, 403}, {open, "192.0.2.8", "", lan, 403},
		{open, "anything", "", &net.UnixAddr{Name: "/s"}, 200},
		{named, "box.example:80", "", nil, 200}, {named, "BOX.example", "https://box.example", nil, 200},
		{named, "evil.example", "", nil, 403},
		{keyed, "any.example", "", lan, 200}, {keyed, "any.example", "http://evil.example", lan, 403},
	} {
		for _, path := range []string{"/sessions", "/metrics"} {
			a := ask(t, c.s, http.MethodGet, path, nil, func(r *http.Request) {
				r.Host = c.host
				r.Header.Set("X-API-Key", "k")
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.at != nil {
					*r = *r.WithContext(contextWith(r, c.at))
				}
			})
			assert.Equal(t, c.want, a.status, "%d: %+v", i, c.host)
		}
	}
	a := ask(t, open, http.MethodPost, "/connect", "{}", func(r *http.Request) { r.Host = "evil.example" })
	assert.Equal(t, 403, a.status)
	assert.Zero(t, open.lite.len())
}

func contextWith(r *http.Request, at net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, at)
}
