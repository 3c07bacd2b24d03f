// Package judges opens judges that are models of this process, for judge.Service.Model: any folder that
// policy/vlm reads.
package judges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
)

// Models are the judges of a run. Each is checked by Dial and loaded when the first statement is scored.
// It is safe for concurrent use.
type Models struct {
	// Options are those of the models: the backend and its settings. A judge has no critic and no reference.
	Options vlm.Options
	Log     *slog.Logger // nil discards

	mu  sync.Mutex
	all map[judge.Service]*model
}

// Dial returns a judge.Dial that connects as next does, and to models of this process for blocks that name a
// folder. Its error says what is wrong with the folder.
func (m *Models) Dial(next judge.Dial) judge.Dial {
	return func(block *judge.StateReward) (judge.Completer, error) {
		if block.Service.Model == "" {
			return next(block)
		}
		return m.dial(block)
	}
}

func (m *Models) dial(block *judge.StateReward) (judge.Completer, error) {
	o := m.Options
	o.MaxRows, o.Critic, o.Log = block.Service.Concurrency, vlm.NoCritic, m.Log
	dir := block.Service.Model
	if _, err := vlm.Check(context.Background(), dir, o); err != nil {
		return nil, fmt.Errorf("judge.model: %s is not a folder with a model that can judge: %w", dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.all[block.Service]; one != nil {
		return one.client.Complete, nil
	}
	one := &model{service: block.Service, options: o, log: m.Log}
	var err error
	if one.client, one.batches, err = client.Over(one, identity(dir), block, m.Log); err != nil {
		return nil, err
	}
	if m.all == nil {
		m.all = map[judge.Service]*model{}
	}
	m.all[block.Service] = one
	return one.client.Complete, nil
}

// Close frees the models. Nothing may be scored afterwards.
func (m *Models) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, one := range m.all {
		errs = append(errs, one.close())
	}
	m.all = nil
	return errors.Join(errs...)
}

// model is a judge, a policy that is loaded when it is first used.
type model struct {
	service judge.Service
	options vlm.Options
	log     *slog.Logger
	client  *client.Client
	batches *client.Batches

	mu     sync.Mutex
	loaded *vlm.Model
	err    error // of loading; it is not tried again
}

// Generate implements policy.Policy.
func (m *model) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	loaded, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	return loaded.Generate(ctx, prompts, s)
}

// Forget implements policy.Policy.
func (m *model) Forget(keys ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded != nil {
		m.loaded.Forget(keys...)
	}
}

// open loads the model unless it is loaded.
func (m *model) open(ctx context.Context) (*vlm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded == nil && m.err == nil {
		m.loaded, m.err = vlm.Open(context.WithoutCancel(ctx), m.service.Model, m.options)
		if m.err == nil {
			m.report()
		}
	}
	return m.loaded, m.err
}

// report logs the memory that the judge needs beside the run's.
func (m *model) report() {
	if m.log == nil {
		return
	}
	const prompt, answer = 512, 512 // tokens
	plan, err := m.loaded.Plan(vlm.Workload{Generate: true, Rows: m.service.Concurrency, Tokens: prompt + answer,
		Wanted: answer})
	if err != nil {
		m.log.Warn("memory plan of the judge failed", "err", err)
		return
	}
	m.log.Info("the judge's model is loaded; its memory is in addition to that of the run", "judge.model", m.service.Model,
		"plan", plan)
}

func (m *model) close() error {
	m.batches.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded == nil {
		return nil
	}
	err := m.loaded.Close()
	m.loaded, m.err = nil, errors.New("the judge is closed")
	return err
}

// identity names a model for the cache of answers: its folder with names, sizes and times of the files.
func identity(dir string) string {
	var b strings.Builder
	b.WriteString("model " + dir)
	entries, _ := os.ReadDir(dir) // the model was read from it
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintf(&b, " %s %d %d", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}
