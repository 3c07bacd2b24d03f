package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/remote/hosts"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/transport"
	"vagen/internal/unmade"
)

// Client is an environment that a service of the Lite protocol hosts. It
// implements env.Env.
//
// The session is opened by the first Reset, which is one request, or by System if
// that is called first. All its requests go to the URL where it was opened. If the
// service has lost it, Step fails with ErrSession; if the service does not answer any more
// and others do, Step fails with ErrUnreachable. Reset opens a new session then.
//
// If it is unknown whether the service played a step, that step and all later ones
// fail with ErrUncertain until Reset. The reward of an outcome has a single part,
// partReward, because the protocol sends only the sum.
type Client struct {
	played
	session string
}

// played is what the clients of both protocols keep of an episode.
type played struct {
	calls   calls.Guard
	send    *sender
	ready   bool  // Reset has succeeded
	unclear error // set when it is unknown whether a step was played
	info    map[string]any
}

func newPlayed(o ClientOptions) (played, error) {
	s, err := newSender(o)
	return played{calls: calls.Guard{Env: "remote"}, send: s}, err
}

var _ env.Env = (*Client)(nil)

// NewClient returns a client that has not made any request yet.
func NewClient(o ClientOptions) (*Client, error) {
	p, err := newPlayed(o)
	if err != nil {
		return nil, err
	}
	return &Client{played: p}, nil
}

// Info returns the info dictionary of the last Reset or Step, as the service sent
// it: values are nil, bool, int64, float64, string, []any and map[string]any.
func (c *played) Info() map[string]any { return c.info }

// System returns the system prompt.
func (c *Client) System(ctx context.Context) (env.Observation, error) {
	if err := c.usable(ctx); err != nil {
		return env.Observation{}, err
	}
	if c.session == "" {
		if _, _, err := c.connect(ctx, nil); err != nil {
			return env.Observation{}, err
		}
	}
	m, _, err := c.call(ctx, "system_prompt", Info{}, true)
	return m.observation, err
}

// Reset starts the episode of the seed.
func (c *Client) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := c.usable(ctx); err != nil {
		return env.Observation{}, err
	}
	c.ready = false
	o, err := c.reset(ctx, seed)
	if err != nil {
		return env.Observation{}, err
	}
	c.ready, c.unclear = true, nil
	return o, nil
}

func (c *Client) reset(ctx context.Context, seed int64) (env.Observation, error) {
	if c.session != "" {
		m, _, err := c.call(ctx, "reset", Info{{"seed", seed}}, true)
		if c.send.o.Python || !errors.Is(err, ErrSession) && !errors.Is(err, ErrUnreachable) {
			return m.observation, err
		}
		c.session = ""
		c.send.session.Leave()
	}
	m, began, err := c.connect(ctx, &seed)
	if err != nil || began {
		return m.observation, err
	}
	// This service does not reset the environment when a session is opened.
	m, _, err = c.call(ctx, "reset", Info{{"seed", seed}}, true)
	return m.observation, err
}

// Step plays one turn.
func (c *Client) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := c.checkStep(ctx); err != nil {
		return env.Outcome{}, err
	}
	m, what, err := c.call(ctx, "step", Info{{"action_str", response}}, false)
	return m.outcome, c.stepped(what, err)
}

// checkStep returns an error if no step can be played.
func (c *played) checkStep(ctx context.Context) error {
	err := c.usable(ctx)
	if err == nil {
		err = c.calls.Step(ctx, c.ready)
	}
	if err == nil && c.unclear != nil {
		err = fmt.Errorf("remote: step: %w; the one before it ended with: %w", ErrUncertain, c.unclear)
	}
	return err
}

// stepped returns the error of a step, and keeps that it is unknown whether the service played it.
func (c *played) stepped(what progress, err error) error {
	if err != nil && what == unclear {
		c.unclear, err = err, uncertain(err)
	}
	return err
}

// errCut means that an answer may have been cut off.
var errCut = errors.New("the closing boundary is missing")

// uncertain is the error of a step whose service may have played it. A complete answer that
// cannot be used is the service's fault: the episode is not lost, and another attempt would
// get the same answer.
func uncertain(err error) error {
	if (errors.Is(err, ErrProtocol) || errors.Is(err, ErrTooLarge)) && !errors.Is(err, errCut) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

// closing limits how long Close takes when the service does not answer.
const closing = 10 * time.Second

// Close closes the session. It does not wait longer than 10 s for the service,
// which closes forgotten sessions by itself.
func (c *Client) Close() error {
	if c.usable(context.Background()) != nil {
		return nil
	}
	defer c.calls.Close()
	return c.send.end(&c.session, ErrSession, func(ctx context.Context) error {
		_, _, err := c.call(ctx, "close", Info{}, true)
		return err
	})
}

// end ends a session with a call, if it has an id, which is removed. unknown is the error of a
// service that does not know it any more. Python's clients ignore all errors.
func (s *sender) end(id *string, unknown error, call func(ctx context.Context) error) error {
	if *id == "" {
		return nil
	}
	ctx := context.Background()
	if !s.o.Python {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closing)
		defer cancel()
	}
	defer s.session.Leave()
	if s.session.Gone() { // the session has ended, or the service will close it
		return nil
	}
	err := call(ctx)
	*id = ""
	if s.o.Python || errors.Is(err, unknown) {
		return nil
	}
	return err
}

// usable returns an error if the client is closed or a zero value, or ctx has ended.
func (c *played) usable(ctx context.Context) error {
	if c.send == nil {
		return unmade.Error("remote.Client", "NewClient or NewLegacyClient")
	}
	return c.calls.Open(ctx)
}

// message is a response of the service, decoded.
type message struct {
	data        map[string]any
	observation env.Observation
	outcome     env.Outcome // of steps
}

// connect opens a session. began reports whether the service also reset the
// environment with the seed.
func (c *Client) connect(ctx context.Context, seed *int64) (m message, began bool, err error) {
	in := Info{{"env_config", c.send.o.Config}}
	if seed != nil {
		in = append(in, Field{"seed", *seed})
	}
	q := request{method: http.MethodPost, path: "/connect", target: hosts.Open, repeatable: true}
	_, err = c.exchange(ctx, q, in, func(got message) error {
		id, _ := got.data["session_id"].(string)
		if id == "" {
			return fmt.Errorf("%w: session_id is missing", ErrProtocol)
		}
		c.session = id
		_, began = got.data["obs"]
		m = got
		return nil
	})
	return m, began && seed != nil, err
}

// call runs a method of the session.
func (c *Client) call(
	ctx context.Context, method string, params Info, again bool,
) (m message, what progress, err error) {
	in := Info{{"session_id", c.session}, {"method", method}, {"params", params}}
	q := request{method: http.MethodPost, path: "/call", what: method, repeatable: again}
	what, err = c.exchange(ctx, q, in, func(got message) error {
		switch _, ok := got.data["obs"]; {
		case method == "close":
		case !ok:
			return fmt.Errorf("%w: obs is missing", ErrProtocol)
		case method == "step":
			var err error
			if got.outcome, err = outcomeOf(got.observation, got.data["reward"], got.data["done"],
				got.data["info"]); err != nil {
				return err
			}
		}
		m = got
		return nil
	})
	return m, what, err
}

// exchange sends an object, decodes the answer and passes it to take.
func (c *Client) exchange(ctx context.Context, q request, in Info, take func(message) error) (progress, error) {
	data, err := pyjson.Append(nil, in, pyjson.Lite)
	if err != nil {
		return failed, fmt.Errorf("remote: %s: %w", q.route(), err)
	}
	boundary := wire.NewBoundary()
	q.kind = wire.ContentType("multipart/form-data", boundary)
	q.body = wire.Encode(boundary, data, nil, "")
	q.read = func(kind string, body []byte) error {
		m, err := c.decode(kind, body)
		if err != nil {
			return err
		}
		if err := take(m); err != nil {
			return err
		}
		if info, ok := m.data["info"].(map[string]any); ok {
			c.info = info
		}
		return nil
	}
	return c.send.send(ctx, q)
}

// decode reads a response's body.
func (c *Client) decode(kind string, body []byte) (m message, err error) {
	limits := c.send.o.Limits
	got, err := wire.Decode(kind, body, limits.Parts)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if !got.Closed {
		return m, fmt.Errorf("%w: %w", ErrProtocol, errCut)
	}
	if raw, bad := got.Data["_data_raw"].(string); bad {
		return m, fmt.Errorf("%w: the data is not JSON: %q", ErrProtocol, transport.Clip(raw, 100))
	}
	images, err := decodeImages(got.Images, limits.Pixels, wire.DecodeImage)
	if err != nil {
		return m, err
	}
	m.data = got.Data
	m.observation, err = newObservation(got.Data["obs"], images)
	return m, err
}
