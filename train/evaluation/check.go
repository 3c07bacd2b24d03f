package evaluation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"vagen/internal/modeldir"
	"vagen/internal/unmade"
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
	model := vlm.Description{Vision: true} // as far as is known: of a service, or with another error
	if e.Backend.API == local {
		d, err := e.checkModel(ctx)
		if err == nil {
			model = d
		}
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
		system, shown, err := rollout.TryTurn(ctx, game, first.Seed, model.Encoder)
		switch {
		case errors.Is(err, rollout.ErrTurn):
			err = fmt.Errorf("%w: %w (prompt_format of the environment)", config.ErrConfig, err)
		case len(system.Images)+len(shown.Images) > 0 && !model.Vision:
			err = fmt.Errorf("%w: it shows images, but the model of backends.%s.model (%s) reads text only: "+
				"choose another model, or render_mode text", config.ErrConfig, e.Config.Run.Backend, model.Family)
		}
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

// patience is how long episodes wait for each other: agents start and answer when they like.
func patience(name string) time.Duration {
	if strings.EqualFold(name, gateway.Name) {
		return 50 * time.Millisecond
	}
	return 0
}
