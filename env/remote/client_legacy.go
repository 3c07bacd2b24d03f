package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"net/http"

	"vagen/env"
	"vagen/env/remote/hosts"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
)

// LegacyClient is an environment that a service of the legacy protocol hosts. It
// implements env.Env.
//
// The first Reset or System creates the environment under a random name. After the
// turn that ends an episode, the client requests the environment's final reward and
// adds it to that turn as partFinal; for episodes that a limit ended see FinalReward.
// As with a Client, if it is unknown whether the service played a step, all steps fail
// with ErrUncertain until Reset. If its service does not answer any more and others do, Step
// fails with ErrUnreachable, and Reset creates the environment at another one.
type LegacyClient struct {
	played
	id string // "" until the environment was made
}

var _ env.Env = (*LegacyClient)(nil)

// NewLegacyClient returns a client that has not made any request yet.
func NewLegacyClient(o ClientOptions) (*LegacyClient, error) {
	if o.Name == "" {
		return nil, fmt.Errorf("remote: option %q: %w: the kind of environment is needed", "env_name", env.ErrOption)
	}
	p, err := newPlayed(o)
	if err != nil {
		return nil, err
	}
	return &LegacyClient{played: p}, nil
}

// System returns the system prompt, which is text alone.
func (c *LegacyClient) System(ctx context.Context) (o env.Observation, err error) {
	if err := c.create(ctx); err != nil {
		return o, err
	}
	_, err = c.batch(ctx, "system_prompt", Info{{"env_ids", []string{c.id}}}, "system_prompts", true, func(v any) error {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("%w: a system prompt must be text, found %T", ErrProtocol, v)
		}
		o.Text = text
		return nil
	})
	return o, err
}

// Reset starts the episode of the seed.
func (c *LegacyClient) Reset(ctx context.Context, seed int64) (o env.Observation, err error) {
	o, err = c.reset(ctx, seed)
	if errors.Is(err, ErrUnreachable) {
		c.id = ""
		c.send.session.Leave()
		o, err = c.reset(ctx, seed)
	}
	if err != nil {
		return env.Observation{}, err
	}
	c.ready, c.unclear = true, nil
	return o, nil
}

func (c *LegacyClient) reset(ctx context.Context, seed int64) (o env.Observation, err error) {
	if err := c.create(ctx); err != nil {
		return o, err
	}
	c.ready = false
	_, err = c.batch(ctx, "reset", Info{{"ids2seeds", Info{{c.id, seed}}}}, "results", true, func(v any) error {
		entry, err := c.entry(v, 2)
		if err != nil {
			return err
		}
		o, err = c.observation(entry[0])
		return err
	})
	return o, err
}

// Step plays one turn.
func (c *LegacyClient) Step(ctx context.Context, response string) (out env.Outcome, err error) {
	if err := c.checkStep(ctx); err != nil {
		return out, err
	}
	out, what, err := c.step(ctx, response)
	if err := c.stepped(what, err); err != nil {
		return env.Outcome{}, err
	}
	if out.Done {
		final, err := c.FinalReward(ctx)
		if err != nil {
			return env.Outcome{}, err
		}
		out.Reward.Add(partFinal, final)
	}
	return out, nil
}

func (c *LegacyClient) step(ctx context.Context, response string) (out env.Outcome, what progress, err error) {
	what, err = c.batch(ctx, "step", Info{{"ids2actions", Info{{c.id, response}}}}, "results", false, func(v any) error {
		entry, err := c.entry(v, 4)
		if err != nil {
			return err
		}
		o, err := c.observation(entry[0])
		if err != nil {
			return err
		}
		out, err = outcomeOf(o, entry[1], entry[2], entry[3])
		return err
	})
	return out, what, err
}

// FinalReward requests the environment's reward for the whole episode. Step has
// requested it already if the environment ended the episode.
func (c *LegacyClient) FinalReward(ctx context.Context) (sum float64, err error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	if !c.ready {
		return 0, fmt.Errorf("remote: reward: %w", ErrNotReset)
	}
	_, err = c.batch(ctx, "reward", Info{{"env_ids", []string{c.id}}}, "rewards", true, func(v any) error {
		out, err := outcomeOf(env.Observation{}, v, nil, nil)
		sum = out.Reward.Sum()
		return err
	})
	return sum, err
}

// Close ends the environment, see Client.Close. A service that does not know the environment any
// more reports an internal error.
func (c *LegacyClient) Close() error {
	if c.usable(context.Background()) != nil {
		return nil
	}
	defer c.calls.Close()
	return c.send.end(&c.id, ErrRemote, func(ctx context.Context) error {
		q := request{path: "/batch/close", repeatable: true}
		_, err := c.exchange(ctx, q, Info{{"env_ids", []string{c.id}}}, "status", func(any) error { return nil })
		return err
	})
}

// create creates the environment if it does not exist yet.
func (c *LegacyClient) create(ctx context.Context) error {
	if err := c.usable(ctx); err != nil || c.id != "" {
		return err
	}
	id := wire.NewID()
	order := Info{{"env_name", c.send.o.Name}, {"env_config", c.send.o.Config}}
	q := request{path: "/environments", what: c.send.o.Name, target: hosts.Open, repeatable: true}
	_, err := c.exchange(ctx, q, Info{{"ids2configs", Info{{id, order}}}}, "success", func(v any) error {
		if v != true {
			return fmt.Errorf("%w: success is not true in the answer", ErrProtocol)
		}
		return nil
	})
	if err == nil {
		c.id = id
	}
	return err
}

// batch requests a batch of one environment and returns its entry.
func (c *LegacyClient) batch(
	ctx context.Context, what string, in Info, field string, again bool, take func(any) error,
) (progress, error) {
	q := request{path: "/batch/" + what, repeatable: again}
	return c.exchange(ctx, q, in, field, func(v any) error {
		entries, _ := v.(map[string]any)
		entry, ok := entries[c.id]
		if !ok {
			return fmt.Errorf("%w: its %s have no entry for the environment", ErrProtocol, field)
		}
		return take(entry)
	})
}

// exchange sends an object and reads one field of the answer. The original client does
// not retry.
func (c *LegacyClient) exchange(
	ctx context.Context, q request, in Info, field string, take func(any) error,
) (progress, error) {
	var err error
	q.method, q.kind, q.never = http.MethodPost, kindJSON, c.send.o.Python
	if q.body, err = pyjson.Append(nil, in, pyjson.Style{ASCII: true}); err != nil {
		return failed, fmt.Errorf("remote: %s: %w", q.route(), err)
	}
	q.read = func(_ string, body []byte) error {
		v, err := pyjson.Parse(body)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		data, _ := v.(map[string]any)
		value, ok := data[field]
		if !ok {
			return fmt.Errorf("%w: it has no %s", ErrProtocol, field)
		}
		return take(value)
	}
	return c.send.send(ctx, q)
}

// entry checks the answer to a reset or a step: a list of n values that begins with the
// observation and ends with the info dictionary. If the environment failed, the
// dictionary has the error.
func (c *LegacyClient) entry(v any, n int) ([]any, error) {
	list, ok := v.([]any)
	if !ok || len(list) != n {
		return nil, fmt.Errorf("%w: an entry must be a list of %d values", ErrProtocol, n)
	}
	info, _ := list[n-1].(map[string]any)
	if text, bad := info["error"].(string); bad {
		if first, _ := list[0].(map[string]any); len(first) == 0 {
			return nil, fmt.Errorf("%w: %s", ErrRemote, text)
		}
	}
	c.info = info
	return list, nil
}

// observation reads text and images.
func (c *LegacyClient) observation(v any) (env.Observation, error) {
	data, ok := v.(map[string]any)
	if !ok {
		return env.Observation{}, fmt.Errorf("%w: an observation must be an object, found %T", ErrProtocol, v)
	}
	media, _ := data["multi_modal_data"].(map[string]any)
	list, _ := media[env.ImageMark].([]any)
	limits := c.send.o.Limits
	if len(list) >= limits.Parts {
		return env.Observation{}, fmt.Errorf("%w: %d images, %d are allowed", ErrTooLarge, len(list), limits.Parts-1)
	}
	images, err := decodeImages(list, limits.Pixels, decodeImage)
	if err != nil {
		return env.Observation{}, err
	}
	return newObservation(data["obs_str"], images)
}

// decodeImage reads one image: PNG in base64, or an array of pixels.
func decodeImage(v any, pixels *int) (image.Image, error) {
	data, _ := v.(map[string]any)
	if text, ok := data["__pil_image__"].(string); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		return wire.DecodeImage(b, pixels)
	}
	if array, ok := data["__numpy_array__"].(map[string]any); ok {
		if kind := array["dtype"]; kind != "uint8" {
			return nil, fmt.Errorf("an image array of dtype %.20v, must be uint8", kind)
		}
		if shape := wire.Shape(array["data"]); fmt.Sprint(array["shape"]) != fmt.Sprint(shape) {
			return nil, fmt.Errorf("an image array has another shape than its data, %v", shape)
		}
		return wire.ImageOf(array["data"], pixels)
	}
	return nil, errors.New("neither __pil_image__ nor __numpy_array__")
}
