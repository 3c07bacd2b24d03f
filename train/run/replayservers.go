package run

import (
	"fmt"
	"maps"

	"vagen/policy/vlm"
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

// collectRecorded returns the recorded episodes of a step, which cannot be played again.
func collectRecorded(c *config.Config, path string, step int) (*train.Collected, error) {
	ts, err := recorded(c, path, step)
	if err != nil {
		return nil, err
	}
	if !withImages(ts) {
		return nil, fmt.Errorf("run: %w: the recorded episodes of step %d lack images, which the update needs (trainer.log_image)", config.ErrConfig, step)
	}
	was, err := rundir.Dir(path).Metrics(step)
	if err != nil {
		return nil, err
	}
	// What playing measured is taken from the record.
	maps.DeleteFunc(was, func(name string, _ float64) bool {
		m, _ := track.MetricOf(name)
		return !m.Playing
	})
	out := train.NewCollected(step, ts)
	maps.Copy(out.Metrics, was)
	return out, nil
}
