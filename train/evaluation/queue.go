package evaluation

import (
	"context"
	"fmt"
	"log/slog"

	"vagen/env/dataset"
	"vagen/rollout/evaluate"
	"vagen/train/config"
	"vagen/train/worker"
)

// Workers returns the evaluation as its workers see it, with results in a folder; nil without
// run.queue.
func (e *Plan) Workers(dir string, log *slog.Logger) (*worker.Evaluation, error) {
	r := &e.Config.Run
	if r.Queue == "" {
		return nil, nil
	}
	o, err := e.chatOptions(log)
	if err != nil {
		return nil, err
	}
	o.KeyEnv = e.Backend.KeyEnv // workers look for the own key of an API themselves
	return &worker.Evaluation{
		Chat: o, OwnKey: e.ownKey(), Parts: e.workers, Queue: r.Queue, Keys: r.QueueOptions, Jobs: r.Jobs, Dir: dir, Getenv: e.getenv, Log: log,
	}, nil
}

// Connect lets workers play an evaluation of this plan. The caller must call shut at the end.
func (e *Plan) Connect(ctx context.Context, to *evaluate.Evaluation, log *slog.Logger) (shut func() error, err error) {
	w, err := e.Workers(to.Dir, log)
	if err == nil && w == nil {
		err = fmt.Errorf("%w: run.queue is null, must be embedded or the URL of a NATS server", config.ErrConfig)
	}
	if err != nil {
		return nil, err
	}
	d, err := w.Open(ctx)
	if err != nil {
		return nil, err
	}
	to.Dealer = d
	return func() error {
		log.Info("API usage of all workers", "usage", d.Usage())
		return d.Close()
	}, nil
}

// part is the input of a task: lines of a dataset with the same tag and settings.
type part struct {
	where string // prefix of messages
	spec  dataset.Spec
	lines []dataset.Episode
}
