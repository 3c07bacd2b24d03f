package run

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/train"
	"vagen/train/config"
)

// Envs returns the environments of a configuration: those of the library, or with
// rollout_manager.use_service those of a service, which accepts any name.
func openEnvs(c *config.Config, log *slog.Logger) (*env.Registry, error) {
	return dialledEnvs(c, client.Dial(log), log)
}

// dialledEnvs is openEnvs with another connection to judges.
func dialledEnvs(c *config.Config, dial judge.Dial, log *slog.Logger) (*env.Registry, error) {
	r := &c.Rollout
	if !r.UseService {
		return builtin.LoggedRegistry(dial, log), nil
	}
	out := new(env.Registry)
	o := remote.DefaultLegacyOptions()
	o.URLs, o.Log = []string{r.BaseURL}, log
	o.Timeout = time.Duration(r.Timeout * float64(time.Second))
	hosted := func(name string) env.Factory {
		named := o
		named.Name = name
		return served(remote.LegacyFactory(named))
	}
	for _, name := range builtin.Registry().Names() { // files may use another case
		if err := out.Register(name, hosted(name)); err != nil {
			return nil, err
		}
	}
	out.SetOtherwise(hosted) // the names are only known to the service
	return out, nil
}

// Prepare opens the environments and start states of a configuration, and sets the values of
// the configuration that depend on the start states. If envs is nil, the environments are
// those of the configuration.
func Prepare(ctx context.Context, c *config.Config, envs *env.Registry, log *slog.Logger) (*env.Registry, *train.Levels, error) {
	err := c.CheckSecrets()
	if err == nil && envs == nil {
		envs, err = openEnvs(c, log)
	}
	if err != nil {
		return nil, nil, err
	}
	levels, err := openLevels(ctx, c, envs, log)
	return envs, levels, err
}

// served removes the option rules, because a service of the legacy protocol has only its own
// rules.
func served(f env.Factory) env.Factory {
	return func(cfg map[string]any) (env.Env, error) {
		cfg = maps.Clone(cfg)
		if cfg["rules"] == "legacy" || cfg["rules"] == "service" {
			delete(cfg, "rules")
		}
		return f(cfg)
	}
}

// OpenLevels opens the start states of a configuration, sets the configuration's values that
// depend on them, and creates the judge of state rewards.
func openLevels(ctx context.Context, c *config.Config, envs *env.Registry, log *slog.Logger) (*train.Levels, error) {
	l, err := readLevels(ctx, c, envs)
	if err != nil || l.State == nil {
		return l, err
	}
	j, err := client.Judge(l.State, log)
	if err != nil {
		return nil, fmt.Errorf("%w: state_reward: %w", config.ErrConfig, err)
	}
	envs.SetJudge(j)
	return l, nil
}

// readLevels reads the start states of a configuration.
func readLevels(ctx context.Context, c *config.Config, envs *env.Registry) (*train.Levels, error) {
	l, err := train.OpenLevels(ctx, c, envs.Names())
	if err == nil && l.State != nil && c.Rollout.UseService {
		err = fmt.Errorf("%w: state_reward is set, but with rollout_manager.use_service state rewards are computed by the service", config.ErrConfig)
	}
	return l, err
}
