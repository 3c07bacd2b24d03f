package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"vagen/internal/clock"
	"vagen/internal/field"
	"vagen/internal/keyenv"
	"vagen/policy"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/queue"
)

// Trainer is a run whose episodes workers play.
type Trainer struct {
	Config *config.Config
	Dir    string // folder of the run
	ID     string // of the run; "" if it has not started
	// Own is set if the learner is not that of the configuration, so that workers do not need
	// the configuration's servers.
	Own bool
	// QueueServer starts the server of run.queue=embedded: see queue.Options.Server.
	QueueServer queue.Starter
	Log         *slog.Logger // nil discards
}

// queueFolder is the folder of an embedded queue in that of the run.
const queueFolder = "queue"

// options converts the settings of run.queue.
func (t *Trainer) options() (queue.Options, error) {
	k, out := &t.Config.Run.QueueOptions, queue.DefaultOptions()
	if t.Config.Run.Queue == config.QueueEmbedded && t.QueueServer == nil {
		return out, fmt.Errorf("%w: run.queue: %s, but this program has no server: it must set Options.QueueServer to Start "+
			"of package vagen/train/queue/embedded, or run.queue must be the URL of a NATS server", config.ErrConfig,
			config.QueueEmbedded)
	}
	out.Connection = queue.Connection{
		URL: t.Config.Run.Queue, Name: k.Name, Creds: k.Creds, User: k.User,
		CA: k.CA, Cert: k.Cert, CertKey: k.CertKey, Log: t.Log,
	}
	out.Dir, out.Listen, out.Server = filepath.Join(t.Dir, queueFolder), k.Listen, t.QueueServer
	out.Sync, out.Tries = k.Sync, k.Tries
	out.Lease, out.NoWorkers = clock.Seconds(k.Lease), clock.Seconds(k.NoWorkers)
	if k.KeyEnv != "" {
		var err error
		if out.Key, err = keyenv.Read(k.KeyEnv); err != nil {
			return out, fmt.Errorf("%w: run.queue_options.key_env: %w", config.ErrConfig, err)
		}
	}
	if out.Run = t.ID; out.Run == "" {
		out.Run = "a run that is not yet started"
	}
	return out, nil
}

// Check reports errors that would prevent episodes from being played by workers: the queue
// cannot be reached, or belongs to another run. It changes nothing. Errors wrap
// config.ErrConfig.
func (t *Trainer) Check(ctx context.Context) error {
	if t.Config == nil || t.Config.Run.Queue == "" {
		return nil
	}
	if !t.Own && !t.Config.UsesEngine() {
		return fmt.Errorf("%w: run.queue: workers generate with servers, but actor_rollout_ref.rollout.engine.addresses is empty: set it and actor_rollout_ref.rollout.name, or set run.queue to null", config.ErrConfig)
	}
	o, err := t.options()
	if err == nil {
		err = queue.Probe(ctx, o)
	}
	return asConfig(err)
}

func asConfig(err error) error {
	if err == nil || errors.Is(err, config.ErrConfig) {
		return err
	}
	return fmt.Errorf("%w: run.queue: %w", config.ErrConfig, field.Renamed(err, config.QueueKeys))
}

// Open connects a run to its workers, nil without run.queue. state is the block state_reward of
// its data files, nil for none. If the learner is a policy.RowChecker, it checks rows of results. If
// it, or a snapshot of it, is a policy.WorkerSource, its WorkerPolicy is sent to workers with every
// batch, for Options.Policy.
func (t *Trainer) Open(ctx context.Context, learner policy.Policy, state *judge.StateReward) (*queue.Queue, error) {
	if t.Config == nil || t.Config.Run.Queue == "" {
		return nil, nil
	}
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	if o.Setup, err = Setup(t.Config, state); err != nil {
		return nil, err
	}
	o.Policy, o.Done = workerPolicy, countJudge
	if l, ok := policy.As[policy.RowChecker](learner); ok {
		o.CheckRow = l.CheckRow
	}
	q, err := queue.Open(ctx, o)
	return q, asConfig(err)
}

// countJudge adds what a judge was asked for in an episode to the step's count.
func countJudge(ctx context.Context, _ *rollout.Trajectory, raw []byte) error {
	r, err := readReport(raw)
	if err == nil {
		client.Add(ctx, r.Judge)
	}
	return err
}

// workerPolicy returns what workers need to sample with a policy: nothing, unless it is a
// policy.WorkerSource.
func workerPolicy(ctx context.Context, p policy.Policy) ([]byte, error) {
	if s, ok := policy.As[policy.WorkerSource](p); ok {
		return s.WorkerPolicy(ctx)
	}
	return nil, nil
}
