package env

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"vagen/internal/floats"
	"vagen/internal/imagefile"
	"vagen/reward"
)

// guard makes one call with a deadline and recovers its panic. The last result is false
// if the call did not return or panicked, which is reported, or if it was not made
// because an earlier call has not returned.
func guard[T any](c *checker, name string, call func(context.Context) (T, error)) (T, error, bool) {
	type answer struct {
		value T
		err   error
		crash string
	}
	var zero T
	if c.stuck {
		return zero, nil, false
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.crash = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			done <- a
		}()
		a.value, a.err = call(ctx)
	}()
	c.report.Calls++
	// A call that honours its context comes back shortly after the deadline.
	grace := time.NewTimer(c.o.Timeout + c.o.Timeout/2)
	defer grace.Stop()
	select {
	case a := <-done:
		took := time.Since(start)
		c.report.Slowest = max(c.report.Slowest, took)
		if a.crash != "" {
			c.fault("panic", "%s panicked: %s", name, a.crash)
			return zero, nil, false
		}
		if took >= c.o.Timeout {
			why := ""
			if a.err != nil {
				why = ": " + a.err.Error()
			}
			c.fault("hang", "%s took %v, allowed are %v%s", name, took.Round(time.Millisecond), c.o.Timeout, why)
			return zero, nil, false
		}
		return a.value, a.err, true
	case <-grace.C:
		c.stuck = true
		c.fault("hang", "%s did not return, not even after its context ended", name)
		return zero, nil, false
	}
}

// episode is what was observed of an episode.
type episode struct {
	system, again Observation // system prompt before and after Reset
	first         Observation
	turns         []Outcome
}

// play plays one episode, one turn beyond its end, and inspects each answer.
func (c *checker) play(e Env, seed int64) (ep episode, ok bool, err error) {
	c.seed, c.turn = seed, -1
	if ep.system, err, ok = guard(c, "System", e.System); err != nil || !ok {
		return ep, ok, err
	}
	c.observed(ep.system, "the system prompt")
	if ep.first, err, ok = c.reset("Reset", e); err != nil || !ok {
		return ep, ok, err
	}
	c.observed(ep.first, "the first observation")
	if ep.again, err, ok = guard(c, "System", e.System); err != nil || !ok {
		return ep, ok, err
	}
	if d := unequal(ep.system, ep.again); d != "" {
		c.fault("determinism", "the system prompt changed with Reset: %s", d)
	}
	ok, err = c.turns(e, 0, &ep, nil)
	return ep, ok, err
}

// turns plays the turns of an episode from a number on. before, if not nil, is called
// before each of them.
func (c *checker) turns(e Env, from int, ep *episode, before func()) (ok bool, err error) {
	ended := false
	for c.turn = from; c.turn < c.o.Turns; c.turn++ {
		if before != nil {
			before()
		}
		text := ""
		if n := len(c.o.Responses); n > 0 {
			text = c.o.Responses[c.turn%n]
		}
		out, err, ok := c.step("Step", e, text)
		switch {
		case !ok:
			return false, nil
		case err != nil && ended:
			return true, nil // an environment may refuse turns after the end
		case err != nil:
			c.fault("response", "Step failed on %s: %v", excerpt(text), err)
			return true, nil
		}
		c.report.Turns++
		c.inspect(out, "response "+excerpt(text))
		ep.turns = append(ep.turns, out)
		if ended {
			break
		}
		ended = out.Done
	}
	return true, nil
}

// inspect checks the rules for outcomes.
func (c *checker) inspect(out Outcome, what string) {
	c.observed(out.Observation, "the observation after "+what)
	for _, p := range out.Reward {
		if p.Name == "" {
			c.fault("finite", "a reward part of %v has no name, after %s", p.Value, what)
		}
		if !floats.Finite(p.Value) {
			c.fault("finite", "reward part %q is %v after %s", p.Name, p.Value, what)
		}
	}
	for _, metrics := range []Metrics{out.Turn, out.Trajectory} {
		for _, name := range slices.Sorted(maps.Keys(metrics)) {
			if v := metrics[name]; !floats.Finite(v) {
				c.fault("finite", "metric %q is %v after %s", name, v, what)
			}
		}
	}
}

func (c *checker) observed(o Observation, what string) {
	if marks := strings.Count(o.Text, ImageMark); marks != len(o.Images) {
		c.fault("marks", "%s has %d image marks and %d images", what, marks, len(o.Images))
	}
	for i, img := range o.Images {
		if img == nil || img.Bounds().Empty() {
			c.fault("marks", "image %d of %s has no pixels", i, what)
		}
	}
}

// compare reports each way in which two episodes differ.
func (ep episode) compare(other episode, fault func(turn int, detail string)) {
	if d := unequal(ep.system, other.system); d != "" {
		fault(-1, "system prompt: "+d)
	}
	if d := unequal(ep.first, other.first); d != "" {
		fault(0, "first observation: "+d)
	}
	if len(ep.turns) != len(other.turns) {
		fault(min(len(ep.turns), len(other.turns)), fmt.Sprintf("%d turns, then %d", len(ep.turns), len(other.turns)))
	}
	for i := range min(len(ep.turns), len(other.turns)) {
		a, b := ep.turns[i], other.turns[i]
		if d := unequal(a.Observation, b.Observation); d != "" {
			fault(i+1, "observation: "+d)
		}
		if !slices.EqualFunc(a.Reward, b.Reward, func(x, y reward.Part) bool {
			return x.Name == y.Name && same(x.Value, y.Value)
		}) {
			fault(i+1, fmt.Sprintf("reward %v, then %v", a.Reward, b.Reward))
		}
		if a.Done != b.Done || a.Success != b.Success {
			fault(i+1, fmt.Sprintf("done %t and success %t, then %t and %t", a.Done, a.Success, b.Done, b.Success))
		}
		if !maps.EqualFunc(a.Turn, b.Turn, same) || !maps.EqualFunc(a.Trajectory, b.Trajectory, same) {
			fault(i+1, fmt.Sprintf("metrics %v %v, then %v %v", a.Turn, a.Trajectory, b.Turn, b.Trajectory))
		}
	}
}

// same is equality under which NaN equals itself; another rule reports NaN.
func same(a, b float64) bool { return a == b || a != a && b != b }

// unequal says how two observations differ, "" when they don't.
func unequal(a, b Observation) string {
	if a.Text != b.Text {
		return fmt.Sprintf("text %s, then %s", excerpt(a.Text), excerpt(b.Text))
	}
	if len(a.Images) != len(b.Images) {
		return fmt.Sprintf("%d images, then %d", len(a.Images), len(b.Images))
	}
	for i := range a.Images {
		x, y := a.Images[i], b.Images[i]
		if x == nil || y == nil {
			continue // reported as a mark without pixels
		}
		if x.Bounds() != y.Bounds() || !bytes.Equal(imagefile.NRGBA(x).Pix, imagefile.NRGBA(y).Pix) {
			return fmt.Sprintf("the pixels of image %d", i)
		}
	}
	return ""
}
