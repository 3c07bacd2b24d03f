package worker

import (
	"context"
	"errors"
	"fmt"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/train/envs"
	"vagen/train/queue"
	"vagen/train/worker/internal/gate"
)

// remote is the model behind an API that the episodes of an evaluation are played with.
type remote struct {
	model  *chat.Model
	client *gate.Client
}

func (r *remote) close() error {
	if r == nil {
		return nil
	}
	r.client.Close()
	return r.model.Close()
}

// dial opens the model of an evaluation.
func (h *host) dial(s *service, b queue.Batch) (*remote, error) {
	o := s.Chat
	if o.KeyEnv == "" && s.OwnKey {
		o.KeyEnv = h.firstSet(chat.KeyVariables(o.API))
	}
	r := &remote{client: gate.Dial(s.Lease, b.Ask, b.Tell)}
	o.Gate, o.Log = r.client, h.log()
	var err error
	if r.model, err = chat.New(o); err != nil {
		r.client.Close()
		return nil, fmt.Errorf("worker: %s %s: %w", o.API, o.Model, err)
	}
	return r, nil
}

// firstSet returns the first environment variable that is set, "" for none.
func (h *host) firstSet(names []string) string {
	for _, name := range names {
		if v, ok := getenv(h.opts.Getenv)(name); ok && v != "" {
			return name
		}
	}
	return ""
}

// openService opens a task of an evaluation.
func (h *host) openService(s *service, b queue.Batch) (queue.Opened, error) {
	part, ok := s.Parts[b.Tag]
	if !ok {
		return queue.Opened{}, fmt.Errorf("worker: the evaluation has no task %q", b.Tag)
	}
	harness, err := rollout.Builtin().New(part.Harness, part.Options)
	if err != nil {
		return queue.Opened{}, fmt.Errorf("worker: %w", err)
	}
	registry := h.opts.Envs
	if registry == nil {
		registry = builtin.LoggedRegistry(client.Dial(h.log()), h.log())
		if part.State != nil {
			if err := envs.SetJudge(registry, part.State, h.log()); err != nil {
				return queue.Opened{}, fmt.Errorf("worker: %w", err)
			}
		}
	}
	return h.remote.opened(registry, harness), nil
}

func (r *remote) opened(registry *env.Registry, harness rollout.Harness) queue.Opened {
	return queue.Opened{
		Player: func() *rollout.Player { return &rollout.Player{Policy: r.model, Envs: registry, Harness: harness} },
		Observe: func(ctx context.Context, p *rollout.Player) (context.Context, func() []byte) {
			metered, used := policy.Meter(p.Policy)
			p.Policy = metered
			ctx, judged := client.WithMeter(ctx)
			return ctx, func() []byte { return report{Judge: judged.Usage(), Used: used()}.write() }
		},
		Fatal: r.fatal,
	}
}

// fatal reports whether an error of the API concerns this worker. Those that concern all of them
// are sent to the evaluation, which ends.
func (r *remote) fatal(err error) bool {
	for _, own := range []error{chat.ErrKey, chat.ErrUnreachable} {
		if errors.Is(err, own) {
			return true
		}
	}
	for _, all := range []error{chat.ErrModel, chat.ErrQuota, chat.ErrSetting} {
		if errors.Is(err, all) {
			r.client.Abort(err)
		}
	}
	return false
}
