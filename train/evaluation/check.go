package evaluation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"vagen/env"
	"vagen/internal/modeldir"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/gateway"
	"vagen/train/config"
)

// Check reports, without playing, missing models and environments, and other problems
// that would prevent the evaluation.
func (e *Plan) Check(ctx context.Context, log *slog.Logger) error {
	if e.own.Backends == nil {
		return unmade.Error("evaluation.Plan", "Load")
	}
	var errs []error
	var model vlm.Description
	if e.Backend.API == local {
		var err error
		model, err = e.checkModel(ctx)
		errs = append(errs, err)
	} else {
		_, err := e.chatOptions(log)
		errs = append(errs, err)
	}
	for i := range e.Tasks {
		t := &e.Tasks[i]
		first := t.Episodes[0]
		game, err := t.Player.Envs.New(first.Env, first.Config)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: tag %s: %w", config.ErrConfig, t.Tag, err))
			continue
		}
		err = checkTurn(ctx, game, first.Seed, model.Encoder)
		if err = errors.Join(err, game.Close()); err != nil {
			errs = append(errs, fmt.Errorf("tag %s: %s: %w", t.Tag, first.Env, err))
		}
	}
	return errors.Join(errs...)
}

// checkModel describes a local model.
func (e *Plan) checkModel(ctx context.Context) (vlm.Description, error) {
	key := "backends." + e.Config.Run.Backend + ".model"
	dir, adapter, err := e.localModel()
	if err == nil {
		err = modeldir.Check(key, dir, true)
	}
	if err != nil {
		return vlm.Description{}, err
	}
	d, err := vlm.Check(ctx, dir, e.modelOptions(adapter, nil))
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %s: %w", config.ErrConfig, key, err)
	}
	return d, err
}

// checkTurn resets an environment, and checks a sample turn with a model's dialogue, nil for one
// behind an API. Agents are not started.
func checkTurn(ctx context.Context, game env.Env, seed int64, d policy.Templated) error {
	if caller, err := rollout.CallerOf(game); err != nil || caller != nil {
		return err
	}
	system, err := game.System(ctx)
	if err != nil {
		return err
	}
	first, err := game.Reset(ctx, seed)
	if err != nil || d == nil {
		return err
	}
	if err := rollout.CheckTurn(d, env.ParserOf(game), system, first); err != nil {
		return fmt.Errorf("%w: %w (prompt_format of the environment)", config.ErrConfig, err)
	}
	return nil
}

// patience is how long episodes wait for each other: agents start and answer when they like.
func patience(name string) time.Duration {
	if strings.EqualFold(name, gateway.Name) {
		return 50 * time.Millisecond
	}
	return 0
}
