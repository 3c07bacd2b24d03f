package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Version is a version of the weights.
type Version struct {
	// Name identifies the version. It must not have been used on the servers before:
	// NewName makes one.
	Name string
	// Path is the folder of the weights as the servers see it: a PEFT folder if Adapter
	// is set, otherwise a model in the Hugging Face layout.
	Path    string
	Adapter bool
	// Base is the version of the base weights under an adapter. Only a fleet with
	// Options.Follow reads it; Fleet.Base returns it.
	Base string
	// Step becomes the Version of completions that these weights write.
	Step int `json:",omitempty"`
}

// NewName returns a name for a version of the weights that no other process uses.
func (f *Fleet) NewName(number int) string { return fmt.Sprintf("%s%d", f.prefix(), number) }

// prefix begins all names that NewName returns.
func (f *Fleet) prefix() string { return "vagen-" + f.nonce + "-v" }

func nonce() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (f *Fleet) nextID() string { return fmt.Sprintf("%s-%d", f.nonce, f.ids.Add(1)) }

// Current returns the version that the servers have; false before the first Publish.
func (f *Fleet) Current() (Version, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		return Version{}, false
	}
	return *f.current, true
}

// Base returns the version of the base weights.
func (f *Fleet) Base() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base
}

// Publish brings new weights to all servers and makes them the current version. It waits
// for responses in progress. A server that fails is not used until a probe has brought the
// weights to it. If all fail, Publish waits for at most Options.Outage for one that does not
// answer, or with Options.Follow does not have the weights yet; without one the error wraps
// ErrNoServer. Afterwards the folders of versions before the current one are not needed any
// more.
func (f *Fleet) Publish(ctx context.Context, v Version) error {
	if f.ctx == nil {
		return errFleet
	}
	if err := f.until(ctx, func() bool {
		free := !f.publishing
		f.publishing = true
		return free
	}); err != nil {
		return err
	}
	defer f.change(func() { f.publishing = false })
	if err := f.until(ctx, func() bool { return f.users == 0 }); err != nil {
		return err
	}
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	begin := time.Now()
	f.mu.Lock()
	if f.current != nil && v.Adapter != f.current.Adapter {
		f.mu.Unlock()
		return fmt.Errorf("engine: %w: version %s has Adapter %v, the version before it %v", ErrOption, v.Name, v.Adapter,
			f.current.Adapter)
	}
	f.current = &v
	if f.opts.Follow {
		f.base = v.Base
	}
	f.mu.Unlock()
	errs := make([]error, len(f.servers))
	f.each(func(i int, s *server) { errs[i] = f.bringUp(ctx, s) })
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f.change(func() {
		for i, s := range f.servers {
			switch {
			case errs[i] == nil:
			case s.healthy:
				f.eject(s, errs[i])
			default:
				s.reason = errs[i]
			}
		}
	})
	err := f.anyOf(ctx, errs)
	f.count.publishes.Add(1)
	f.count.publishTime.Add(int64(time.Since(begin)))
	if err != nil {
		return fmt.Errorf("engine: version %s could not be brought to any server: %w", v.Name, err)
	}
	return nil
}

// anyOf returns an error if weights reached no server, after it has waited for a probe to bring them
// to one whose error may end by itself. errs are those of the servers.
func (f *Fleet) anyOf(ctx context.Context, errs []error) error {
	if slices.Contains(errs, nil) {
		return nil
	}
	if !slices.ContainsFunc(errs, func(err error) bool {
		s, ok := errors.AsType[*serverError](err)
		// Status 500 says that the server could not load the folder.
		return ok && s.kind == ErrServer && s.status != http.StatusInternalServerError || f.opts.Follow && stale(err)
	}) {
		return fmt.Errorf("%w: %w", ErrNoServer, errors.Join(errs...))
	}
	s, err := f.acquire(ctx, nil, nil, 0)
	if err == nil {
		f.release(s, nil)
	}
	return err
}

// bringUp checks that a server is healthy, brings the current weights to it if it does not
// have them, and lets it be used.
func (f *Fleet) bringUp(ctx context.Context, s *server) error {
	select {
	case s.sync <- struct{}{}:
		defer func() { <-s.sync }()
	case <-ctx.Done(): // a probe is loading weights
		return fmt.Errorf("engine: %s: %w", s.base, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, f.opts.SyncTimeout)
	defer cancel()
	f.mu.Lock()
	current, base := f.current, f.base
	f.mu.Unlock()
	if err := f.bring(ctx, s, current, base); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != current {
		return fmt.Errorf("engine: %s: %w: newer weights were published meanwhile", s.base, ErrVersion)
	}
	s.healthy, s.failures, s.reason = true, 0, nil
	f.broadcast()
	return nil
}

// bring brings weights to a server that does not have them. base is the version of the base weights.
func (f *Fleet) bring(ctx context.Context, s *server, current *Version, base string) error {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	d, err := f.api.describe(within, s.base)
	cancel()
	switch {
	case err != nil:
		return err
	case d.model != f.model:
		return fmt.Errorf("engine: %s: %w: it serves %s, before it served %s", s.base, ErrModel, d.model, f.model)
	case current == nil || current.Adapter:
		if d.version != base {
			return fmt.Errorf("engine: %s: %w: its base weights are of version %s, must be %s: another program changed them, restart the server", s.base, ErrVersion, d.version, base)
		}
		if current == nil {
			return nil
		}
		return f.bringAdapter(ctx, s, d, current)
	case d.version == current.Name && !s.torn:
		return nil
	case f.opts.Follow:
		return fmt.Errorf("engine: %s: %w: its weights are of version %s, must be %s", s.base, ErrVersion, d.version,
			current.Name)
	}
	err = f.api.reload(ctx, s.base, current.Path, current.Name)
	s.torn = err != nil
	return err
}

// bringAdapter loads an adapter and unloads those of earlier versions.
func (f *Fleet) bringAdapter(ctx context.Context, s *server, d *description, current *Version) error {
	if f.opts.Follow {
		if d.adapters != nil && !slices.Contains(d.adapters, current.Name) {
			return fmt.Errorf("engine: %s: %w: the adapter %s is not loaded", s.base, ErrVersion, current.Name)
		}
		return nil
	}
	var err error
	known := slices.Contains(s.adapters, current.Name)
	if !slices.Contains(d.adapters, current.Name) {
		err = f.api.loadAdapter(ctx, s.base, current.Name, current.Path)
		// A server that cannot list its adapters refuses one that it has.
		if d.adapters == nil && errors.Is(err, ErrRefused) && known {
			err = nil
		}
	}
	if !known && (err == nil || errors.Is(err, ErrServer)) { // the answer of a call that succeeded may be lost
		s.adapters = append(s.adapters, current.Name)
	}
	if err != nil {
		return err
	}
	f.unloadOld(ctx, s, d, current.Name)
	return nil
}

// unloadOld unloads all adapters of this fleet but one. There are several if the server could
// not be reached when one of them was to be unloaded. That it fails again only takes memory.
func (f *Fleet) unloadOld(ctx context.Context, s *server, d *description, current string) {
	old := s.adapters
	for _, name := range d.adapters { // also those of loading calls whose answer was not received
		if strings.HasPrefix(name, f.prefix()) && !slices.Contains(old, name) {
			old = append(old, name)
		}
	}
	s.adapters = nil
	for _, name := range old {
		if name != current {
			if d.adapters != nil && !slices.Contains(d.adapters, name) {
				continue // the server was restarted
			}
			err := f.api.unloadAdapter(ctx, s.base, name)
			if err == nil || errors.Is(err, ErrMissing) {
				continue
			}
			f.log.Warn("old adapter was not unloaded", "server", s.base, "adapter", name, "err", err)
			if errors.Is(err, ErrRefused) {
				continue // it would be refused each time
			}
		}
		s.adapters = append(s.adapters, name)
	}
}

// call is a path with the body that is sent to it.
type call struct {
	path string
	body any
}

// paused calls load while a server generates nothing, so that no response mixes weights. It always resumes generation,
// also after the end of ctx, unless the server refused to pause: one whose answer was not received may have paused.
func (w *wire) paused(ctx context.Context, base string, pause, resume call, load func() error) error {
	err := w.post(ctx, base, pause.path, pause.body)
	if s, ok := errors.AsType[*serverError](err); ok && s.status != 0 {
		return err
	}
	if err == nil {
		err = load()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return errors.Join(err, w.post(within, base, resume.path, resume.body))
}

// callTimeout limits calls that a server answers at once.
const callTimeout = 30 * time.Second
