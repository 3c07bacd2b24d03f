package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"time"

	"vagen/internal/clock"
	"vagen/internal/retry"
)

// server is the state of one server. The fleet's mutex protects it, except sync and what that protects.
type server struct {
	base     string
	sync     chan struct{} // has an element while weights are brought to the server
	adapters []string      // that this fleet loaded and did not unload; protected by sync
	torn     bool          // the last reload failed, perhaps with generation paused; protected by sync
	known    *description

	healthy  bool
	inFlight int
	failures int // in a row
	reason   error
	rests    time.Time // it asked for no request before
}

// choose returns a healthy server with room for a request: the preferred one if possible,
// otherwise one with the fewest requests in flight, and among those one that depends only on
// the key. avoid is chosen only if no other server is healthy. waiting reports whether a
// healthy server exists, which may have no room or may have asked for no request yet.
func (f *Fleet) choose(preferred, avoid *server, key uint64) (best *server, waiting bool) {
	var order uint64
	others, now := 0, time.Now()
	for _, s := range f.servers {
		if s.healthy && s != avoid && !now.Before(s.rests) {
			others++
		}
	}
	for _, s := range f.servers {
		if !s.healthy || s == avoid && others > 0 {
			continue
		}
		waiting = true
		if s.inFlight >= f.opts.InFlight || now.Before(s.rests) {
			continue
		}
		if s == preferred {
			return s, true
		}
		h := spread(key, s.base)
		if best == nil || s.inFlight < best.inFlight || s.inFlight == best.inFlight && h < order {
			best, order = s, h
		}
	}
	return best, waiting
}

// spread orders servers for a key.
func spread(key uint64, base string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, key))
	h.Write([]byte(base))
	return h.Sum64()
}

// acquire waits for a server with room. If no server is healthy for Options.Outage, the
// error wraps ErrNoServer.
func (f *Fleet) acquire(ctx context.Context, preferred, avoid *server, key uint64) (*server, error) {
	var outage *time.Timer
	defer func() {
		if outage != nil {
			outage.Stop()
		}
	}()
	for {
		f.mu.Lock()
		s, waiting := f.choose(preferred, avoid, key)
		if s != nil {
			s.inFlight++
			f.mu.Unlock()
			return s, nil
		}
		changed := f.changed
		reasons := f.reasons()
		f.mu.Unlock()
		switch {
		case waiting && outage != nil:
			outage.Stop()
			outage = nil
		case !waiting && outage == nil:
			outage = time.NewTimer(f.opts.Outage)
		}
		var late <-chan time.Time
		if outage != nil {
			late = outage.C
		}
		select {
		case <-changed:
		case <-late:
			return nil, &serverError{server: "all servers", call: "wait", kind: ErrNoServer, detail: "for " +
				f.opts.Outage.String(), cause: reasons}
		case <-f.ctx.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reasons lists why servers are not healthy.
func (f *Fleet) reasons() error {
	var errs []error
	for _, s := range f.servers {
		if !s.healthy {
			errs = append(errs, s.reason)
		}
	}
	return errors.Join(errs...)
}

// until waits until ready returns true, which is called with the mutex.
func (f *Fleet) until(ctx context.Context, ready func() bool) error {
	for {
		f.mu.Lock()
		is, changed := ready(), f.changed
		f.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enter waits until no weights are published. None are before the caller is no longer among the users.
func (f *Fleet) enter(ctx context.Context) error {
	return f.until(ctx, func() bool {
		if !f.publishing {
			f.users++
		}
		return !f.publishing
	})
}

// change changes the state, and wakes everyone who waits for that.
func (f *Fleet) change(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set()
	f.broadcast()
}

// broadcast wakes everyone who waits for a server. The fleet's mutex must be held.
func (f *Fleet) broadcast() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// release ends a request and records how it went.
func (f *Fleet) release(s *server, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.inFlight--
	if after := min(afterOf(err), retry.Longest); after > 0 && f.ctx.Err() == nil {
		s.rests = time.Now().Add(after)
		f.probes.Go(func() {
			clock.Wait(f.ctx, after)
			f.change(func() {})
		})
	}
	switch {
	case err == nil || errors.Is(err, ErrRefused):
		s.failures = 0
	case stale(err):
		f.eject(s, err)
	case errors.Is(err, ErrServer) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrAborted):
		if s.failures++; s.failures >= f.opts.EjectAfter {
			f.eject(s, err)
		}
	}
	f.broadcast()
}

// eject stops the use of a server until a probe succeeds. The mutex must be held.
func (f *Fleet) eject(s *server, err error) {
	s.reason = err
	if !s.healthy {
		return
	}
	s.healthy = false
	f.count.ejections.Add(1)
	f.log.Warn("server is not used until it is healthy", "server", s.base, "err", err)
	f.probeLater(s)
}

// probeLater starts to probe a server. The mutex must be held.
func (f *Fleet) probeLater(s *server) {
	if f.ctx.Err() == nil {
		f.probes.Go(func() { f.probe(s) })
	}
}

// probe waits until a server is healthy and has the current weights.
func (f *Fleet) probe(s *server) {
	delays := retry.Steady(f.opts.ProbeMin, f.opts.ProbeMax)
	for n := 0; ; n++ {
		if clock.Wait(f.ctx, delays.Delay(n, 0)) != nil {
			return
		}
		f.mu.Lock()
		recovered := !s.healthy
		f.mu.Unlock()
		if !recovered { // Publish was faster
			return
		}
		err := f.bringUp(f.ctx, s)
		f.mu.Lock()
		if err == nil {
			f.mu.Unlock()
			f.log.Info("server is used again", "server", s.base)
			return
		}
		s.reason = err
		f.mu.Unlock()
	}
}
