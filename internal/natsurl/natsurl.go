// Package natsurl checks the addresses of NATS servers, and how the queue of a run logs in there.
package natsurl

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Listen splits the address on which a server listens, such as 127.0.0.1:4222.
func Listen(text string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(text)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil || port < 0 || port > math.MaxUint16 {
		return "", 0, fmt.Errorf("%q, must be host:port, with a port from 0 to %d", text, math.MaxUint16)
	}
	return host, port, nil
}

// Check returns an error unless a text is the address of a NATS server, such as
// nats://host:4222, tls://host:4222 or wss://host, or several with commas between them. The error
// does not show the text, which may contain a secret.
func Check(text string) error {
	web := 0
	all := strings.Split(text, ",")
	for _, one := range all {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil { // its text may contain credentials
			return errors.New("it is not a URL, it must be of the form nats://host:4222")
		}
		if u.User != nil {
			return fmt.Errorf("the URL of %s contains credentials: set the key or the file of credentials instead", u.Host)
		}
		known := u.Scheme == "nats" || u.Scheme == "tls"
		if u.Scheme == "ws" || u.Scheme == "wss" {
			known = true
			web++
		}
		if !known || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("it must be of the form nats://host:4222 or tls://host:4222, without path and query")
		}
	}
	if web > 0 && web < len(all) { // the client of NATS cannot mix them
		return errors.New("it has URLs of websockets and others, all must be of one kind")
	}
	return nil
}
