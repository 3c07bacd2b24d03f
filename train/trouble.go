package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"vagen/internal/rng"
	"vagen/train/config"
	"vagen/train/track"
)

// ErrCollapsed means that an alarm of group stability stopped the run.
var ErrCollapsed = errors.New("the policy has collapsed")

// StabilityState is what group stability remembers from step to step.
type StabilityState struct {
	Window    []float64      `json:"window,omitempty"`    // sizes of spike.metric in the last steps
	Rollbacks int            `json:"rollbacks,omitempty"` // so far
	Top       *float64       `json:"top,omitempty"`       // best validation by early_stopping.metric, more being better
	Stale     int            `json:"stale,omitempty"`     // validations since
	Beyond    map[string]int `json:"beyond,omitempty"`    // steps in a row beyond the limit of an alarm
}

func (t StabilityState) clone() StabilityState {
	t.Window, t.Beyond = slices.Clone(t.Window), maps.Clone(t.Beyond)
	return t
}

// add moves the window on by a size; one that is not finite is no measure.
func (t *StabilityState) add(size float64, window int) {
	if !math.IsNaN(size) && !math.IsInf(size, 0) {
		t.Window = append(t.Window, size)
	}
	t.Window = t.Window[max(0, len(t.Window)-window):]
}

// seed is the run's, and after a rollback another one: what is played and learned
// anew must not be what went wrong.
func (t *Trainer) seed() uint64 {
	if t.stability.Rollbacks == 0 {
		return t.Config.Run.Seed
	}
	return rng.Derive(t.Config.Run.Seed, rng.Rollback, uint64(t.stability.Rollbacks))
}

// inspect looks at a step that was done. back says that it was undone.
func (t *Trainer) inspect(ctx context.Context, step int) (back bool, err error) {
	if err := t.collapsed(step); err != nil {
		return false, err
	}
	c := &t.Config.Stability.Spike
	if c.Metric == "" {
		return false, nil
	}
	x, ok := t.latest[c.Metric]
	if !ok {
		if _, updated := t.latest["actor/lr"]; updated { // critic warm-up measures no policy
			t.miss(c.Metric, "stability.spike.metric")
		}
		return false, nil
	}
	size := math.Abs(x)
	if !isSpike(c, t.stability.Window, size) {
		t.stability.add(size, c.Window)
		return false, nil
	}
	t.Log.Warn("a spike", "step", step, "metric", c.Metric, "value", x, "before", t.stability.Window)
	if c.Action == config.ActionWarn {
		t.stability.add(size, c.Window)
		return false, nil
	}
	if err := t.waitForCheckpoint(); err != nil {
		return false, err
	}
	switch {
	case c.Action == config.ActionStop || t.Rollback == nil:
		return false, fmt.Errorf("train: %w: %s is %v at step %d; the newest checkpoint is of step %d", ErrDiverged, c.Metric, x, step, t.saved)
	case t.stability.Rollbacks >= c.MaxRollbacks:
		return false, fmt.Errorf("train: %w: %s is %v at step %d, after %d rollbacks", ErrDiverged, c.Metric, x, step, t.stability.Rollbacks)
	case t.saved == 0:
		t.Log.Warn("there is no checkpoint to go back to yet")
		t.stability.add(size, c.Window)
		return false, nil
	}
	return true, t.undo(ctx, step)
}

// isSpike compares a size with those of the steps before.
func isSpike(c *config.SpikeConfig, window []float64, size float64) bool {
	if math.IsNaN(size) || math.IsInf(size, 0) {
		return true
	}
	n := float64(len(window))
	if len(window) < max(1, (c.Window+1)/2) {
		return false
	}
	var mean, square float64
	for _, x := range window {
		mean += x / n
	}
	for _, x := range window {
		square += (x - mean) * (x - mean) / n
	}
	return math.Abs(size-mean) > c.Deviations*max(math.Sqrt(square), mean/20)
}

// undo goes back to the newest checkpoint. The best policy stays: it is of before
// the spike.
func (t *Trainer) undo(ctx context.Context, step int) error {
	rollbacks, best := t.stability.Rollbacks+1, t.best
	t.mid = true
	s, err := t.Rollback(ctx)
	if err != nil {
		return err
	}
	if err := t.Restore(s); err != nil {
		return err
	}
	t.normalizer = t.Config.Reward.Normalizer()
	if err := t.resume(); err != nil {
		return err
	}
	t.mid = false
	t.stability.Rollbacks, t.best, t.prefetched = rollbacks, best, nil // what was collected ahead leads to where it went wrong
	if err := t.note(); err != nil {
		return err
	}
	t.left = t.now
	t.Log.Warn("rolled back", "from", step, "to", s.Step, "rollbacks", rollbacks)
	return t.emit(track.Event{Kind: track.KindRollback, Step: s.Step, Total: t.Config.Trainer.Steps, Metrics: track.Metrics{
		"train/rollbacks": float64(rollbacks), "train/rolled_back_from": float64(step),
	}})
}

// alarmPrefix begins the metrics of alarms that are on.
const alarmPrefix = "alarm/"

// alarm counts for how many steps in a row each metric has been beyond its limit,
// and writes the alarms that are on. An alarm is logged when it turns on and when it
// turns off, not in between. A metric that was not measured changes nothing.
func (t *Trainer) alarm(step int, m track.Metrics) {
	c := &t.Config.Stability.Alarms
	for _, a := range c.Thresholds() {
		x, ok := m[a.Metric]
		if a.Limit == nil || !ok || a.Key == "max_equal_groups" && t.Config.Rollout.Trajectories < 2 {
			continue
		}
		n := t.stability.Beyond[a.Key]
		if !a.Beyond(x) {
			if delete(t.stability.Beyond, a.Key); n >= c.Patience {
				t.Log.Info("alarm off", "step", step, "metric", a.Metric, "value", x, "stability.alarms."+a.Key, *a.Limit, "steps", n)
			}
			continue
		}
		if t.stability.Beyond == nil {
			t.stability.Beyond = map[string]int{}
		}
		n++
		t.stability.Beyond[a.Key] = n
		if n >= c.Patience {
			m[alarmPrefix+a.Key] = float64(n)
		}
		if n == c.Patience {
			t.Log.Warn("alarm: the policy may be collapsing", "step", step, "metric", a.Metric, "value", x, "stability.alarms."+a.Key, *a.Limit, "steps in a row", n)
		}
	}
}

// collapsed is the error of a step with an alarm that is on, where alarms stop the run.
func (t *Trainer) collapsed(step int) error {
	c := &t.Config.Stability.Alarms
	if c.Action != config.ActionStop {
		return nil
	}
	for _, a := range c.Thresholds() {
		if n, ok := t.latest[alarmPrefix+a.Key]; ok {
			return fmt.Errorf("train: %w: %s is %v at step %d, beyond stability.alarms.%s of %v for %v steps in a row; the newest checkpoint is of step %d",
				ErrCollapsed, a.Metric, t.latest[a.Metric], step, a.Key, *a.Limit, n, t.saved)
		}
	}
	return nil
}

// grade compares a validation with the best one, for early stopping.
func (t *Trainer) grade(step int, m track.Metrics) {
	c := &t.Config.Stability.Early
	if c.Metric == "" {
		return
	}
	_, rank, ok := figure(m, c.Metric)
	if !ok {
		t.miss(c.Metric, "stability.early_stopping.metric")
		return
	}
	if t.stability.Top == nil || rank > *t.stability.Top+c.MinDelta {
		t.stability.Top, t.stability.Stale = &rank, 0
		return
	}
	if t.stability.Stale++; t.exhausted() {
		t.Log.Info("stopping early", "step", step, "metric", c.Metric, "validations without a better one", t.stability.Stale)
	}
}

// exhausted reports whether the run has gone without a better validation for too
// long.
func (t *Trainer) exhausted() bool {
	c := &t.Config.Stability.Early
	return c.Metric != "" && t.stability.Stale >= c.Patience
}

// miss warns once of a metric that is not there.
func (t *Trainer) miss(metric, key string) {
	if t.missed[key] {
		return
	}
	if t.missed == nil {
		t.missed = map[string]bool{}
	}
	t.missed[key] = true
	t.Log.Warn("a metric that is watched is not there", "metric", metric, "key", key)
}
