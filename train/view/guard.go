package view

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"vagen/internal/origin"
)

const (
	// maxURL limits the address of a request in bytes.
	maxURL = 8 << 10

	keyHeader = "X-API-Key"
)

// headers are sent with every answer.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			h.log.Error("request handler panicked", "path", clip(r.URL.Path, 200), "panic", p)
			refuse(w, failure{http.StatusInternalServerError, fmt.Errorf("the server failed, see its log")})
		}
	}()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, failure{http.StatusMethodNotAllowed, fmt.Errorf("the method is %s, must be GET or HEAD", clip(r.Method,
			20))})
		return
	}
	if err := h.admit(r); err != nil {
		refuse(w, err)
		return
	}
	if h.key != "" {
		if r.URL.Query().Has("key") && !strings.HasPrefix(r.URL.Path, "/api/") {
			h.keep(w, r)
			return
		}
	}
	h.next.ServeHTTP(w, r)
}

// admit refuses requests that are too large, come from pages of other origins, or lack
// the key.
func (h *handler) admit(r *http.Request) error {
	if n := len(r.URL.RequestURI()); n > maxURL {
		return failure{http.StatusRequestURITooLong, fmt.Errorf("the address has %d bytes, at most %d are allowed", n,
			maxURL)}
	}
	if r.ContentLength != 0 {
		return badRequest("the request has a body, must have none")
	}
	refused := func(format string, args ...any) error {
		return failure{http.StatusForbidden, fmt.Errorf(format, args...)}
	}
	if h.key == "" {
		if !origin.Loopback(r.Host) {
			return refused("Host: %q is not a loopback name; give the server a key to use it under other names",
				clip(r.Host, 100))
		}
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && !at.IP.IsLoopback() {
			return refused("the server listens on %v, which other machines reach: it needs a key", at.IP)
		}
	}
	if page := r.Header.Get("Origin"); page != "" {
		own := &url.URL{Scheme: "http", Host: r.Host}
		if r.TLS != nil {
			own.Scheme = "https"
		}
		if u, err := url.Parse(page); err != nil || !origin.Same(u, own) {
			return refused("Origin: pages of %q must not use this server", clip(page, 100))
		}
	}
	// A link on another page may open the page, but must not load its data.
	site, opens := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		!strings.HasPrefix(r.URL.Path, "/api/")
	if site != "" && site != "same-origin" && site != "none" && !opens {
		return refused("Sec-Fetch-Site: a page of another origin (%s) must not use this server", clip(site, 20))
	}
	if h.key != "" && !h.knows(r) {
		return failure{http.StatusUnauthorized, fmt.Errorf("the key is missing or wrong; open the address with ?key=… once")}
	}
	return nil
}

// knows reports whether a request has the key or the cookie for it.
func (h *handler) knows(r *http.Request) bool {
	ok := origin.SameKey(r.Header.Get(keyHeader), h.key)
	ok = origin.SameKey(r.URL.Query().Get("key"), h.key) || ok
	for _, c := range r.CookiesNamed(h.cookie()) {
		ok = origin.SameKey(c.Value, h.session()) || ok
	}
	return ok
}

// session is the cookie for the key, from which the key cannot be computed.
func (h *handler) session() string {
	m := hmac.New(sha256.New, []byte(h.key))
	m.Write([]byte("vagen view session"))
	return hex.EncodeToString(m.Sum(nil))
}

// cookie is the name of the cookie. Browsers send cookies to all ports of a host, where each server
// has its own key.
func (h *handler) cookie() string { return "vagen_view_" + h.session()[:16] }

// keep sets the cookie, and removes the key from the address that the browser shows.
func (h *handler) keep(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: h.cookie(), Value: h.session(), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	q := r.URL.Query()
	q.Del("key")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: q.Encode()}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusSeeOther)
}
