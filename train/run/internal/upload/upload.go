// Package upload sends the exports of a run to the Hugging Face hub while it trains.
package upload

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"vagen/internal/hub"
	"vagen/internal/silent"
	"vagen/train/config"
)

// Queue sends the exports of a run to the hub in the background, one after the other.
// A failed upload is a warning, because the files still exist locally and the next
// upload replaces them. A failure of the last upload is an error.
type Queue struct {
	client *hub.Client
	c      *config.HubConfig
	log    *slog.Logger

	last chan struct{} // closed when the newest upload is done
	repo string        // owner/name; "" until the repository was created
	err  error         // of the newest upload
}

// New returns nil if uploads are disabled.
func New(c *config.Config, log *slog.Logger) (*Queue, error) {
	if c.Hub.Repo == "" || c.Hub.Freq == nil {
		return nil, nil
	}
	client, err := hub.FromEnvironment()
	if err != nil {
		return nil, fmt.Errorf("%w: huggingface_hub.repo_id: %w", config.ErrConfig, err)
	}
	log = silent.Log(log)
	return &Queue{client: client, c: &c.Hub, log: log}, nil
}

// Add queues the upload of a step's export. A nil Queue ignores it.
func (u *Queue) Add(ctx context.Context, dir string, step int) {
	if u == nil {
		return
	}
	before, done := u.last, make(chan struct{})
	u.last = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if u.err = u.upload(ctx, dir, step); u.err != nil {
			u.log.Warn("upload failed", "step", step, "repository", u.c.Repo, "err", u.err)
		}
	}()
}

func (u *Queue) upload(ctx context.Context, dir string, step int) error {
	if u.repo == "" {
		repo, err := u.client.Full(ctx, u.c.Repo)
		if err == nil {
			err = u.client.Create(ctx, repo, u.c.Private)
		}
		if err != nil {
			return err
		}
		u.repo = repo
	}
	for i, what := range u.c.Contents {
		to := what
		if i == 0 { // loaders expect a model in the repository's root
			to = ""
		}
		place, err := u.client.Upload(ctx, u.repo, filepath.Join(dir, what), to, fmt.Sprintf("%s of step %d", what, step))
		if err != nil {
			return err
		}
		u.log.Info("uploaded", "step", step, "commit", place)
	}
	return nil
}

// Wait waits for all uploads and returns the error of the last one.
func (u *Queue) Wait() error {
	if u == nil || u.last == nil {
		return nil
	}
	<-u.last
	if u.err != nil {
		return fmt.Errorf("run: upload of the last export: %w", u.err)
	}
	return nil
}
