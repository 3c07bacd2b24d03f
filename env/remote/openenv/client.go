package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/remote"
	"vagen/env/remote/hosts"
	"vagen/env/remote/internal/wire"
	"vagen/internal/jsontext"
	"vagen/internal/transport"
	"vagen/internal/unmade"
	"vagen/reward"
)

// Client is an environment that an OpenEnv server hosts. It implements env.Env. FromConfig makes
// clients.
//
// A session is opened by the first Reset, or by System, and used until it breaks; Reset then opens
// another one. An answer that does not come in time or is no answer of the protocol breaks
// it: Step then fails until Reset, with an error that is env.ErrLost if another attempt may
// succeed.
//
// A response that is no action of the server's schema, or that the server refuses with
// VALIDATION_ERROR, is a turn without effect, see the option invalid_reward.
type Client struct {
	o       settings
	known   *sync.Map // descriptions of servers, by host
	session *hosts.Session
	conn    *websocket.Conn // nil without a session
	in      *frameReader    // of conn
	opening *hosts.Attempt  // of conn, until the first answer

	about   *served
	mapping *mapping
	text    template
	images  []path
	success path

	calls calls.Guard
	ready bool // an episode is being played
	last  env.Observation
}

var _ env.Env = (*Client)(nil)

// System returns the system prompt.
func (c *Client) System(ctx context.Context) (o env.Observation, err error) {
	err = c.usable(ctx)
	if err == nil && c.o.System != nil {
		return env.Observation{Text: *c.o.System}, nil
	}
	if err == nil && c.about == nil {
		err = c.connect(ctx)
	}
	if err != nil {
		return o, err
	}
	o.Text = c.mapping.prompt()
	if o.Text != "" && c.about.prompt != "" {
		o.Text = "\n\n" + o.Text
	}
	o.Text = env.WithoutMarks(c.about.prompt + o.Text) // those of images that observations have
	return o, nil
}

// Reset starts the episode of the seed.
func (c *Client) Reset(ctx context.Context, seed int64) (o env.Observation, err error) {
	if err := c.usable(ctx); err != nil {
		return o, err
	}
	c.ready = false
	data := map[string]any{}
	maps.Copy(data, c.o.Reset)
	data["seed"] = seed
	fresh := c.conn == nil
	a, err := c.reset(ctx, data)
	if errors.Is(err, env.ErrLost) && !fresh && ctx.Err() == nil { // an old session may have ended
		a, err = c.reset(ctx, data)
	}
	if err == nil {
		o, err = c.observe(a)
	}
	if err != nil {
		return o, fmt.Errorf("openenv: reset with seed %d: %w", seed, err)
	}
	c.ready, c.last = true, o
	return o, nil
}

// Step plays one turn.
func (c *Client) Step(ctx context.Context, response string) (out env.Outcome, err error) {
	if err = c.usable(ctx); err == nil {
		err = c.calls.Step(ctx, c.ready)
	}
	if err != nil {
		return out, err
	}
	action, err := c.mapping.action(response)
	if err != nil {
		return c.invalid(response, err), nil
	}
	a, err := c.exchange(ctx, "step", action)
	if refused := (*fault)(nil); errors.As(err, &refused) && refused.Code == validationError {
		return c.invalid(response, refused.reason()), nil
	}
	if err == nil {
		out, err = c.outcome(a)
	}
	if err != nil {
		c.ready = false
		return out, fmt.Errorf("openenv: step: %w", err)
	}
	out.Response = reward.Response{Raw: response, FormatCorrect: true}
	if c.mapping.format != formatWhole {
		shown, _ := json.Marshal(action) // which was sent
		out.Response.Actions = []string{string(shown)}
	}
	c.ready, c.last = !out.Done, out.Observation
	return out, nil
}

// maxReason limits what the model is shown of the reason why its response is no action, in bytes: a schema may list
// many values.
const maxReason = 2000

// invalid is the outcome of a response that is no action.
func (c *Client) invalid(response string, why error) env.Outcome {
	out := env.Outcome{Observation: c.last, Response: reward.Response{Raw: response}}
	out.Turn = env.Metrics{"action_is_valid": 0}
	reason := env.WithoutMarks(transport.Clip(why.Error(), maxReason))
	out.Observation.Text = "The answer is not a valid action: " + reason + ".\n" + c.last.Text
	out.Reward = paid("invalid", c.o.InvalidReward)
	return out
}

// paid is a reward of one part, of none if it is 0.
func paid(name string, value float64) reward.Parts {
	if value == 0 {
		return nil
	}
	return reward.Parts{{Name: name, Value: value}}
}

// Close ends the session.
func (c *Client) Close() error {
	defer c.calls.Close()
	if c.conn != nil {
		// The frame close gets no answer. A server that has ended the session needs none.
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		_ = c.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"close"}`))
	}
	c.drop()
	return nil
}

// usable returns an error if the client is closed or ctx has ended.
func (c *Client) usable(ctx context.Context) error {
	if c.session == nil {
		return unmade.Error("openenv.Client", "FromConfig")
	}
	return c.calls.Open(ctx)
}

// answered is the data of an observation.
type answered struct {
	Observation  map[string]any
	Reward, Done any
}

// observe makes text and images of an observation.
func (c *Client) observe(a *answered) (o env.Observation, err error) {
	g := gallery{limit: c.o.MaxImages, pixels: c.o.MaxPixels}
	for _, p := range c.images {
		for _, v := range p.find(a.Observation) {
			if err := g.add(v); err != nil {
				return o, fmt.Errorf("%w: images: %w", remote.ErrProtocol, err)
			}
		}
	}
	o.Images = g.images
	var found bool
	o.Text, found = c.text.fill(a.Observation)
	// The client may have chosen the field itself.
	if rest := c.others(a.Observation); c.text == "" || !found && c.o.Text == "" && len(rest) > 0 {
		o.Text, found = jsontext.Shown(rest), true
	}
	if !found && len(o.Images) == 0 {
		const none = "%w: the observation has none of the fields of text %q: %s"
		return o, fmt.Errorf(none, remote.ErrProtocol, c.o.Text, shown(a.Observation))
	}
	// Other marks are not about the images: a server may repeat what the model wrote.
	if strings.Count(o.Text, env.ImageMark) != len(o.Images) {
		o.Text = env.WithoutMarks(o.Text) + strings.Repeat("\n"+env.ImageMark, len(o.Images))
	}
	return o, nil
}

// others returns an observation without metadata and images.
func (c *Client) others(observation map[string]any) map[string]any {
	o := maps.Clone(observation)
	delete(o, "metadata")
	for _, p := range c.images {
		if len(p) > 0 {
			delete(o, p[0])
		}
	}
	return o
}

// outcome reads the answer to a step.
func (c *Client) outcome(a *answered) (out env.Outcome, err error) {
	if out.Observation, err = c.observe(a); err != nil {
		return out, err
	}
	pay, ok := wire.Float(a.Reward)
	if a.Reward == nil {
		if c.o.NullReward == nil {
			return out, fmt.Errorf("%w: the reward is null; the option null_reward says what that is worth", remote.ErrProtocol)
		}
		pay, ok = *c.o.NullReward, true
	}
	if !ok {
		return out, fmt.Errorf("%w: the reward must be a number, found %s", remote.ErrProtocol, shown(a.Reward))
	}
	out.Reward = paid("reward", pay)
	if out.Done, ok = a.Done.(bool); !ok {
		return out, fmt.Errorf("%w: done must be true or false, found %s", remote.ErrProtocol, shown(a.Done))
	}
	out.Success = out.Done && pay > 0
	if values := c.success.find(a.Observation); len(values) > 0 {
		out.Success = values[0] != false && values[0] != 0.0 && values[0] != ""
	}
	meta := jsontext.Object(a.Observation["metadata"])
	out.Turn, out.Trajectory = wire.Metrics(meta["turn_metrics"]), wire.Metrics(meta["traj_metrics"])
	if _, told := out.Turn["action_is_valid"]; !told {
		out.Turn["action_is_valid"] = 1
	}
	return out, nil
}
