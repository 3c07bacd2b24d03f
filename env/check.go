package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CheckOptions are the settings of Check. The zero value plays four seeds with empty
// responses; responses with valid actions check more of the environment.
type CheckOptions struct {
	Config    map[string]any // options for the factory
	Seeds     []int64        // episodes to play; none means 0, 1, 2, 3
	Responses []string       // played in turn, over and over
	Turns     int            // longest episode; 0 means 12
	Timeout   time.Duration  // longest call; 0 means one minute, which leaves room for a busy machine
}

// Problem is one breach of the contract of Env.
type Problem struct {
	Rule   string // what was broken, one of the rules that Check lists
	Seed   int64  // the episode
	Turn   int    // turns played before, −1 outside an episode
	Detail string
}

func (p Problem) String() string {
	if p.Turn < 0 {
		return fmt.Sprintf("%s: %s", p.Rule, p.Detail)
	}
	return fmt.Sprintf("%s: seed %d, after %d turns: %s", p.Rule, p.Seed, p.Turn, p.Detail)
}

// Report is what Check found.
type Report struct {
	Problems []Problem     // in the order found
	Calls    int           // calls made
	Turns    int           // turns played
	Slowest  time.Duration // longest call
}

// Err joins the problems to one error, nil when there are none.
func (r Report) Err() error {
	var errs []error
	for _, p := range r.Problems {
		errs = append(errs, errors.New("env: "+p.String()))
	}
	return errors.Join(errs...)
}

// Check plays an environment and reports breaches of its contract:
//
//   - marks: an observation has as many image marks as images, and every image
//     has pixels, whatever the response was.
//   - determinism: two instances, and one instance reset twice, give equal
//     observations, rewards and metrics for equal seeds and responses; the system
//     prompt is the same before and after Reset.
//   - finite: rewards and metrics are finite numbers, and reward parts are named.
//   - response: no text makes Step fail, also if it is empty, huge, not UTF-8, full of
//     control characters or of tags.
//   - order: Step before Reset is an error; Step after the end, and any call
//     after Close, does not panic; Close may be called twice.
//   - cancellation: with a context that has ended, a call returns in time, and an
//     error that it returns wraps the context's.
//   - snapshot: what a Snapshotter shows and pays after Restore, in the same instance
//     or in another one, equals what followed the Snapshot; Snapshot changes nothing;
//     damaged snapshots are an error that wraps ErrSnapshot, and change nothing.
//   - hang: every call returns within the timeout. A call that does not
//     ends the check; its goroutine is abandoned.
//   - panic: no call panics.
//
// An error means that the check could not be completed: the factory failed or ctx
// ended. The report then covers the calls before.
func Check(ctx context.Context, f Factory, o CheckOptions) (Report, error) {
	switch {
	case o.Turns < 0:
		return Report{}, fmt.Errorf("env: check: Turns is %d, must not be negative", o.Turns)
	case o.Timeout < 0:
		return Report{}, fmt.Errorf("env: check: Timeout is %v, must not be negative", o.Timeout)
	}
	if len(o.Seeds) == 0 {
		o.Seeds = []int64{0, 1, 2, 3}
	}
	if o.Turns == 0 {
		o.Turns = 12
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	c := &checker{ctx: ctx, f: f, o: o}
	for _, part := range []func() error{c.order, c.cancelled, c.hostile, c.episodes, c.snapshots} {
		if c.stuck {
			break
		}
		if ctx.Err() != nil {
			return c.report, fmt.Errorf("env: check: %w", context.Cause(ctx))
		}
		if err := part(); err != nil {
			return c.report, fmt.Errorf("env: check: %w", err)
		}
	}
	return c.report, nil
}

// checker is the state of a check.
type checker struct {
	ctx    context.Context
	f      Factory
	o      CheckOptions
	report Report
	seed   int64
	turn   int
	stuck  bool // a call did not return
}

func (c *checker) fault(rule, format string, args ...any) {
	c.report.Problems = append(c.report.Problems, Problem{Rule: rule, Seed: c.seed, Turn: c.turn, Detail: fmt.Sprintf(
		format, args...)})
}

func (c *checker) create() (e Env, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the factory panicked: %v", p)
		}
	}()
	if e, err = c.f(c.o.Config); err == nil && e == nil {
		err = errors.New("the factory returned no environment")
	}
	return e, err
}

// reset resets an instance with the seed of the episode, and step plays a turn.
func (c *checker) reset(name string, e Env) (Observation, error, bool) {
	return guard(c, name, func(ctx context.Context) (Observation, error) { return e.Reset(ctx, c.seed) })
}

func (c *checker) step(name string, e Env, response string) (Outcome, error, bool) {
	return guard(c, name, func(ctx context.Context) (Outcome, error) { return e.Step(ctx, response) })
}

// close ends an instance.
func (c *checker) close(e Env) {
	c.do("Close", func(context.Context) error { return e.Close() })
}

// do is guard for a call without a result.
func (c *checker) do(name string, call func(context.Context) error) (error, bool) {
	_, err, ok := guard(c, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err, ok
}

// order calls the methods in orders that a careless caller might choose.
func (c *checker) order() error {
	e, err := c.create()
	if err != nil {
		return err
	}
	c.seed, c.turn = c.o.Seeds[0], -1
	if _, err, ok := c.step("Step before Reset", e, ""); ok && err == nil {
		c.fault("order", "Step before Reset returned no error")
	}
	for i := range 2 {
		if err, ok := c.do("Close", func(context.Context) error { return e.Close() }); ok && err != nil {
			c.fault("order", "Close number %d returned %v", i+1, err)
		}
	}
	guard(c, "System after Close", e.System)
	c.reset("Reset after Close", e)
	c.step("Step after Close", e, "")
	return nil
}

// cancelled calls the methods with a context that is over.
func (c *checker) cancelled() error {
	e, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(e)
	c.seed, c.turn = c.o.Seeds[0], -1
	if _, err, ok := c.reset("Reset", e); err != nil || !ok {
		return err
	}
	over, cancel := context.WithCancel(c.ctx)
	cancel()
	try := func(name string, call func(context.Context) error) {
		err, ok := c.do(name+" with a context that is over", func(context.Context) error { return call(over) })
		if ok && err != nil && !errors.Is(err, context.Canceled) {
			c.fault("cancellation", "%s with a context that is over returned %q, which does not wrap the context's error", name,
				err)
		}
	}
	try("System", func(ctx context.Context) error { _, err := e.System(ctx); return err })
	try("Step", func(ctx context.Context) error { _, err := e.Step(ctx, ""); return err })
	try("Reset", func(ctx context.Context) error { _, err := e.Reset(ctx, c.seed); return err })
	return nil
}

// hostileResponses are texts that no model should write and some do.
func hostileResponses() []string {
	return []string{
		"", " \t\r\n\u0085\u3000", "\x00\x01\x1b[2J\x7f", "\xff\xfe\xc3(", "\ufeff\u200b\u202e",
		strings.Repeat("a", 1<<20), strings.Repeat("<think>", 1<<15), strings.Repeat("<answer>Up,</answer>", 1<<14),
		strings.Repeat(ImageMark, 100), "<think>" + ImageMark + "</think><answer>" + ImageMark + "</answer>",
		"<answer>" + strings.Repeat("Up,", 1<<16) + "</answer>", "<think></think><answer></answer>",
		`<answer>{"a":[[[[`, "<think>%s%d%n</think><answer>../../etc</answer>", "<|im_end|><|endoftext|>",
	}
}

// hostile plays one episode per hostile response.
func (c *checker) hostile() error {
	e, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(e)
	c.seed = c.o.Seeds[0]
	for _, text := range hostileResponses() {
		c.turn = 0
		_, err, ok := c.reset("Reset", e)
		if err != nil || !ok {
			return err
		}
		out, err, ok := c.step("Step", e, text)
		if !ok {
			return nil
		}
		if err != nil {
			c.fault("response", "Step failed on %s: %v", excerpt(text), err)
			continue
		}
		c.inspect(out, "response "+excerpt(text))
	}
	return nil
}

// episodes plays every seed three times and compares what happened.
func (c *checker) episodes() error {
	a, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(a)
	b, err := c.create()
	if err != nil {
		return err
	}
	defer c.close(b)
	var lasting []episode
	for _, seed := range c.o.Seeds {
		first, ok, err := c.play(a, seed)
		if err != nil || !ok {
			return err
		}
		lasting = append(lasting, first)
		// The second instance plays the seeds in the same order, the first one
		// plays each of them again at once.
		for _, other := range []struct {
			e    Env
			what string
		}{{a, "the same instance, reset again"}, {b, "a second instance"}} {
			again, ok, err := c.play(other.e, seed)
			if err != nil || !ok {
				return err
			}
			c.seed, c.turn = seed, -1
			first.compare(again, func(turn int, detail string) {
				c.turn = turn
				c.fault("determinism", "%s: %s", other.what, detail)
			})
		}
	}
	// Once more in the other order, so that state left over from one episode in
	// the next one shows.
	for i, seed := range slices.Backward(c.o.Seeds) {
		again, ok, err := c.play(b, seed)
		if err != nil || !ok {
			return err
		}
		lasting[i].compare(again, func(turn int, detail string) {
			c.turn = turn
			c.fault("determinism", "after other episodes: %s", detail)
		})
	}
	return nil
}

func excerpt(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%q", s)
}
