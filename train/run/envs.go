package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"vagen/env"
	"vagen/train"
	"vagen/train/config"
	environments "vagen/train/envs"
)

// Prepare opens the environments and start states of a configuration, and sets the values of
// the configuration that depend on the start states. If envs is nil, the environments are
// those of the configuration, and the caller closes them.
func Prepare(
	ctx context.Context, c *config.Config, envs *env.Registry, log *slog.Logger,
) (*env.Registry, *train.Levels, error) {
	own, err := envs == nil, c.CheckSecrets()
	if err == nil && own {
		envs, err = environments.Open(c, log)
	}
	if err != nil {
		return nil, nil, err
	}
	levels, err := openLevels(ctx, c, envs, log)
	if err != nil && own {
		return nil, nil, errors.Join(err, envs.Close())
	}
	return envs, levels, err
}

// openLevels opens the start states of a configuration, sets the configuration's values that
// depend on them, and creates the judge of state rewards.
func openLevels(ctx context.Context, c *config.Config, envs *env.Registry, log *slog.Logger) (*train.Levels, error) {
	l, err := readLevels(ctx, c, envs)
	if err != nil || l.State == nil {
		return l, err
	}
	return l, environments.SetJudge(envs, l.State, environments.Dial(c, envs, log))
}

// readLevels reads the start states of a configuration.
func readLevels(ctx context.Context, c *config.Config, envs *env.Registry) (*train.Levels, error) {
	l, err := train.OpenLevels(ctx, c, envs.Names())
	if err == nil && l.State != nil && c.Rollout.UseService {
		err = fmt.Errorf("%w: state_reward is set, but with rollout_manager.use_service state rewards are computed by the service", config.ErrConfig)
	}
	return l, err
}
