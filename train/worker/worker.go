// Package worker plays the episodes of a trainer in another process, as vagen worker does: it
// opens the environments of the trainer's configuration and samples on the servers that it
// names.
//
//	Work     plays episodes until its context ends; Options replace policy and environments
//	Trainer  the other side: Trainer.Open connects a run to its workers
//	Setup    what a trainer tells its workers about the run
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"vagen/env"
	"vagen/internal/silent"
	"vagen/policy"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/envs"
	"vagen/train/queue"
)

// Options are those of Work.
type Options struct {
	queue.WorkerOptions // Open is set by Work
	// Model is a folder with the tokenizer and the image processor of the model; "" uses that of
	// the trainer's configuration, actor_rollout_ref.model.path.
	Model string
	// Policy returns the policy of a batch, from what the trainer's learner returned as
	// WorkerPolicy; nil samples on the servers of the configuration.
	Policy func(ctx context.Context, c *config.Config, version []byte) (policy.Policy, error)
	// Envs are the environments; nil is those of the configuration.
	Envs *env.Registry
	// Registries resolve the name of the harness. The zero value contains the built-in ones.
	Registries config.Registries
	// Keys are the environment variables with keys of services that this worker may send.
	Keys Keys
}

// DefaultOptions returns those of queue.DefaultWorkerOptions.
func DefaultOptions() Options { return Options{WorkerOptions: queue.DefaultWorkerOptions()} }

// Work plays the episodes of trainers until ctx ends. See queue.Work.
func Work(ctx context.Context, o Options) error {
	if err := o.Keys.check(); err != nil {
		return err
	}
	h := &host{opts: &o}
	o.WorkerOptions.Open = h.open
	return errors.Join(queue.Work(ctx, o.WorkerOptions), h.close())
}

// setup is what workers need to know of a run.
type setup struct {
	Config string
	State  *judge.StateReward
}

// Setup returns the setup of a run for workers: its configuration, with the values that depend
// on the start states, and the block state_reward of its data files, nil for none.
func Setup(c *config.Config, state *judge.StateReward) ([]byte, error) {
	raw, err := c.YAML()
	if err == nil {
		raw, err = json.Marshal(setup{Config: string(raw), State: state})
	}
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return raw, nil
}

// host holds what the batches of a run share.
type host struct {
	opts *Options

	mu       sync.Mutex
	run      string // what is below is of this run
	setup    string
	config   config.Config
	envs     *env.Registry
	harness  rollout.Harness
	follower *engines.Follower
}

// open implements queue.WorkerOptions.Open.
func (h *host) open(ctx context.Context, b queue.Batch) (queue.Opened, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != b.Run || h.setup != string(b.Setup) { // what a run keeps asks its own trainer
		h.run, h.setup = "", ""
		if err := h.read(b.Setup); err != nil {
			return queue.Opened{}, err
		}
		h.run, h.setup = b.Run, string(b.Setup)
	}
	p, err := h.policy(ctx, b.Policy)
	if err != nil {
		return queue.Opened{}, fmt.Errorf("worker: %w", err)
	}
	envs, harness := h.envs, h.harness
	_, judged := client.WithMeter(ctx) // whose limit on time is that of this worker's part of the batch
	return queue.Opened{
		Player: func() *rollout.Player { return &rollout.Player{Policy: p, Envs: envs, Harness: harness} },
		Observe: func(ctx context.Context, _ *rollout.Player) (context.Context, func() []byte) {
			ctx, meter := client.WithPart(ctx, judged)
			return ctx, func() []byte { return report{Judge: meter.Usage()}.write() }
		},
	}, nil
}

// read opens the environments of a run.
func (h *host) read(raw []byte) error {
	var s setup
	var removed []string
	err := json.Unmarshal(raw, &s)
	if err == nil {
		h.config, removed, err = config.ReadStored("configuration of the run", []byte(s.Config))
	}
	for _, key := range removed {
		h.log().Warn("a key of the run's configuration does not exist in this version", "key", key)
	}
	if err != nil {
		return fmt.Errorf("worker: the run cannot be read: %w", err)
	}
	if h.opts.Model != "" {
		h.config.Agent.Model.Path = h.opts.Model
	}
	names := h.opts.Registries.WithBuiltins()
	if h.harness, err = names.NewHarness(&h.config); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if err := h.closeEnvs(); err != nil { // of a run that has ended
		h.log().Warn("environments of an earlier run were not closed", "err", err)
	}
	if h.envs = h.opts.Envs; h.envs == nil {
		if h.envs, err = envs.OpenDialled(&h.config, h.dial, h.log()); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	if s.State != nil {
		if err := envs.SetJudge(h.envs, s.State, h.dial); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return h.unfollow()
}

func (h *host) policy(ctx context.Context, version []byte) (p policy.Policy, err error) {
	if h.opts.Policy != nil {
		return h.opts.Policy(ctx, &h.config, version)
	}
	if h.follower == nil {
		if err := h.allowEngine(); err != nil {
			return nil, err
		}
		if h.follower, err = engines.Follow(ctx, &h.config, h.opts.Log); err != nil {
			return nil, err
		}
	}
	return h.follower.Policy(ctx, version)
}

func (h *host) log() *slog.Logger {
	return silent.Log(h.opts.Log)
}

// unfollow closes the connections to the servers of a run.
func (h *host) unfollow() error {
	f := h.follower
	if h.follower = nil; f == nil {
		return nil
	}
	return f.Close()
}

func (h *host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.unfollow(), h.closeEnvs())
}

// closeEnvs closes the environments of a run, unless they are the caller's.
func (h *host) closeEnvs() error {
	e := h.envs
	if h.envs = nil; e == nil || e == h.opts.Envs {
		return nil
	}
	return e.Close()
}
