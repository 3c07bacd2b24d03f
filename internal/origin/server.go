package origin

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// IdleTimeout is how long a Server keeps an idle connection.
const IdleTimeout = 2 * time.Minute

// Server returns an HTTP server that ends connections whose headers are slow or large. Its errors are logged at debug level.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: IdleTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Begin begins an answer, which must be written within a time: a client that does not read must not keep the connection
// open.
func Begin(w http.ResponseWriter, status int, kind string, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // not supported by writers of tests
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
}

// Keys returns the keys that a request has, some of which may be empty: in the query's token, in the header X-API-Key,
// as the password of basic authentication, and as a bearer token. Clients may send several: anthropic-python sends one
// of its environment beside that of the program.
func Keys(r *http.Request) []string {
	key := r.Header.Get("Authorization")
	if scheme, rest, _ := strings.Cut(key, " "); strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(rest)
	}
	_, password, _ := r.BasicAuth()
	return []string{r.URL.Query().Get("token"), r.Header.Get("X-API-Key"), password, key}
}

// HasKey reports whether one of a request's keys is a key, in a time that depends on neither.
func HasKey(r *http.Request, key string) bool {
	return slices.ContainsFunc(Keys(r), func(k string) bool { return SameKey(k, key) })
}

// SameKey compares keys, in a time that depends on neither.
func SameKey(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
