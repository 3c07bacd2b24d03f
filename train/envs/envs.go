// Package envs opens the environments of a configuration, in a trainer and in its workers: Open
// returns their registry, and SetJudge sets the judge of statements that they share.
package envs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/internal/clock"
	"vagen/policy/vlm"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout/gateway"
	"vagen/train/config"
	"vagen/train/judges"
)

// Open returns the environments of a configuration: those of the library, or with
// rollout_manager.use_service those of a service, which accepts any name. The caller must close the
// registry after its environments.
func Open(c *config.Config, log *slog.Logger) (r *env.Registry, err error) {
	late := func(block *judge.StateReward) (judge.Completer, error) { return Dial(c, r, log)(block) }
	r, err = OpenDialled(c, late, log)
	return r, err
}

// Dial returns how a run connects to judges, also to models of this process, which are closed with envs. These
// are refused if workers play the episodes.
func Dial(c *config.Config, envs *env.Registry, log *slog.Logger) judge.Dial {
	c = cmp.Or(c, new(config.Config))
	return func(block *judge.StateReward) (judge.Completer, error) {
		if err := CheckJudge(c, block); err != nil || envs == nil {
			return nil, cmp.Or(err, errors.New("the registry of environments is nil"))
		}
		models := &judges.Models{Log: log, Options: vlm.Options{
			Backend: c.Model.Backend, BFloat16: c.Model.BFloat16, CompileCache: c.Model.CompileCache,
			TokensPerCall: c.Model.PerCall,
		}}
		envs.OnClose(models.Close)
		return models.Dial(client.Dial(log))(block)
	}
}

// CheckJudge returns an error if workers play the episodes and the judge of a block is a model of this process.
func CheckJudge(c *config.Config, block *judge.StateReward) error {
	c, block = cmp.Or(c, new(config.Config)), cmp.Or(block, new(judge.StateReward))
	if dir := block.Service.Model; dir != "" && c.Run.Queue != "" {
		return fmt.Errorf("judge.model is %s, but run.queue is set, and workers load no judge: set judge_base_url and judge_model, or run.queue=null", dir)
	}
	return nil
}

// OpenDialled is Open with another connection to judges.
func OpenDialled(c *config.Config, dial judge.Dial, log *slog.Logger) (*env.Registry, error) {
	r := &cmp.Or(c, new(config.Config)).Rollout
	if !r.UseService {
		out := builtin.LoggedRegistry(dial, log)
		return out, gateway.Register(out, log)
	}
	out := new(env.Registry)
	o := remote.DefaultLegacyOptions()
	o.URLs, o.Log = []string{r.BaseURL}, log
	o.Timeout = clock.Seconds(r.Timeout)
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

// SetJudge sets the judge of a block state_reward, which the environments share.
func SetJudge(envs *env.Registry, s *judge.StateReward, dial judge.Dial) error {
	j, err := s.Judge(dial)
	if err == nil && envs == nil {
		err = errors.New("the registry of environments is nil")
	}
	if err != nil {
		return fmt.Errorf("%w: state_reward: %w", config.ErrConfig, err)
	}
	envs.SetJudge(j)
	return nil
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
