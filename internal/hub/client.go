package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// Endpoint is the hub's address.
const Endpoint = "https://huggingface.co"

// ErrNoToken means that the environment has no token.
var ErrNoToken = errors.New("the environment has no HF_TOKEN")

// stall is the default of Options.Stall. It includes the time until the hub answers after
// all bytes are sent.
const stall = 2 * time.Minute

// Options say how a Client reaches the hub.
type Options struct {
	Endpoint string        // address; "" is HF_ENDPOINT, or else the constant Endpoint
	Token    string        // "" is HF_TOKEN, or else none
	Stall    time.Duration // longest time without a transferred byte; 0 is two minutes
}

// Client makes requests. It sends its token only to the endpoint's scheme, host and port,
// also after a redirect to another one.
type Client struct {
	endpoint, token string
	http            *http.Client
	stall           time.Duration
}

// New returns a client. An endpoint that is not a URL is an error.
func New(o Options) (*Client, error) {
	endpoint := cmp.Or(o.Endpoint, os.Getenv("HF_ENDPOINT"), Endpoint)
	if _, ok := origin.Parse(endpoint); !ok {
		return nil, fmt.Errorf("hub: the endpoint (HF_ENDPOINT) is %q, must be an address such as %s", endpoint, Endpoint)
	}
	return &Client{
		endpoint: strings.TrimRight(endpoint, "/"), token: strings.TrimSpace(cmp.Or(o.Token, os.Getenv("HF_TOKEN"))),
		stall: cmp.Or(o.Stall, stall), http: origin.Client(origin.KeepKeys, nil),
	}, nil
}

// FromEnvironment returns a client with the token HF_TOKEN, which is required, and the
// endpoint HF_ENDPOINT if it is set.
func FromEnvironment() (*Client, error) {
	c, err := New(Options{})
	if err == nil && c.token == "" {
		err = ErrNoToken
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// StatusError is an answer that is not a success.
type StatusError struct {
	Code  int
	After time.Duration // the hub asks for no request before; 0 does not ask
	text  string
}

// Error implements error.
func (e *StatusError) Error() string { return e.text }

// Get requests a path of the endpoint, starting at byte from. The caller closes the body;
// its Read returns an error if the transfer stalls. A status that is not a success is a
// StatusError.
func (c *Client) Get(ctx context.Context, path string, from int64) (*http.Response, error) {
	r, err := c.request(ctx, http.MethodGet, c.endpoint+path, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	return c.open(r)
}

// post sends JSON to the endpoint and decodes the JSON answer.
func (c *Client) post(ctx context.Context, path, kind string, ask, answer any) error {
	raw, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return c.send(ctx, http.MethodPost, c.endpoint+path, kind, bytes.NewReader(raw), answer)
}

// send makes a request with a body of the content type kind and decodes the JSON answer.
func (c *Client) send(ctx context.Context, method, address, kind string, body io.Reader, answer any) error {
	r, err := c.request(ctx, method, address, body)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if kind == lfsKind {
		r.Header.Set("Accept", kind)
	}
	_, err = c.do(r, answer)
	return err
}

// request returns a request, with the token if its address is that of the endpoint. Storage
// uses signed addresses instead.
func (c *Client) request(ctx context.Context, method, address string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	if own, err := url.Parse(c.endpoint); err == nil && c.token != "" && origin.Same(r.URL, own) {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// do sends a request and decodes the JSON answer into answer, unless that is nil.
func (c *Client) do(r *http.Request, answer any) (http.Header, error) {
	resp, err := c.open(r)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", place(r), err)
	}
	if answer != nil {
		if err := jsontext.Unmarshal(raw, answer); err != nil {
			return nil, fmt.Errorf("hub: %s: the answer is not the expected JSON: %w", place(r), err)
		}
	}
	return resp.Header, nil
}

// place returns a request's method and address without the query, which may contain a
// signature.
func place(r *http.Request) string {
	return r.Method + " " + r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
}

// open sends a request and returns a successful answer. Until the body is closed, a stall
// cancels the request.
func (c *Client) open(r *http.Request) (*http.Response, error) {
	at := place(r)
	resp, err := transport.Watched(c.http, r, c.stall, c.stall)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", at, resp.Status, err)
	}
	message := fmt.Sprintf("%s: %s: %s", at, resp.Status, bytes.TrimSpace(text))
	return nil, &StatusError{resp.StatusCode, retry.After(resp.Header, time.Now()), message}
}
