// Package transport is what clients share: a copy of the default HTTP transport, and what they say of errors.
package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
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

// Failure reads the body of an answer that says what failed: the message, or else the whole body, and the object with
// more about it, nil without one. It knows the objects of OpenAI, Anthropic and Google, which may be in a list, of
// vLLM and SGLang, and of FastAPI.
func Failure(body []byte) (message string, object map[string]json.RawMessage) {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	if json.Unmarshal(body, &object) != nil {
		return string(body), nil
	}
	var inner map[string]json.RawMessage
	detail := object["detail"]
	switch raw := object["error"]; {
	case json.Unmarshal(raw, &message) == nil && message != "":
		return message, nil
	case json.Unmarshal(raw, &inner) == nil && inner != nil:
		object = inner
	}
	for _, raw := range []json.RawMessage{object["message"], detail} {
		if json.Unmarshal(raw, &message) == nil && message != "" {
			return message, object
		}
	}
	return string(body), object
}

// Clip shortens the text of another program to n bytes for messages.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
