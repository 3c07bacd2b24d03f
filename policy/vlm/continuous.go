package vlm

import (
	"context"
	"sync"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
)

// overlapping is the work of calls that overlap in time, with Options.Continuous. One goroutine does it between the
// tokens that it decodes, and ends when no call is left.
type overlapping struct {
	mu      sync.Mutex
	work    []func(*generate.Batcher)
	running bool
}

// do gives work to the goroutine, which it starts if there is none. The batcher is nil if the model has been closed.
func (m *Model) do(work func(*generate.Batcher)) {
	o := &m.overlapping
	o.mu.Lock()
	defer o.mu.Unlock()
	o.work = append(o.work, work)
	if !o.running {
		o.running = true
		go m.serve()
	}
}

// serve does the work of do until there is none. It has the model for itself meanwhile: updates and scores wait.
func (m *Model) serve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var f *generate.Batcher
	if m.usable() == nil {
		f = m.gen.NewBatcher()
	}
	defer f.Close()
	for {
		m.overlapping.mu.Lock()
		work := m.overlapping.work
		m.overlapping.work = nil
		if m.overlapping.running = len(work) > 0 || f != nil && !f.Idle(); !m.overlapping.running {
			m.overlapping.mu.Unlock()
			return
		}
		m.overlapping.mu.Unlock()
		for _, w := range work {
			w(f)
		}
		if f != nil && !f.Idle() {
			f.Step()
		}
	}
}

// with calls f with the model's lock, or between two tokens.
func (m *Model) with(f func(*generate.Batcher)) {
	if !m.opts.Continuous {
		m.mu.Lock()
		defer m.mu.Unlock()
		f(nil)
		return
	}
	done := make(chan struct{})
	m.do(func(b *generate.Batcher) {
		defer close(done)
		f(b)
	})
	<-done
}

// join is Stream as a call of the batcher.
func (m *Model) join(ctx context.Context, prompts []policy.Prompt, s policy.Sampling, watch func(int, int32)) (
	out []policy.Completion, err error) {
	done := make(chan struct{})
	answer := func(o []policy.Completion, e error) {
		out, err = o, e
		close(done)
	}
	m.do(func(f *generate.Batcher) {
		if f == nil {
			answer(nil, m.usable())
			return
		}
		f.Add(&generate.Call{Context: ctx, Prompts: prompts, Sampling: s, Watch: watch, Done: answer})
	})
	<-done
	return out, err
}
