package openenv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"vagen/env/remote"
	"vagen/env/remote/hosts"
	"vagen/internal/clock"
	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/retry"
	"vagen/internal/transport"
)

// closing limits how long Close of a client takes, and that of a server once its context has ended.
const closing = time.Second

// pauses are the delays before further attempts to open a session.
var pauses = retry.Doubling(100*time.Millisecond, 5*time.Second)

// attempts is how often the opening of a session is tried at servers that do not answer.
const attempts = 5

// Error makes a fault of the server an error.
func (f *fault) Error() string { return fmt.Sprintf("%s: %v", f.Code, f.reason()) }

// Unwrap returns the sentinel.
func (f *fault) Unwrap() error {
	switch f.Code {
	case capacityReached:
		return remote.ErrBusy
	case sessionError, factoryError:
		return remote.ErrSession
	case executionError:
		return remote.ErrRemote
	}
	return remote.ErrRequest
}

// reason is the server's message with the fields that it names.
func (f *fault) reason() error {
	all := []string{clip(f.Message)}
	for _, p := range f.Errors[:min(len(f.Errors), maxProblems)] {
		all = append(all, clip(p.String()))
	}
	return errors.New(strings.Join(all, "; "))
}

// drop ends a session that cannot be continued.
func (c *Client) drop() {
	if c.conn == nil {
		return
	}
	c.in.close()
	c.conn, c.in = nil, nil
	c.session.Leave()
}

// connect opens a session at one of the servers.
func (c *Client) connect(ctx context.Context) error {
	delay := pauses.Pauses(retry.Jitter(1, c.session.Key()))
	a := c.session.Begin(hosts.Open, c.session.Key())
	defer a.Failed() // nothing after success
	for try := 0; ; try++ {
		result, err := c.dial(ctx, a.Host())
		a.Report(result)
		if err == nil {
			a.Succeeded()
			c.opening = a
			return nil
		}
		if try+1 >= attempts || errors.Is(err, errSetting) || errors.Is(err, remote.ErrUnauthorized) {
			return fmt.Errorf("no session at %s after %d attempts: %w", a.Host().Name(), try+1, err)
		}
		if err := delay.Wait(ctx); err != nil {
			return err
		}
		a.Next()
	}
}

// errSetting is wrapped by errors that another attempt repeats.
var errSetting = errors.New("the options do not fit the server")

// dial opens a WebSocket at a server, whose description it gets first.
func (c *Client) dial(ctx context.Context, h *hosts.Host) (hosts.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, clock.Seconds(c.o.Timeout))
	defer cancel()
	about, err := c.describe(ctx, h)
	if err == nil {
		err = c.adapt(about)
	}
	var conn *websocket.Conn
	if err == nil {
		q := c.request(ctx, h, "/ws")
		conn, _, err = websocket.Dial(ctx, q.URL.String(), dialOptions(origin.Client(origin.None, h.Transport(0)), q.Header))
	}
	switch {
	case transport.Unreached(err):
		return hosts.Unreachable, err
	case err != nil:
		return hosts.Refused, err
	}
	conn.SetReadLimit(int64(c.o.MaxResponse * (1 << 20)))
	c.conn, c.in = conn, readFrames(conn, nil)
	return hosts.Answered, nil // the first answer says whether there is room
}

func (c *Client) request(ctx context.Context, h *hosts.Host, path string) *http.Request {
	q := h.Request(ctx, http.MethodGet, path, nil)
	if c.o.Token != "" {
		q.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	return q
}

// probe asks whether a server answers.
func (c *Client) probe(ctx context.Context, h *hosts.Host) error {
	return c.get(ctx, h, "/health", new(any))
}

// get reads JSON from a server.
func (c *Client) get(ctx context.Context, h *hosts.Host, path string, into any) error {
	a, err := origin.Client(origin.None, h.Transport(0)).Do(c.request(ctx, h, path))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxDescription+1))
	switch {
	case err != nil:
	case a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden:
		err = remote.ErrUnauthorized
	case a.StatusCode == http.StatusNotFound:
		err = errAbsent
	case a.StatusCode != http.StatusOK:
		err = errors.New(clip(string(raw)))
	case len(raw) > maxDescription:
		err = fmt.Errorf("%w: more than %d bytes", remote.ErrTooLarge, maxDescription)
	default:
		if err = jsontext.Unmarshal(raw, into); err != nil {
			err = fmt.Errorf("%w: %w", remote.ErrProtocol, err)
		}
	}
	if err != nil {
		return fmt.Errorf("GET %s: status %d: %w", path, a.StatusCode, err)
	}
	return nil
}

// errAbsent means that a server does not know a path.
var errAbsent = errors.New("it does not exist")

// maxDescription limits the description of a server, in bytes.
const maxDescription = 1 << 20

// describe gets the description of a server, unless it is known.
func (c *Client) describe(ctx context.Context, h *hosts.Host) (*served, error) {
	if known, ok := c.known.Load(h); ok {
		return known.(*served), nil
	}
	s := new(served)
	var meta struct {
		Description string `json:"description"`
		Readme      string `json:"readme_content"`
	}
	err := c.get(ctx, h, "/metadata", &meta)
	if err == nil || errors.Is(err, errAbsent) { // not all servers describe themselves
		err = c.get(ctx, h, "/schema", &s.schema)
	}
	if err != nil {
		return nil, err
	}
	s.prompt = cmp.Or(meta.Readme, meta.Description)
	c.known.Store(h, s)
	return s, nil
}

// adapt chooses what the options leave open by the server's description.
func (c *Client) adapt(about *served) error {
	if c.about == about {
		return nil
	}
	m, err := newMapping(about.schema.Action, c.o.ActionFormat, c.o.ActionField, c.o.ActionFixed)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetting, err)
	}
	c.about, c.mapping = about, m
	shown := about.schema.Observation
	if c.o.Text == "" && shown.Field("text") != nil {
		c.text = "{text}"
	}
	if c.o.Images == nil && shown.Field("images") != nil {
		c.images = []path{{"images"}}
	}
	return nil
}

// reset sends a reset, on a new session if there is none, and waits while the servers have no
// room. An error that ends the wait names the server's answer, too.
func (c *Client) reset(ctx context.Context, data map[string]any) (_ *answered, err error) {
	var busy error // the last such answer
	defer func() {
		if err != nil && busy != nil && !errors.Is(err, remote.ErrBusy) {
			err = fmt.Errorf("%w: %w", err, busy)
		}
	}()
	delay := pauses.Pauses(retry.Jitter(2, c.session.Key()))
	deadline := time.Now().Add(clock.Seconds(c.o.CapacityWait))
	for {
		if c.conn == nil {
			if err := c.connect(ctx); err != nil {
				return nil, err
			}
		}
		a, err := c.exchange(ctx, "reset", data)
		if c.opening != nil {
			result := hosts.Opened
			if c.conn == nil {
				result = hosts.Refused
			}
			c.opening.Report(result)
			c.opening = nil
		}
		if !errors.Is(err, remote.ErrBusy) || time.Now().After(deadline) {
			return a, err
		}
		busy = err
		if err := delay.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// exchange sends a request of the session and waits for its answer.
func (c *Client) exchange(ctx context.Context, kind string, data map[string]any) (*answered, error) {
	out, err := json.Marshal(frame{kind, data})
	if err != nil {
		return nil, err
	}
	if c.in.early() { // all later answers would be those to other requests
		c.drop()
		return nil, fmt.Errorf("%w: the server has sent an answer without a request", remote.ErrUncertain)
	}
	call, cancel := context.WithTimeout(ctx, clock.Seconds(c.o.Timeout))
	defer cancel()
	// A server that refuses the session has sent an error before it closes it.
	sent := c.conn.Write(call, websocket.MessageText, out)
	conn := c.conn // the function may still be running when c.conn has changed
	stop := context.AfterFunc(call, func() { _ = conn.CloseNow() })
	in := c.in.next()
	stop()
	if err := in.err; err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if call.Err() != nil {
			err = fmt.Errorf("no answer within the timeout of %v s", c.o.Timeout)
		}
		c.drop()
		return nil, fmt.Errorf("%w: %w", remote.ErrUncertain, errors.Join(err, sent))
	}
	a, err := decode(in.kind, in.raw)
	if errors.Is(err, remote.ErrBusy) || errors.Is(err, remote.ErrSession) || errors.Is(err, remote.ErrProtocol) {
		c.drop()
	}
	return a, err
}

// maxValues limits the values of an answer: an image of 836×836 pixels in numbers has as many.
const maxValues = 1 << 21

// decode reads an answer. The error is a *fault if the server has sent one.
func decode(form websocket.MessageType, raw []byte) (*answered, error) {
	var f struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if form != websocket.MessageText {
		return nil, fmt.Errorf("%w: a binary frame of %d bytes", remote.ErrProtocol, len(raw))
	}
	err := jsontext.Strings(raw, maxValues, func(int, int) {})
	if err == nil {
		err = jsontext.Unmarshal(raw, &f)
	}
	switch {
	case err != nil:
	case f.Type == "observation":
		data, wrong := jsontext.Tree[map[string]any](string(f.Data), jsontext.Exact)
		if o := jsontext.Object(data["observation"]); o != nil && wrong == nil {
			if _, inside := o["metadata"]; !inside && data["metadata"] != nil { // where 0.10.0 has it
				o["metadata"] = data["metadata"]
			}
			return &answered{o, data["reward"], data["done"]}, nil
		}
		err = cmp.Or(wrong, errors.New("observation must be an object"))
	case f.Type == "error":
		refused := new(fault)
		if err = json.Unmarshal(f.Data, refused); err == nil {
			return nil, refused
		}
	default:
		err = errors.New("type must be observation or error")
	}
	return nil, fmt.Errorf("%w: %w: %s", remote.ErrProtocol, err, clip(string(raw)))
}
