package train

import (
	"context"
	"fmt"
	"time"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// play has a policy play a step's episodes.
func (t *Trainer) play(ctx context.Context, with policy.Policy, step int, m track.Metrics) ([]*rollout.Trajectory, rollout.Timing, error) {
	c := &t.Config
	seed := rng.Derive(t.seed(), rng.Sample, uint64(step))
	p := t.player(with, t.sampling())
	if c.Data.GenBatch == 0 {
		var episodes []rollout.Episode
		for g := range c.Data.TrainBatch {
			episodes = append(episodes, t.group(step, g)...)
		}
		ts, took, err := p.Play(ctx, episodes, seed)
		describe(m, "train/", ts)
		return ts, took, err
	}
	ts, all, took, err := p.Fill(ctx, rollout.Filling{
		Groups: c.Data.TrainBatch, Extra: c.Data.GenBatch - c.Data.TrainBatch, Most: c.Data.MaxStartStates(),
		Episodes: func(g int) []rollout.Episode { return t.group(step, g) },
	}, seed)
	if err != nil {
		return nil, took, err
	}
	describe(m, "train/", ts)
	m["train/played"], m["train/played_unusable"] = float64(all.Episodes), float64(all.Episodes-all.Usable)
	if want := c.Data.TrainBatch * c.Rollout.Trajectories; len(ts) < want {
		t.Log.Warn("too few start states can be used", "episodes", len(ts), "of", want, "played", all.Episodes)
	}
	return ts, took, nil
}

// group lists the episodes of a start state.
func (t *Trainer) group(step, group int) []rollout.Episode {
	out := make([]rollout.Episode, t.Config.Rollout.Trajectories)
	for i := range out {
		out[i] = t.episode(step, group, i)
	}
	return out
}

// episode is one of a step's episodes.
func (t *Trainer) episode(step, group, index int) rollout.Episode {
	e := t.Levels.at(step, group)
	e.Group, e.Index = group, index
	return e
}

// sampling is how responses are sampled in training.
func (t *Trainer) sampling() policy.Sampling {
	r := &t.Config.Agent.Rollout
	s := t.greedy()
	s.Temperature, s.TopP, s.TopK = r.Temperature, r.TopP, max(0, r.TopK)
	return s
}

// greedy takes the most likely tokens, within the bounds of every response.
func (t *Trainer) greedy() policy.Sampling {
	s := policy.Sampling{MaxTokens: t.Config.PerTurn()}
	if r := &t.Config.Agent.Rollout; r.Thinking > 0 {
		s.Thinking = policy.Thinking{Tokens: r.Thinking, Open: r.ThinkOpen, Close: r.ThinkClose}
	}
	return s
}

func (t *Trainer) player(with policy.Policy, s policy.Sampling) *rollout.Player {
	c := &t.Config
	p := &rollout.Player{
		Policy: with, Envs: t.Envs, Sampling: s, MaxTurns: c.Rollout.MaxTurns, Harness: t.harness, Budget: c.Budget(),
		Workers: workers(c), Waves: c.Run.Waves, Log: t.Log,
		EnvTimeout: seconds(c.Run.EnvTimeout), EpisodeTimeout: seconds(c.Run.EpisodeTimeout), Patience: seconds(c.Run.Patience),
	}
	if _, aggregation := c.Credit(); aggregation == config.EpisodeMean {
		p.EpisodeMean = []string{reward.SectionObservation, reward.SectionPrediction}
	}
	if c.Run.Retry {
		p.Retry = rollout.DefaultRetry()
	}
	return p
}

// workers is how many environments are at work at once.
func workers(c *config.Config) int {
	if c.Rollout.UseService {
		return c.Rollout.MaxWorkers
	}
	return c.Run.Workers
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// plan holds the budget against the model that plays, and warns of what may not
// work.
func (t *Trainer) plan() error {
	p := t.Config.Plan(t.harness)
	counter, counts := t.Learner.(policy.Counter)
	if !counts && !uncounted(&t.Config) {
		return fmt.Errorf("%w: data.max_prompt_length, rollout_manager.max_trajectory_length and max_env_response_per_turn: %w", config.ErrConfig, rollout.ErrNoCounter)
	}
	if c, compact := t.harness.(rollout.Compact); compact && counts {
		n, err := counter.Count(policy.Prompt{Messages: []policy.Message{c.Asking()}})
		if err != nil {
			return err
		}
		p.Request = n
	}
	doubts, err := p.Check()
	for _, d := range doubts {
		t.Log.Warn("the budget may not do", "doubt", d)
	}
	return err
}

// uncounted reports whether nothing of a conversation is bounded that takes counting
// tokens.
func uncounted(c *config.Config) bool {
	return c.Budget() == (rollout.Budget{Images: c.Agent.Rollout.MaxImages})
}
