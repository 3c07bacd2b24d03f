// Package mlflow is a small client of MLflow's REST API, version 2.0: what is
// needed to keep one run.
package mlflow

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrSetting means that the environment does not say how to reach a server.
var ErrSetting = errors.New("bad setting")

// ErrRefused means that a server has answered and will not do what was asked, now
// or later.
var ErrRefused = errors.New("refused")

// Client talks to one server.
type Client struct {
	base   string // address without a slash at the end
	token  string
	user   string
	secret string
	http   *http.Client
}

// FromEnvironment makes a client of the variables that MLflow's own programs read:
// MLFLOW_TRACKING_URI (http or https), and MLFLOW_TRACKING_TOKEN or
// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. With
// MLFLOW_TRACKING_INSECURE_TLS=true certificates are not checked. Secrets are in no
// error.
func FromEnvironment(getenv func(string) (string, bool)) (*Client, error) {
	get := func(name string) string { v, _ := getenv(name); return strings.TrimSpace(v) }
	address := get("MLFLOW_TRACKING_URI")
	if address == "" {
		return nil, fmt.Errorf("mlflow: %w: MLFLOW_TRACKING_URI is not set, must be the address of a server, such as http://localhost:5000", ErrSetting)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("mlflow: %w: MLFLOW_TRACKING_URI must be the address of a server, http:// or https://; files and databases are reached through `mlflow server`", ErrSetting)
	}
	c := &Client{token: get("MLFLOW_TRACKING_TOKEN"), user: get("MLFLOW_TRACKING_USERNAME"), secret: get("MLFLOW_TRACKING_PASSWORD"), http: &http.Client{Timeout: 30 * time.Second}}
	if u.User != nil {
		if c.user == "" {
			c.user = u.User.Username()
			c.secret, _ = u.User.Password()
		}
		u.User = nil
	}
	c.base = strings.TrimRight(u.String(), "/")
	if get("MLFLOW_TRACKING_INSECURE_TLS") == "true" {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // asked for by name
		c.http.Transport = t
	}
	return c, nil
}

// String is the server's address.
func (c *Client) String() string { return c.base }

// fault is what a server says when it does not do what it was asked.
type fault struct {
	Status  int
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

func (f *fault) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", f.Status, f.Code, clip(f.Message))
}

// Unwrap tells final answers from those that may change.
func (f *fault) Unwrap() error {
	if f.Status >= 500 || f.Status == http.StatusTooManyRequests || f.Status == http.StatusRequestTimeout {
		return nil
	}
	return ErrRefused
}

// clip keeps a page of HTML out of the log.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// call sends a request and reads the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("mlflow: %s: %w", path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/2.0/mlflow/"+path, body)
	if err != nil {
		return fmt.Errorf("mlflow: %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	switch {
	case c.user != "":
		req.SetBasicAuth(c.user, c.secret)
	case c.token != "":
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("mlflow: %s: %w", path, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("mlflow: %s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		f := &fault{}
		if json.Unmarshal(raw, f) != nil || f.Message == "" {
			f.Message = string(raw)
		}
		f.Status = res.StatusCode
		return fmt.Errorf("mlflow: %s: %w", path, f)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("mlflow: %s: %w: the answer is none of MLflow's: %s", path, ErrRefused, clip(string(raw)))
	}
	return nil
}
