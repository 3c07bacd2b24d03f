package run

import (
	"fmt"

	"vagen/advantage"
	"vagen/rollout"
	"vagen/train/config"
)

// checkCaller reports settings with which programs that ask for responses cannot be trained.
func checkCaller(c *config.Config, caller rollout.Caller) error {
	e, err := advantage.Describe(c.Algorithm.Estimator)
	if err == nil && c.Trainer.Stage != config.StageSFT { // a caller's own estimator splits rows at its own risk
		if err := rollout.Check(rollout.NoConcat{}, e, ""); err != nil {
			return fmt.Errorf("%w: algorithm.adv_estimator: %w (an agent may begin several conversations)", config.ErrConfig,
				err)
		}
	}
	unpaced, ok := caller.(interface{ Unpaced() bool })
	if !ok || !unpaced.Unpaced() {
		return nil
	}
	const why = "with env.config.wait or processes, episodes start long after each other"
	switch {
	case c.Run.Patience == 0 && !c.Run.Continuous:
		return fmt.Errorf("%w: run.patience is 0, must be positive, such as 0.05, or run.continuous true: %s", config.ErrConfig,
			why)
	case c.Run.Workers != 0:
		return fmt.Errorf("%w: run.workers is %d, must be 0: %s", config.ErrConfig, c.Run.Workers, why)
	}
	return nil
}
