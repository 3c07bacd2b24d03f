package run

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/modeldir"
	"vagen/reward/judge"
	"vagen/rollout"
	"vagen/train/config"
	environments "vagen/train/envs"
)

// CheckOptions checks the options of the environments that a configuration plays, composed of
// the preset's, env.defaults, env.config and the entries of data files, as Check does. It needs
// no model and asks no service: environments are made, but not reset, and judges are not
// dialled. The notes name data files that do not exist; without them only the options of
// env.name are checked. envs may be nil for the environments of the configuration. Errors wrap
// config.ErrConfig; those about env.config name the key.
func CheckOptions(ctx context.Context, c config.Config, envs *env.Registry) (notes []config.Note, err error) {
	if c.Trainer.Stage == config.StageSFT && c.SFT.Lessons.Teacher == "" {
		return nil, nil // no environment is played
	}
	if envs == nil {
		none := func(block *judge.StateReward) (judge.Completer, error) {
			err := environments.CheckJudge(&c, block)
			if dir := block.Service.Model; dir != "" && err == nil {
				err = modeldir.Check("state_reward.judge.model", dir, true)
			}
			return nil, err
		}
		if envs, err = environments.OpenDialled(&c, none, nil); err != nil {
			return nil, err
		}
	}
	missing := func(key string, paths []string) {
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				notes = append(notes, config.Note{Keys: []string{key}, Warn: true,
					About: fmt.Sprintf("the options of its environments were not checked: %v", err)})
			}
		}
	}
	missing("data.train_files", c.Data.TrainFiles)
	missing("data.val_files", c.Data.ValFiles)
	played := []rollout.Episode{{Env: c.Env.Name, Config: c.Env.Config}}
	if len(notes) == 0 && c.Trainer.Stage != config.StageSFT {
		levels, err := readLevels(ctx, &c, envs)
		if err != nil {
			return nil, err
		}
		played = levels.Samples(maxTried)
	}
	for _, of := range played {
		if of.Env == "" {
			continue
		}
		e, err := makeEnv(&c, envs, of)
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	return notes, nil
}

// makeEnv makes an environment. The error names the keys of env.config that it is about,
// unless the options are those of data files.
func makeEnv(c *config.Config, envs *env.Registry, of rollout.Episode) (env.Env, error) {
	e, err := envs.New(of.Env, of.Config)
	if err == nil {
		return e, nil
	}
	where := "env"
	if err2 := field.Under("env.config", err); of.Env == c.Env.Name && len(field.Keys(err)) > 0 {
		err, where = err2, strings.Join(slices.Compact(field.Keys(err2)), ", ")
	}
	return nil, fmt.Errorf("%w: %s: %w", config.ErrConfig, where, err)
}
