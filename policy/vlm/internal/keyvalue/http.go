package keyvalue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"vagen/internal/origin"
)

// ErrToken is wrapped by errors of a client whose token the server does not accept.
var ErrToken = errors.New("the token is not that of the server")

// longestWait limits the time that the server keeps a request for a key without a value. The
// client repeats it until its context ends, so that a server that has died is noticed.
const longestWait = 10 * time.Second

// Handler serves a store: GET /?key=K returns a value or status 404, with wait=1 after some
// seconds only; PUT /?key=K sets one.
func Handler(s Store, token string) http.Handler {
	return Authorized(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Query().Get("key")
		var value []byte
		var err error
		switch {
		case r.Method == http.MethodPut:
			if value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxValue)); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
				return
			}
			err, value = s.Put(r.Context(), key, value), nil
		case r.Method != http.MethodGet:
			http.Error(w, "method "+r.Method+" must be GET or PUT", http.StatusMethodNotAllowed)
			return
		case r.URL.Query().Get("wait") != "":
			ctx, cancel := context.WithTimeout(r.Context(), longestWait)
			defer cancel()
			value, err = s.Get(ctx, key)
		default:
			value, err = s.TryGet(r.Context(), key)
		}
		switch {
		case err == nil:
			w.Write(value)
		case errors.Is(err, ErrNotFound), errors.Is(err, context.DeadlineExceeded):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, ErrExists):
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
}

// Authorized passes only requests that carry the token; an empty token passes all.
func Authorized(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if token != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 0 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Client is a store that another process serves.
type Client struct {
	URL   string // of Handler
	Token string
}

// Get implements Store. Servers that cannot be reached are an error.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		value, err := c.do(ctx, http.MethodGet, key, "1", nil)
		if !errors.Is(err, ErrNotFound) {
			return value, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("keyvalue: waiting for key %q: %w", key, ctx.Err())
		}
	}
}

// TryGet implements Store.
func (c *Client) TryGet(ctx context.Context, key string) ([]byte, error) {
	return c.do(ctx, http.MethodGet, key, "", nil)
}

// Put implements Store.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	if err := checkSizes(key, value); err != nil {
		return err
	}
	_, err := c.do(ctx, http.MethodPut, key, "", value)
	return err
}

func (c *Client) do(ctx context.Context, method, key, wait string, body []byte) ([]byte, error) {
	query := url.Values{"key": {key}}
	if wait != "" {
		query.Set("wait", wait)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("keyvalue: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	answer, err := origin.Client(origin.Stay, nil).Do(r)
	if err != nil {
		return nil, fmt.Errorf("keyvalue: %w", err)
	}
	defer answer.Body.Close()
	value, err := io.ReadAll(io.LimitReader(answer.Body, MaxValue+1))
	if err != nil {
		return nil, fmt.Errorf("keyvalue: %w", err)
	}
	switch {
	case answer.StatusCode == http.StatusOK && len(value) > MaxValue:
		return nil, fmt.Errorf("keyvalue: key %q: %w: the value has more than %d bytes", key, ErrLimit, MaxValue)
	case answer.StatusCode == http.StatusOK:
		return value, nil
	}
	kind := map[int]error{
		http.StatusNotFound: ErrNotFound, http.StatusConflict: ErrExists, http.StatusUnauthorized: ErrToken,
		http.StatusBadRequest: ErrLimit, http.StatusRequestEntityTooLarge: ErrLimit,
	}[answer.StatusCode]
	if kind == nil {
		kind = errors.New(answer.Status)
	}
	return nil, fmt.Errorf("keyvalue: %s %q: %w: %s", method, key, kind, strings.TrimSpace(string(value[:min(len(value), 200)])))
}
