// Package transport is what clients share: a copy of the default HTTP transport, and what they say of errors.
package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Default returns a copy of http.DefaultTransport. A program may have replaced that by a
// transport of another type, which cannot be copied; then the result has the settings of
// package net/http that matter: the proxy of the environment.
func Default() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
}

// Unreached reports whether a request failed because no connection could be made, so that
// nothing was sent.
func Unreached(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &name) || errors.As(err, &cert)
}

// Cause leaves out of an error the method and the URL, which may have a password and which callers add.
func Cause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Clip shortens the text of another program to n bytes for messages.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
