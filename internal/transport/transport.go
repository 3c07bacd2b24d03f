// Package transport copies the default HTTP transport.
package transport

import "net/http"

// Default returns a copy of http.DefaultTransport. A program may have replaced that by a
// transport of another type, which cannot be copied; then the result has the settings of
// package net/http that matter: the proxy of the environment.
func Default() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
}
