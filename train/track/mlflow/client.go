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
	"os"
	"strings"
	"time"

	"vagen/internal/origin"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// ErrSetting is wrapped when the environment has no usable address of a server.
var ErrSetting = errors.New("bad setting")

// errRefused means that the server has rejected a request permanently: sending it
// again would give the same answer.
var errRefused = errors.New("refused")

// client sends requests of MLflow's REST API, version 2.0, to one server.
type client struct {
	base   string // address without a slash at the end
	token  string
	user   string
	secret string
	http   *http.Client
}

// Check reports whether the environment names a server, as New needs it, without
// contacting it. An address that is missing or malformed is an ErrSetting.
func Check() error {
	_, err := fromEnvironment()
	return err
}

// fromEnvironment makes a client from the variables that MLflow's own programs
// read. With MLFLOW_TRACKING_INSECURE_TLS=true certificates are not checked. No
// error contains a secret.
func fromEnvironment() (*client, error) {
	get := func(name string) string { return strings.TrimSpace(os.Getenv(name)) }
	address := get("MLFLOW_TRACKING_URI")
	if address == "" {
		return nil, fmt.Errorf("mlflow: %w: MLFLOW_TRACKING_URI is not set, must be the address of a server, such as http://localhost:5000", ErrSetting)
	}
	u, ok := origin.Parse(address)
	if !ok {
		return nil, fmt.Errorf("mlflow: %w: MLFLOW_TRACKING_URI must be the address of a server, http:// or https://; files and databases are reached through `mlflow server`", ErrSetting)
	}
	c := &client{
		token: get("MLFLOW_TRACKING_TOKEN"), user: get("MLFLOW_TRACKING_USERNAME"), secret: get("MLFLOW_TRACKING_PASSWORD"),
		// A redirect to another host would get the credentials or the bodies.
		http: origin.Client(origin.Stay, nil),
	}
	c.http.Timeout = 30 * time.Second
	if u.User != nil {
		if c.user == "" {
			c.user = u.User.Username()
			c.secret, _ = u.User.Password()
		}
		u.User = nil
	}
	c.base = strings.TrimRight(u.String(), "/")
	if get("MLFLOW_TRACKING_INSECURE_TLS") == "true" {
		t := transport.Default()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // set explicitly in the environment
		c.http.Transport = t
	}
	return c, nil
}

// String is the server's address.
func (c *client) String() string { return c.base }

// fault is a server's error response.
type fault struct {
	Status  int
	Code    string        `json:"error_code"`
	Message string        `json:"message"`
	after   time.Duration // the server asks for no request before; 0 does not ask
}

func (f *fault) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", f.Status, f.Code, clip(f.Message))
}

// Unwrap distinguishes permanent rejections from failures that a retry may fix.
func (f *fault) Unwrap() error {
	if f.Status >= 500 || f.Status == http.StatusTooManyRequests || f.Status == http.StatusRequestTimeout {
		return nil
	}
	return errRefused
}

// refusesContent reports whether the server rejects what is in a request, not the request.
func refusesContent(err error) bool {
	f, ok := errors.AsType[*fault](err)
	return ok && (f.Status == http.StatusBadRequest || f.Status == http.StatusRequestEntityTooLarge ||
		f.Status == http.StatusUnprocessableEntity)
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
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
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
	if origin.Refused(err) {
		return fmt.Errorf("mlflow: %s: %w: %w", path, errRefused, err)
	}
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
		f.Status, f.after = res.StatusCode, retry.After(res.Header, time.Now())
		return fmt.Errorf("mlflow: %s: %w", path, f)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("mlflow: %s: %w: the answer is not that of an MLflow server: %s", path, errRefused,
			clip(string(raw)))
	}
	return nil
}
