package config

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"vagen/internal/origin"
	"vagen/rollout"
)

// NewHarness returns the harness of a configuration.
func (r Registries) NewHarness(c *Config) (rollout.Harness, error) {
	c = cmp.Or(c, new(Config))
	o := rollout.HarnessOptions{Compact: rollout.Compact{Total: c.Trainer.CompactBudget,
		Summary: cmp.Or(c.Trainer.CompactSummary, rollout.DefaultSummary(c.Trainer.CompactBudget, c.PerTurn()))}}
	if c.Rollout.WindowSize != nil {
		o.Window = *c.Rollout.WindowSize
	}
	return r.WithBuiltins().Harnesses.New(c.Trainer.Harness, o)
}

// Budget returns the length limits of a conversation. rollout_manager.max_trajectory_length
// includes the initial prompt, so the limit on the rest is that less data.max_prompt_length.
func (c *Config) Budget() rollout.Budget {
	b := rollout.Budget{Prompt: c.Data.MaxPrompt, Observation: c.Rollout.MaxObservation, Images: c.Agent.Rollout.MaxImages}
	if b.Prompt > 0 && c.Data.Truncation != "error" {
		b.Cut = rollout.Cut(c.Data.Truncation)
	}
	if c.Rollout.MaxTrajectory > 0 {
		b.Response = c.Rollout.MaxTrajectory - c.Data.MaxPrompt
	}
	if c.Data.PerTurn > 0 && (b.Response == 0 || c.Data.MaxResponse < b.Response) {
		b.Response = c.Data.MaxResponse
	}
	return b
}

// PerTurn returns the maximum response length of a turn in tokens.
func (c *Config) PerTurn() int {
	if c.Data.PerTurn > 0 {
		return c.Data.PerTurn
	}
	return c.Data.MaxResponse
}

// Plan returns the length limits of a run as far as the configuration determines them.
func (c *Config) Plan(h rollout.Harness) *rollout.Plan {
	return &rollout.Plan{Budget: c.Budget(), Harness: h, PerTurn: c.PerTurn(), MaxTurns: c.Rollout.MaxTurns}
}

// playing checks how episodes are played.
func (v *validator) playing(c *Config, r Registries) {
	if r := &c.Rollout; r.UseService {
		if _, ok := origin.Parse(r.BaseURL); !ok {
			found := strconv.Quote(r.BaseURL)
			if strings.Contains(r.BaseURL, "@") {
				found = "not shown, as it may contain a password"
			}
			v.Say("{rollout_manager.base_url} is %s, must be of the form http://host:port", found)
		}
	}
	if mode := c.Agent.Actor.Loss.Mode; c.Run.Async && c.Algorithm.Correction.Level == nil &&
		(mode == "gpg" || mode == "reinforce") {
		v.Say("{run.async} trains on episodes of an earlier policy, but the loss %s assumes the current policy: set {algorithm.rollout_correction.rollout_is}", mode)
	}
	switch n := c.Run.MaxStaleness; {
	case n > MaxStaleness: // already reported
	case n > 1 && !c.Run.Async:
		v.Say("{run.max_staleness} is %d, but {run.async} is false, so all episodes are from the current policy: set it to 1, or {run.async} to true", n)
	case n > 1 && c.UsesEngine() && !c.Run.Partial:
		v.Say("{run.max_staleness} is %d, but {actor_rollout_ref.rollout.engine.addresses} has servers, which hold one version of the weights: set it to 1, or {run.partial_rollouts} to true, so that episodes continue with new weights", n)
	}
	v.partial(c)
	switch {
	case c.Data.DropLong && c.Data.MaxPrompt == 0:
		v.Say("{data.filter_overlong_prompts} is true, but {data.max_prompt_length} is 0, which is no limit")
	case c.Data.DropLong && len(c.Data.TrainFiles) == 0 && len(c.Data.ValFiles) == 0:
		v.Say("{data.filter_overlong_prompts} is true, but {data.train_files} and {data.val_files}, which it filters, are empty")
	}
	if n := c.Data.GenBatch; n > 0 && n < c.Data.TrainBatch {
		v.Say("{data.gen_batch_size} is %d, but {data.train_batch_size} is %d: it must not be smaller", n, c.Data.TrainBatch)
	}
	if spec, err := r.Estimators.Describe(c.Algorithm.Estimator); err == nil && spec.Baselines && c.Data.GenBatch > 0 {
		v.Say("{algorithm.adv_estimator} %s plays greedy episodes only for the start states of {data.train_batch_size}, but {data.gen_batch_size} is %d: set it to 0", spec.Name, c.Data.GenBatch)
	}
	switch n := c.Rollout.MaxTrajectory; {
	case n > 0 && c.Data.MaxPrompt == 0:
		// Budget would give the whole length to what follows the prompt, and the conversation would exceed it.
		v.Say("{rollout_manager.max_trajectory_length} is %d, but {data.max_prompt_length} is 0: the length of a conversation includes its initial prompt, so set the limit of that, too", n)
		return
	case n > 0 && n <= c.Data.MaxPrompt:
		v.Say("{rollout_manager.max_trajectory_length} is %d, but {data.max_prompt_length} is %d: it must be larger", n,
			c.Data.MaxPrompt)
		return
	}
	v.harness(c, r)
}

// partial checks that episodes can continue with new weights.
func (v *validator) partial(c *Config) {
	if !c.Run.Partial {
		return
	}
	switch {
	case !c.UsesEngine():
		v.Say("{run.partial_rollouts} is true, but {actor_rollout_ref.rollout.engine.addresses} is empty: only servers get new weights while they generate")
	case !c.Run.Async || c.Run.MaxStaleness < 2:
		v.Say("{run.partial_rollouts} is true, but {run.async} is %v and {run.max_staleness} %d: no episodes are played while weights change, so set them to true and at least 2", c.Run.Async, c.Run.MaxStaleness)
	}
	if c.Run.Queue != "" {
		v.Say("{run.partial_rollouts} is true, but {run.queue} is set: workers play a task with one version of the weights")
	}
}

func (v *validator) harness(c *Config, r Registries) {
	name := c.Trainer.Harness
	h, err := r.NewHarness(c)
	if err != nil {
		v.Say("{trainer.harness}: %w", err)
		return
	}
	w := c.Rollout.WindowSize
	switch {
	case w != nil && *w < 0: // already reported
	case name == "window" && w == nil:
		v.Say("{trainer.harness} window needs {rollout_manager.window_size}")
	case name == "concat" && w != nil && *w < c.Rollout.MaxTurns:
		v.Say("{rollout_manager.window_size} is %d, but {trainer.harness} concat shows the model all turns, up to %d: set {trainer.harness} to window", *w, c.Rollout.MaxTurns)
	case name == "compact" && c.Trainer.CompactBudget == 0 && c.Rollout.MaxTrajectory == 0:
		v.Say("{trainer.harness} is compact, but there is no length at which to summarise: set {trainer.compact_budget} or {rollout_manager.max_trajectory_length}")
	}
	if alpha := c.Algorithm.Echo.Alpha; alpha > 0 {
		if name == "no_concat" || name == "window" {
			v.Say("{algorithm.echo.alpha} is %v, but the rows of {trainer.harness} %s end with their only response: no observation follows that could be predicted", alpha, name)
		}
		if c.Rollout.MaxTurns == 1 && len(c.Data.TrainFiles) == 0 { // which have turns of their own
			v.Say("{algorithm.echo.alpha} is %v, but {rollout_manager.max_turns} is 1: no observation "+
				"follows the only response", alpha)
		}
		if !c.Rollout.LossMask {
			v.Say("{algorithm.echo.alpha} is %v, but {rollout_manager.use_loss_mask} is false, so that observations have the policy loss", alpha)
		}
	}
	if spec, err := r.Estimators.Describe(c.Algorithm.Estimator); err == nil {
		if err := rollout.Check(h, spec, ""); errors.Is(err, rollout.ErrIncompatible) && c.readsAdvantages() {
			v.Say("{algorithm.adv_estimator} with {trainer.harness} %s: %w", name, err)
		}
		if mode := c.Agent.Actor.Loss.Mode; mode == "turn_gspo" || mode == "turn_ppo" {
			if err := rollout.Check(nil, spec, mode); err != nil {
				v.Say("{algorithm.adv_estimator} with {actor_rollout_ref.actor.policy_loss.loss_mode}: %w", err)
			}
		}
	}
	if _, err := c.Plan(h).Check(); err != nil {
		v.Say("{trainer.harness} %s: {data.max_response_length}, {rollout_manager.max_trajectory_length}, {trainer.compact_summary_budget}: %w", name, err)
	}
}
