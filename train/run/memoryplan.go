package run

import (
	"context"
	"fmt"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
)

// planner is a learner that estimates its memory use.
type planner interface {
	policy.SystemEncoder
	Size(p policy.Prompt) (vlm.Size, error)
	Plan(w vlm.Workload) (vlm.MemoryPlan, error)
	MaxPositions() int
}

// planMemory estimates the memory of a training run with episodes of maximum length: all
// turns, each with an observation like the first one and a response of the full length, as far as
// the limits on conversations and the model's positions allow. A cache grows with its
// conversation, so that without limits it may become as long as that.
func planMemory(
	ctx context.Context, c *config.Config, names config.Registries, m planner, envs *env.Registry, levels *train.Levels,
) (vlm.MemoryPlan, error) {
	system, first, err := try(ctx, c, envs, levels.First(), nil)
	if err != nil {
		return vlm.MemoryPlan{}, err
	}
	turn := []policy.Message{{Role: policy.User, Text: first.Text, Images: first.Images}}
	whole := turn
	if system.Text != "" || len(system.Images) > 0 {
		whole = append([]policy.Message{{Role: policy.System, Text: system.Text, Images: system.Images}}, turn...)
	}
	begin, err := m.Size(policy.Prompt{Messages: whole})
	if err != nil {
		return vlm.MemoryPlan{}, fmt.Errorf("memory plan: %w", err)
	}
	later, err := m.Size(policy.Prompt{Messages: turn})
	if err != nil {
		return vlm.MemoryPlan{}, fmt.Errorf("memory plan: %w", err)
	}
	w := workload(c, begin, later, m.MaxPositions())
	w.Played = c.Data.GenBatch * c.Rollout.Trajectories // more than w.Rows, if it is set
	if c.Trainer.ValBefore || c.Trainer.TestFreq > 0 {
		w.Played = max(w.Played, levels.ValidatedAtOnce())
	}
	aim, err := names.Objective(c, 1, 1)
	if err != nil {
		return vlm.MemoryPlan{}, fmt.Errorf("memory plan: %w", err)
	}
	if w.Compared = loss.ChoiceOf(aim.PolicyLoss()); w.Compared.By != "" {
		w.UpdateRows = c.Agent.Actor.MiniBatch
	}
	if c.TeachesItself() {
		hint, err := train.Hint(ctx, c, envs, m, levels.First())
		if err != nil {
			return vlm.MemoryPlan{}, fmt.Errorf("memory plan: %w", err)
		}
		w.Hint = len(hint)
		if most := m.MaxPositions(); most > 0 {
			w.Hint = min(w.Hint, max(0, most-w.Tokens))
		}
	}
	p, err := m.Plan(w)
	if err != nil {
		return p, fmt.Errorf("memory plan: %w", err)
	}
	return p, nil
}

// workload is the work of a run whose conversations open with a prompt of one size and continue
// with observations of another, for a model that reads a number of tokens at most; 0 is no limit.
func workload(c *config.Config, begin, later vlm.Size, context int) vlm.Workload {
	response, more := c.PerTurn(), c.Rollout.MaxTurns-1
	switch w := c.Rollout.WindowSize; {
	case c.Trainer.Harness == "no_concat":
		more = 0
	case c.Trainer.Harness == "window" && w != nil:
		more = min(more, *w)
	}
	tokens, images := begin.Tokens+more*later.Tokens+(more+1)*response, begin.Images+more*later.Images
	bound := func(most int) {
		if most > 0 {
			tokens = min(tokens, most)
		}
	}
	if c.Trainer.Harness == "compact" && c.Trainer.CompactBudget > 0 {
		// It is summarised after the turn that reaches the budget, and a summary is at most as long as a response.
		bound(max(c.Trainer.CompactBudget, begin.Tokens+response) + later.Tokens + 2*response)
	}
	if region := c.Budget().Response; region > 0 {
		bound(begin.Tokens + region)
	}
	bound(context)
	if most := c.Agent.Rollout.MaxImages; most > 0 {
		images = min(images, most)
	}
	readTokens, readImages := 0, 0
	if c.Trainer.Harness == "concat" && !c.Run.Partial { // others read conversations again
		readTokens = min(later.Tokens+1, tokens) // with the response's last token; the others are in the cache
		readImages = min(max(begin.Images, later.Images), images)
	}
	return vlm.Workload{
		ReadTokens: readTokens, ReadImages: readImages, OpenTokens: min(begin.Tokens, tokens),
		Generate: true, Score: true, Train: true, Rows: c.Data.TrainBatch * c.Rollout.Trajectories,
		Tokens: tokens, Wanted: min((more+1)*response, tokens), Images: images, Patches: begin.Patches,
		Snapshots: snapshots(c),
	}
}

// snapshots returns how many copies of the policy collect episodes at the same time.
func snapshots(c *config.Config) int {
	if !c.Run.Async {
		return 0
	}
	return min(c.Run.MaxStaleness, c.Trainer.Steps-1)
}

// plan logs the memory plan of a run. If it cannot be made, a warning is logged; errors of
// the environment are reported when it is played.
func (r *Run) plan(ctx context.Context) error {
	m, ok := policy.As[planner](r.Learner)
	if !ok || r.examples != nil { // the learner logs a plan for the first batch
		return nil
	}
	p, err := planMemory(ctx, &r.Config, r.names, m, r.Envs, r.levels)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.log.Warn("memory plan failed", "err", err)
	default:
		r.log.Info("memory plan of the run", "plan", p)
	}
	return nil
}
