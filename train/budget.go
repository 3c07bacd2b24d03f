package train

import (
	"fmt"
	"log/slog"

	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
)

// checkBudget warns if the token budget may be too small for the model.
func checkBudget(c *config.Config, h rollout.Harness, learner policy.Learner, log *slog.Logger) error {
	p := c.Plan(h)
	counter, counts := policy.As[policy.Counter](learner)
	if !counts && !unbounded(c) {
		return fmt.Errorf("%w: data.max_prompt_length, rollout_manager.max_trajectory_length and max_env_response_per_turn: %w", config.ErrConfig, rollout.ErrNoCounter)
	}
	if compact, ok := h.(rollout.Compact); ok && counts {
		n, err := counter.Count(policy.Prompt{Messages: []policy.Message{compact.SummaryRequest()}})
		if err != nil {
			return err
		}
		p.Request = n
	}
	doubts, err := p.Check()
	for _, d := range doubts {
		log.Warn("the token budget may be too small", "problem", d)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	return nil
}

// unbounded reports whether no limit on conversations requires counting tokens.
func unbounded(c *config.Config) bool {
	return c.Budget() == (rollout.Budget{Images: c.Agent.Rollout.MaxImages})
}
