package run

import (
	"context"
	"fmt"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
)

// planner is a learner that estimates its memory use.
type planner interface {
	Size(p policy.Prompt) (vlm.Size, error)
	Plan(w vlm.Workload) (vlm.MemoryPlan, error)
}

// planMemory estimates the memory of a training run with episodes of maximum length: all
// turns, each with an observation like the first one and a response of the full length.
func planMemory(ctx context.Context, c *config.Config, m planner, envs *env.Registry, levels *train.Levels) (vlm.MemoryPlan, error) {
	system, first, err := try(ctx, c, envs, levels.First())
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
	response, more := c.Data.MaxResponse, c.Rollout.MaxTurns-1
	if c.Data.PerTurn > 0 {
		response = c.Data.PerTurn
	}
	if c.Trainer.Harness == "no_concat" {
		more = 0
	}
	p, err := m.Plan(vlm.Workload{
		Generate: true, Score: true, Train: true, Rows: c.Data.TrainBatch * c.Rollout.Trajectories,
		Tokens: begin.Tokens + more*later.Tokens + (more+1)*response, Wanted: (more + 1) * response,
		Images: begin.Images + more*later.Images, Patches: begin.Patches, Snapshots: snapshots(c),
	})
	if err != nil {
		return p, fmt.Errorf("memory plan: %w", err)
	}
	return p, nil
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
	m, ok := r.Learner.(planner)
	if !ok || r.examples != nil { // the learner logs a plan for the first batch
		return nil
	}
	p, err := planMemory(ctx, &r.Config, m, r.Envs, r.levels)
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
