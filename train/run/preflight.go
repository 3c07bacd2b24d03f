package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/modeldir"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/run/internal/upload"
	"vagen/train/track/mlflow"
)

// Preflight reports errors outside the configuration that would prevent training or
// evaluation: a model that cannot be opened, an environment that cannot be created or reset,
// images for a text-only model, a chat template that does not fit the environments' formats.
func Preflight(ctx context.Context, c *config.Config, envs *env.Registry, levels *train.Levels) error {
	if c == nil || envs == nil || levels == nil {
		return fmt.Errorf("run: %w: the configuration, the environments or their levels are nil", config.ErrConfig)
	}
	_, err := preflight(ctx, c, envs, levels, true)
	return err
}

// preflight is Preflight. It checks and describes the model only if own is true: the learner is
// that of the configuration.
func preflight(
	ctx context.Context, c *config.Config, envs *env.Registry, levels *train.Levels, own bool,
) (vlm.Description, error) {
	model, err1 := vlm.Description{Vision: true}, error(nil)
	if own {
		model, err1 = preflightModel(ctx, c)
		if err1 == nil {
			err1 = engines.Check(ctx, c)
		}
	}
	pictures, err2 := preflightEnvs(ctx, c, levels, envs, model.Encoder)
	errs := []error{err1, err2, preflightLoggers(c), preflightHub(c)}
	if err1 == nil && pictures != "" && !model.Vision {
		errs = append(errs, fmt.Errorf(
			"%w: env: %s shows images, but the model in %s (%s) reads text only: choose another model, or text with env.config.render_mode=text",
			config.ErrConfig, pictures, c.Agent.Model.Path, model.Family))
	}
	return model, errors.Join(errs...)
}

// preflightLoggers reports missing addresses of services in environment variables.
func preflightLoggers(c *config.Config) error {
	if !c.Trainer.Logs(config.LogMLflow) {
		return nil
	}
	if err := mlflow.Check(); err != nil {
		return fmt.Errorf("%w: trainer.logger: %w", config.ErrConfig, err)
	}
	return nil
}

// preflightHub reports errors that would prevent uploads.
func preflightHub(c *config.Config) error {
	_, err := upload.New(c, nil)
	return err
}

// preflightModel checks that the files of the model, and of a separate critic, can be opened.
func preflightModel(ctx context.Context, c *config.Config) (vlm.Description, error) {
	const actor, critic, backend = "actor_rollout_ref.model.path", "critic.model.path", "model.backend"
	if err := errors.Join(modeldir.Check(actor, c.Agent.Model.Path, true),
		modeldir.Check("actor_rollout_ref.ref.model.path", c.ReferencePath(), false),
		modeldir.Check(critic, c.CriticPath(), false)); err != nil {
		return vlm.Description{}, err
	}
	d, err := vlm.Check(ctx, c.Agent.Model.Path, ModelOptions(c, nil))
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, vlm.ErrUnavailable):
		err = fmt.Errorf("%w: %s: %w", config.ErrConfig, backend, err)
	default:
		err = fmt.Errorf("%w: %s: %w", config.ErrConfig, keyOf(err, actor), err)
	}
	return d, err
}

// keyOf returns the setting of the option that an error of package vlm is about, or another one.
func keyOf(err error, otherwise string) string {
	for option, key := range map[string]string{
		"ReferencePath": "actor_rollout_ref.ref.model.path", "LoRA": "actor_rollout_ref.model.target_modules",
		"Freeze": "actor_rollout_ref.actor.freeze_vision_tower", "CriticPath": "critic.model.path",
		"TokensPerCall": "model.tokens_per_call", "DraftTokens": "model.draft_tokens",
		"RolloutDType": "model.rollout_dtype", "Continuous": "run.continuous",
	} {
		if strings.Contains(err.Error(), vlm.ErrOption.Error()+": "+option) {
			return key
		}
	}
	return otherwise
}

// namedOption adds the setting to an error about an option with which a model is opened.
func namedOption(err error) error {
	if !errors.Is(err, vlm.ErrOption) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", config.ErrConfig, keyOf(err, "model"), err)
}

// preflightEnvs creates and resets an environment for each set of options, and checks a sample
// turn with the model's dialogue, which may be nil. It returns the name of an environment that
// shows images, if any.
func preflightEnvs(
	ctx context.Context, c *config.Config, levels *train.Levels, envs *env.Registry, d policy.Templated,
) (pictures string, err error) {
	if err := checkScripts(c, levels, envs); err != nil {
		return "", err
	}
	for _, e := range levels.Samples(maxTried) {
		system, first, err := try(ctx, c, envs, e, d)
		if err != nil {
			return "", err
		}
		if len(system.Images)+len(first.Images) > 0 && pictures == "" {
			pictures = e.Env
		}
	}
	return pictures, nil
}

// checkScripts checks that the environments of training have the script of algorithm.self_distillation.
func checkScripts(c *config.Config, levels *train.Levels, envs *env.Registry) error {
	if !c.TeachesItself() {
		return nil
	}
	name := c.Algorithm.SelfDistill.Teacher
	for _, of := range levels.TrainingSamples(maxTried) {
		e, err := makeEnv(c, envs, of)
		if err != nil {
			return err
		}
		scripts := "an environment with scripts"
		t, ok := env.Unwrap(e).(env.Teacher)
		if ok {
			scripts = strings.Join(t.Scripts(), ", ")
		}
		if err := e.Close(); err != nil {
			return fmt.Errorf("env: %s: %w", of.Env, err)
		}
		if !ok || !slices.Contains(t.Scripts(), name) {
			return fmt.Errorf("%w: algorithm.self_distillation.teacher is %s, which %s does not have, must be %s",
				config.ErrConfig, name, of.Env, scripts)
		}
	}
	return nil
}

// maxTried is the maximum number of environments to try, because each entry of a parquet file
// may have its own options.
const maxTried = 32

// try creates and resets an environment, and checks a sample turn with a model's dialogue, which
// may be nil. It returns the system prompt and the first observation.
func try(
	ctx context.Context, c *config.Config, envs *env.Registry, of rollout.Episode, d policy.Templated,
) (system, first env.Observation, err error) {
	e, err := makeEnv(c, envs, of)
	if err != nil {
		return system, first, err
	}
	if caller, _ := rollout.CallerOf(e); caller != nil {
		return system, first, errors.Join(checkCaller(c, caller), e.Close())
	}
	system, first, err = rollout.TryTurn(ctx, e, of.Seed, d)
	if errors.Is(err, rollout.ErrTurn) {
		err = fmt.Errorf("%w: %w (env.config.prompt_format, data.apply_chat_template_kwargs)", config.ErrConfig, err)
	}
	if err = errors.Join(err, e.Close()); err != nil {
		return system, first, fmt.Errorf("env: %s: %w", of.Env, err)
	}
	return system, first, nil
}
