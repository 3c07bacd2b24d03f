package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vagen/policy"
	"vagen/train/config"
	"vagen/train/queue"
	"vagen/train/run/internal/owner"
	"vagen/train/worker"
)

// queueFolder is the folder of an embedded queue in that of the run.
const queueFolder = "queue"

// queueOptions converts the settings of run.queue, for the run in a folder.
func (o *Options) queueOptions(c *config.Config, dir string) (queue.Options, error) {
	k := &c.Run.QueueOptions
	out := queue.DefaultOptions()
	out.Connection = queue.Connection{
		URL: c.Run.Queue, Name: k.Name, Creds: k.Creds, User: k.User, CA: k.CA, Cert: k.Cert, CertKey: k.CertKey, Log: o.Log,
	}
	out.Dir, out.Listen, out.Sync, out.Tries = filepath.Join(dir, queueFolder), k.Listen, k.Sync, k.Tries
	out.Lease = time.Duration(k.Lease * float64(time.Second))
	if k.KeyEnv != "" {
		getenv := o.Getenv
		if getenv == nil {
			getenv = os.LookupEnv
		}
		if out.Key, _ = getenv(k.KeyEnv); out.Key == "" {
			return out, fmt.Errorf("%w: run.queue_options.key_env: the environment variable %s is not set", config.ErrConfig, k.KeyEnv)
		}
	}
	var err error
	if out.Run, err = owner.IDOf(dir); err != nil || out.Run == "" {
		out.Run = "a run that is not yet started"
	}
	return out, nil
}

// preflightQueue reports errors that would prevent episodes from being played by workers.
func (o *Options) preflightQueue(ctx context.Context, c *config.Config) error {
	if c.Run.Queue == "" {
		return nil
	}
	if o.Learner == nil && !c.UsesEngine() {
		return fmt.Errorf("%w: run.queue: workers generate with servers, but actor_rollout_ref.rollout.engine.addresses is empty: set it and actor_rollout_ref.rollout.name, or set run.queue to null", config.ErrConfig)
	}
	q, err := o.queueOptions(c, o.dir(c))
	if err == nil {
		err = queue.Probe(ctx, q)
	}
	return queueError(err)
}

func queueError(err error) error {
	if err == nil || errors.Is(err, config.ErrConfig) {
		return err
	}
	return fmt.Errorf("%w: run.queue: %w", config.ErrConfig, err)
}

// openQueue connects the run to its workers.
func (r *Run) openQueue(ctx context.Context, o *Options) error {
	c := &r.Config
	if c.Run.Queue == "" {
		return nil
	}
	if _, err := r.Folder.ID(); err != nil {
		return err
	}
	q, err := o.queueOptions(c, r.Folder.Path)
	if err != nil {
		return err
	}
	if q.Setup, err = worker.Setup(c, r.levels.State); err != nil {
		return err
	}
	q.Policy = workerPolicy
	if l, ok := r.Learner.(interface {
		CheckRow(tokens []int32, images []policy.Image) error
	}); ok {
		q.CheckRow = l.CheckRow
	}
	r.queue, err = queue.Open(ctx, q)
	return queueError(err)
}

// workerPolicy returns what workers need to sample with a policy: nothing, unless it has a
// method WorkerPolicy.
func workerPolicy(ctx context.Context, p policy.Policy) ([]byte, error) {
	if p, ok := p.(interface {
		WorkerPolicy(ctx context.Context) ([]byte, error)
	}); ok {
		return p.WorkerPolicy(ctx)
	}
	return nil, nil
}

// finishQueue removes the messages of a run that is complete.
func (r *Run) finishQueue() error {
	if r.queue == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.queue.Finish(ctx)
}
