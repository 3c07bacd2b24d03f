package run

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"vagen/env"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// checkPlayedByServers refuses to replay a run on servers whose records do not have all that its
// updates depended on.
func checkPlayedByServers(c *config.Config) error {
	if !c.UsesEngine() {
		return nil
	}
	spec, err := config.Registries{}.WithBuiltins().Estimators.Describe(c.Algorithm.Estimator)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if spec.Baselines {
		return fmt.Errorf("run: %w: servers generated the responses of this run, so that its recorded episodes are replayed, but the greedy episodes of {algorithm.adv_estimator} %s are not recorded", config.ErrConfig, spec.Name)
	}
	return nil
}

// sampled is a model whose responses servers generated.
type sampled struct{ *vlm.Model }

// SampledByEngine implements policy.EngineSampler.
func (sampled) SampledByEngine() {}

// trainerOfRecorded is replayTrainer for episodes that cannot be played again.
func trainerOfRecorded(c *config.Config, path string, model *vlm.Model, envs *env.Registry, log *slog.Logger) *train.Trainer {
	once := *c
	once.Run.Async, once.Run.MaxStaleness, once.Run.Partial, once.Run.Queue = false, 1, false, ""
	t := replayTrainer(once, sampled{model}, envs, log)
	t.Recorded = func(step int) ([]*rollout.Trajectory, track.Metrics, error) {
		ts, err := recorded(c, path, step)
		if err != nil {
			return nil, nil, err
		}
		if !withImages(ts) {
			return nil, nil, fmt.Errorf("run: %w: the recorded episodes of step %d lack images, which the update needs (trainer.log_image)", config.ErrConfig, step)
		}
		was, err := rundir.Dir(path).Metrics(step)
		if err != nil {
			return nil, nil, err
		}
		// What playing measured is taken from the record.
		maps.DeleteFunc(was, func(name string, _ float64) bool { return !measuredByPlaying(name) })
		return ts, was, nil
	}
	return t
}

// measuredByPlaying reports whether a metric is of the playing of episodes, and does not follow from
// what is recorded of them.
func measuredByPlaying(name string) bool {
	switch name {
	case "rollout/staleness_mean", "rollout/staleness_max", "rollout/partial_share", "train/played", "train/played_unusable":
		return true
	}
	return strings.HasPrefix(name, "judge/")
}
