package run

import (
	"context"
	"errors"

	"vagen/train/config"
	"vagen/train/run/internal/owner"
	"vagen/train/worker"
)

// workers returns the run in a folder as its workers see it.
func (o *Options) workers(c *config.Config, dir string) (*worker.Trainer, error) {
	id, err := owner.IDOf(dir)
	return &worker.Trainer{Config: c, Dir: dir, ID: id, Own: o.Learner != nil, QueueServer: o.QueueServer, Log: o.Log}, err
}

// preflightQueue reports errors that would prevent episodes from being played by workers.
func (o *Options) preflightQueue(ctx context.Context, c *config.Config) error {
	w, err := o.workers(c, o.dir(c))
	return errors.Join(err, w.Check(ctx))
}

// openQueue connects the run to its workers.
func (r *Run) openQueue(ctx context.Context, o *Options) error {
	if r.Config.Run.Queue == "" {
		return nil
	}
	if _, err := r.Folder.ID(); err != nil {
		return err
	}
	w, err := o.workers(&r.Config, r.Folder.Path)
	if err == nil {
		r.queue, err = w.Open(ctx, r.Learner, r.levels.State)
	}
	return err
}
