package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"vagen/env"
	"vagen/internal/clock"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/reward"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// collector plays the episodes of steps. It changes nothing in a Trainer, so that it can run
// during an update. Several collections may run at the same time.
type collector struct {
	config    *config.Config
	envs      *env.Registry
	levels    *Levels
	draws     *draws // chooses start states with data.pools; nil takes those of levels
	harness   rollout.Harness
	aligner   policy.Aligner // finds sections of responses; nil if rewards are not placed on sections
	dealer    rollout.Dealer // plays the episodes elsewhere; nil plays them here
	baselines bool           // also play a greedy episode of each group
	log       *slog.Logger
}

// collect plays a step's episodes with a policy.
func (c *collector) collect(
	ctx context.Context, p policy.Policy, step int, seed uint64,
) (*Collected, rollout.Timing, error) {
	out := &Collected{Step: step, Metrics: track.Metrics{}}
	ctx, judged := client.WithMeter(ctx)
	ts, took, err := c.play(ctx, p, step, seed, out.Metrics)
	if err != nil {
		return nil, took, err
	}
	if err := c.markSections(ts); err != nil {
		return nil, took, err
	}
	if c.baselines {
		var more rollout.Timing
		if out.Baselines, more, err = c.playBaselines(ctx, p, step, seed, ts); err != nil {
			return nil, took, err
		}
		took.Generate, took.Env = took.Generate+more.Generate, took.Env+more.Env
		out.Metrics["train/baselines"] = float64(len(out.Baselines))
	}
	out.Episodes = ts
	out.describe()
	if names, of := bySource(ts, true); len(names) > 1 {
		for _, name := range names {
			describe(out.Metrics, "train/by_source/"+name+"/", of[name])
		}
	}
	if c.draws != nil {
		out.solved = c.draws.measure(out.Metrics, step, ts)
	}
	judged.Usage().Write(out.Metrics, "judge/")
	return out, took, nil
}

// play plays a step's episodes with a policy, without baselines.
func (c *collector) play(
	ctx context.Context, with policy.Policy, step int, seed uint64, m track.Metrics,
) ([]*rollout.Trajectory, rollout.Timing, error) {
	d := &c.config.Data
	seed = rng.Derive(seed, rng.Sample, uint64(step))
	p := c.player(with, sampling(c.config))
	p.Tag = trainingTag(step)
	if d.GenBatch == 0 {
		var episodes []rollout.Episode
		for g := range d.TrainBatch {
			episodes = append(episodes, c.group(step, g)...)
		}
		ts, took, err := p.Play(ctx, episodes, seed)
		if errors.Is(err, rollout.ErrNotStarted) {
			err = nil // as if all had failed later: newBatch reports why
		}
		return ts, took, err
	}
	ts, all, took, err := p.Fill(ctx, rollout.FillOptions{
		Groups: d.TrainBatch, Extra: d.GenBatch - d.TrainBatch, Most: d.MaxStartStates(),
		Episodes: func(g int) []rollout.Episode { return c.group(step, g) },
	}, seed)
	if err != nil && !errors.Is(err, rollout.ErrNotStarted) {
		return nil, took, err
	}
	m["train/played"], m["train/played_unusable"] = float64(all.Episodes), float64(all.Episodes-all.Usable)
	if want := d.TrainBatch * c.config.Rollout.Trajectories; len(ts) < want {
		c.log.Warn("too few usable start states", "episodes", len(ts), "of", want, "played", all.Episodes)
	}
	return ts, took, nil
}

// trainingTag names the episodes of a step for a rollout.Dealer.
func trainingTag(step int) string { return fmt.Sprintf("training step %d", step) }

// playBaselines plays a greedy episode from each start state of a step, and returns their
// returns by group. Groups whose greedy episode cannot be used are missing.
func (c *collector) playBaselines(
	ctx context.Context, p policy.Policy, step int, seed uint64, of []*rollout.Trajectory,
) (map[int]float64, rollout.Timing, error) {
	var episodes []rollout.Episode
	seen := map[int]bool{}
	for _, e := range of {
		if !seen[e.Group] {
			seen[e.Group] = true
			episodes = append(episodes, c.episode(step, e.Group, 0))
		}
	}
	k := c.player(p, greedy(c.config))
	k.Tag = trainingTag(step)
	ts, took, err := k.Play(ctx, episodes, rng.Derive(seed, rng.Sample, uint64(step), 1))
	if err != nil && !errors.Is(err, rollout.ErrNotStarted) {
		return nil, took, err
	}
	out := map[int]float64{}
	for _, e := range ts {
		if e.End.Usable() {
			out[e.Group] = e.Return()
		}
	}
	return out, took, nil
}

// markSections finds the sections of responses if rewards are placed on them.
func (c *collector) markSections(ts []*rollout.Trajectory) error {
	if c.aligner == nil {
		return nil
	}
	var usable []*rollout.Trajectory
	for _, e := range ts {
		if e.End.Usable() {
			usable = append(usable, e)
		}
	}
	if err := rollout.MarkSpans(c.aligner, usable); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// group returns the episodes of a start state.
func (c *collector) group(step, group int) []rollout.Episode {
	out := make([]rollout.Episode, c.config.Rollout.Trajectories)
	for i := range out {
		out[i] = c.episode(step, group, i)
	}
	return out
}

// episode returns one of a step's episodes.
func (c *collector) episode(step, group, index int) rollout.Episode {
	var e rollout.Episode
	if c.draws != nil {
		n, _ := c.draws.number(step, group)
		e = c.levels.level(n)
	} else {
		e = c.levels.At(step, group)
	}
	e.Group, e.Index = group, index
	return e
}

// player returns a player with the configuration's settings.
func (c *collector) player(with policy.Policy, s policy.Sampling) *rollout.Player {
	k := c.config
	p := &rollout.Player{
		Policy: with, Envs: c.envs, Sampling: s, MaxTurns: k.Rollout.MaxTurns, Harness: c.harness, Budget: k.Budget(),
		Waves: k.Run.Waves, Log: c.log, Dealer: c.dealer,
		EnvTimeout: clock.Seconds(k.Run.EnvTimeout), EpisodeTimeout: clock.Seconds(k.Run.EpisodeTimeout),
		Patience: clock.Seconds(k.Run.Patience), Continuous: k.Run.Continuous,
	}
	p.SetWorkers(workers(k))
	if _, aggregation := k.Credit(); aggregation == config.EpisodeMean {
		p.EpisodeMean = []string{reward.SectionObservation, reward.SectionPrediction}
	}
	if k.Run.Retry {
		p.Retry = rollout.DefaultRetry()
	}
	return p
}

// sampling returns the sampling settings of training.
func sampling(c *config.Config) policy.Sampling {
	r := &c.Agent.Rollout
	return sampled(c, r.Temperature, r.TopP, r.TopK)
}

// validationSampling returns the sampling settings of validation.
func validationSampling(c *config.Config) policy.Sampling {
	v := &c.Agent.Rollout.Val
	return sampled(c, v.Temperature, v.TopP, v.TopK)
}

func sampled(c *config.Config, temperature, topP float64, topK int) policy.Sampling {
	s := greedy(c)
	s.Temperature, s.TopP, s.TopK = temperature, topP, max(0, topK)
	return s
}

// greedy returns the sampling settings for the most likely tokens, with the usual limits.
func greedy(c *config.Config) policy.Sampling {
	s := policy.Sampling{MaxTokens: c.PerTurn()}
	if r := &c.Agent.Rollout; r.Thinking > 0 {
		s.Thinking = policy.Thinking{Tokens: r.Thinking, Open: r.ThinkOpen, Close: r.ThinkClose}
	}
	return s
}

// workers returns the number of environments that run at a time, for rollout.Player.SetWorkers.
func workers(c *config.Config) int {
	if c.Rollout.UseService {
		return c.Rollout.MaxWorkers
	}
	return c.Run.Workers
}
