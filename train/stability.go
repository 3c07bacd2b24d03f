package train

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"

	"vagen/internal/floats"
	"vagen/internal/rng"
	"vagen/train/config"
	"vagen/train/track"
)

var (
	// ErrCollapsed means that an alarm of group stability stopped the run.
	ErrCollapsed = errors.New("the policy has collapsed")
	// ErrUnscored means that the alarm of a judge that does not answer stopped the run.
	ErrUnscored = errors.New("the judge leaves too many statements without a score")
)

// StabilityState is the state of group stability between steps.
type StabilityState struct {
	Window    []float64 `json:"window,omitempty"`    // absolute values of spike.metric in the last steps
	Rollbacks int       `json:"rollbacks,omitempty"` // so far
	// rank of the best validation by early_stopping.metric; higher is better
	Top    *float64       `json:"top,omitempty"`
	Stale  int            `json:"stale,omitempty"`  // validations since Top
	Beyond map[string]int `json:"beyond,omitempty"` // steps in a row beyond the limit of an alarm
	Trends TrendState     `json:"trends,omitzero"`  // what the metrics trend/… are computed from
}

func (s StabilityState) clone() StabilityState {
	s.Window, s.Beyond = slices.Clone(s.Window), maps.Clone(s.Beyond)
	t := &s.Trends
	t.First, t.Paid, t.Success = maps.Clone(t.First), slices.Clone(t.Paid), slices.Clone(t.Success)
	return s
}

// add appends a value to the window. Values that are not finite are ignored.
func (s *StabilityState) add(size float64, window int) {
	if floats.Finite(size) {
		s.Window = append(s.Window, size)
	}
	s.Window = s.Window[max(0, len(s.Window)-window):]
}

// stabilityMonitor applies group stability: it watches the metrics of steps and
// validations and decides whether the run continues, rolls back or stops.
type stabilityMonitor struct {
	config  *config.Config
	log     *slog.Logger
	state   StabilityState
	missing map[string]bool // keys whose metric was absent, already warned about
}

// seed returns the run's seed, and another one after each rollback, so that the episodes and
// updates that led to the spike are not repeated.
func (s *stabilityMonitor) seed() uint64 {
	if s.state.Rollbacks == 0 {
		return s.config.Run.Seed
	}
	return rng.Derive(s.config.Run.Seed, rng.Rollback, uint64(s.state.Rollbacks))
}

// checkSpike compares a step with those before it and reports whether the run must
// roll back. newest waits for the newest checkpoint and returns its step, 0 for none.
func (s *stabilityMonitor) checkSpike(
	step int, m track.Metrics, newest func() (int, error),
) (rollBack bool, err error) {
	c := &s.config.Stability.Spike
	if c.Metric == "" {
		return false, nil
	}
	x, ok := m[c.Metric]
	if !ok {
		_, played := m["actor/lr"] // critic warm-up measures no policy
		if _, taught := m["sft/lr"]; played || taught {
			s.warnMissing(c.Metric, "stability.spike.metric")
		}
		return false, nil
	}
	size := math.Abs(x)
	if !isSpike(c, s.state.Window, size) {
		s.state.add(size, c.Window)
		return false, nil
	}
	s.log.Warn("metric spike", "step", step, "metric", c.Metric, "value", x, "before", s.state.Window)
	if c.Action == config.ActionWarn {
		s.state.add(size, c.Window)
		return false, nil
	}
	saved, err := newest()
	switch {
	case err != nil:
		return false, err
	case c.Action == config.ActionStop:
		return false, fmt.Errorf("train: %w: %s is %v at step %d; the newest checkpoint is of step %d", ErrDiverged, c.Metric,
			x, step, saved)
	case s.state.Rollbacks >= c.MaxRollbacks:
		return false, fmt.Errorf("train: %w: %s is %v at step %d, after %d rollbacks", ErrDiverged, c.Metric, x, step,
			s.state.Rollbacks)
	case saved == 0:
		s.log.Warn("no rollback: there is no checkpoint yet", "step", step)
		s.state.add(size, c.Window)
		return false, nil
	}
	return true, nil
}

// isSpike compares a value with those of the steps before.
func isSpike(c *config.SpikeConfig, window []float64, size float64) bool {
	if !floats.Finite(size) {
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

// alarmPrefix is the prefix of the metrics of alarms that are on.
const alarmPrefix = "alarm/"

// updateAlarms counts for how many steps in a row each metric has been beyond its
// limit, and writes the alarms that are on. An alarm is logged when it turns on and
// when it turns off, not in between. A metric that was not measured changes nothing.
func (s *stabilityMonitor) updateAlarms(step int, m track.Metrics) {
	c := &s.config.Stability.Alarms
	for _, a := range c.Thresholds() {
		x, ok := m[a.Metric]
		if a.Limit == nil || !ok || a.Key == "max_equal_groups" && s.config.Rollout.Trajectories < 2 {
			continue
		}
		n := s.state.Beyond[a.Key]
		if !a.Beyond(x) {
			if delete(s.state.Beyond, a.Key); n >= c.Patience {
				s.log.Info("alarm off", "step", step, "metric", a.Metric, "value", x, "stability.alarms."+a.Key, *a.Limit, "steps",
					n)
			}
			continue
		}
		if s.state.Beyond == nil {
			s.state.Beyond = map[string]int{}
		}
		n++
		s.state.Beyond[a.Key] = n
		if n >= c.Patience {
			m[alarmPrefix+a.Key] = float64(n)
		}
		if n == c.Patience {
			s.log.Warn(alarmText(a.Key), "step", step, "metric", a.Metric, "value", x, "stability.alarms."+a.Key, *a.Limit,
				"steps in a row", n)
		}
	}
}

// unscored is the alarm that is about the judge, not the policy.
const unscored = "max_unscored"

func alarmText(key string) string {
	if key == unscored {
		return "alarm: " + ErrUnscored.Error()
	}
	return "alarm: the policy may be collapsing"
}

// checkAlarms returns ErrCollapsed or ErrUnscored for a step with an alarm that is on, if alarms stop
// the run. saved is the step of the newest checkpoint.
func (s *stabilityMonitor) checkAlarms(step int, m track.Metrics, saved int) error {
	c := &s.config.Stability.Alarms
	if c.Action != config.ActionStop {
		return nil
	}
	for _, a := range c.Thresholds() {
		if n, ok := m[alarmPrefix+a.Key]; ok {
			what := ErrCollapsed
			if a.Key == unscored {
				what = ErrUnscored
			}
			return fmt.Errorf("train: %w: %s is %v at step %d, beyond stability.alarms.%s of %v for %v steps in a row; the newest checkpoint is of step %d",
				what, a.Metric, m[a.Metric], step, a.Key, *a.Limit, n, saved)
		}
	}
	return nil
}

// recordValidation compares a validation with the best one, for early stopping.
func (s *stabilityMonitor) recordValidation(step int, m track.Metrics) {
	c := &s.config.Stability.Early
	if c.Metric == "" {
		return
	}
	_, rank, ok := rankedMetric(m, c.Metric)
	if !ok {
		s.warnMissing(c.Metric, "stability.early_stopping.metric")
		return
	}
	if s.state.Top == nil || rank > *s.state.Top+c.MinDelta {
		s.state.Top, s.state.Stale = &rank, 0
		return
	}
	if s.state.Stale++; s.stopEarly() {
		s.log.Info("stopping early", "step", step, "metric", c.Metric, "validations without a better one", s.state.Stale)
	}
}

// stopEarly reports whether too many validations in a row were not better.
func (s *stabilityMonitor) stopEarly() bool {
	return s.config.Stability.Early.Stops(s.state.Stale)
}

// warnMissing warns once that the metric of a key is absent.
func (s *stabilityMonitor) warnMissing(metric, key string) {
	if s.missing[key] {
		return
	}
	if s.missing == nil {
		s.missing = map[string]bool{}
	}
	s.missing[key] = true
	s.log.Warn("metric not found", "metric", metric, "key", key)
}
