package hosts

import (
	"cmp"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// All clients of a process share two transports. Uvicorn closes idle connections after 5 s;
// closing them earlier here avoids sending a request on a connection that the service is
// closing. A service that says in the header Keep-Alive that it keeps them for at least
// longKeep gets requests on connections that stay open for longIdle.
var shortTransport, longTransport = newTransport(4 * time.Second), newTransport(longIdle)

const (
	longIdle = 90 * time.Second
	longKeep = longIdle + 10*time.Second
)

func newTransport(idle time.Duration) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// Three repetitions of the first packet fit into 10 s.
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   30 * time.Second,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       idle,
		ExpectContinueTimeout: time.Second,
	}
}

// Transport returns the transport that all clients of the process share for such services. It
// keeps idle connections for 90 s if the service announces that it keeps them for at least 100 s,
// or, without an announcement, if unannounced is at least 100 s; else for 4 s.
func (h *Host) Transport(unannounced time.Duration) *http.Transport {
	if cmp.Or(h.KeepsIdle(), unannounced) >= longKeep {
		return longTransport
	}
	return shortTransport
}

// process is the pool of Process. Processes begin at different services.
var process = func() *Pool {
	o := DefaultOptions()
	o.FirstKey = rand.Uint64()
	return New(o)
}()

// Process returns the pool of all clients of this process that have no pool of their own.
func Process() *Pool { return process }
