package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
)

// kinds remembers which kinds of environments were asked for, in order. The
// legacy service runs a sub-service for each.
type kinds struct {
	mu   sync.Mutex
	used []string
}

func (k *kinds) use(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.used, name) {
		k.used = append(k.used, name)
	}
}

func (k *kinds) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string{}, k.used...)
}

func (s *Server) legacyHealth() Info {
	return Info{{"status", "ok"}, {"message", "Environment server is running"}, {"registered_envs", s.o.Legacy.Names()},
		{"active_services", s.kinds.list()}, {"active_environments", s.legacy.len()}}
}

// parameters reads the object of a legacy request, which must have the one that
// is named. If not, the second result is the reply.
func parameters(r *http.Request, body []byte, name string) (map[string]any, *reply) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != kindJSON && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		a := page(http.StatusUnsupportedMediaType, "A request needs the Content-Type application/json.")
		return nil, &a
	}
	v, err := pyjson.Parse(body)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, pyjson.ErrLimit) {
			status = http.StatusRequestEntityTooLarge
		}
		a := page(status, err.Error())
		return nil, &a
	}
	data, _ := v.(map[string]any)
	if _, ok := data[name]; !ok && name != "" {
		a := object(http.StatusBadRequest, Info{{"error", "Missing required parameter: " + name}})
		return nil, &a
	}
	return data, nil
}

// broken replies to a request that cannot be worked on at all.
func (s *Server) broken(err error) reply {
	if errors.Is(err, errFull) {
		s.metrics.refused("sessions")
		return page(http.StatusServiceUnavailable, s.quota.full())
	}
	status := statusOf(err)
	if status == 0 {
		return reply{}
	}
	s.log.Warn("legacy request failed", "err", err)
	return page(status, err.Error())
}

// create makes environments under the names that the client chose. One that
// cannot be made fails when it is used; the request as a whole fails only if a
// kind is unknown.
func (s *Server) create(r *http.Request, _ string, body []byte) reply {
	data, bad := parameters(r, body, "ids2configs")
	if bad != nil {
		return *bad
	}
	wanted, err := mapping(data, "ids2configs")
	if err != nil {
		return s.broken(err)
	}
	if limit := s.o.MaxBatch; limit > 0 && len(wanted) > limit {
		s.metrics.refused("sessions")
		return s.broken(fmt.Errorf("ids2configs: %w: found %d, at most %d are allowed", errBatch, len(wanted), limit))
	}
	known := s.o.Legacy.Names()
	for id, v := range wanted {
		order, _ := v.(map[string]any)
		name, _ := order["env_name"].(string)
		if name == "" {
			return s.broken(fmt.Errorf("the config of environment %s has no env_name", id))
		}
		if !slices.Contains(known, name) {
			return s.broken(fmt.Errorf("environment %s: env_name %q: %w; known are %s", id, name, env.ErrUnknown, strings.Join(known, ", ")))
		}
	}
	ids := slices.Sorted(maps.Keys(wanted))
	results, err := batch(s, r, ids, func(id string) (struct{}, error) {
		order := wanted[id].(map[string]any)
		name := order["env_name"].(string)
		s.kinds.use(name)
		return guard(r.Context(), s, "connect", func() {}, func(context.Context) (struct{}, error) {
			return struct{}{}, s.settle(id, name, order)
		}, func() {})
	})
	if err != nil {
		return s.broken(err)
	}
	for _, res := range results {
		if res.err != nil && statusOf(res.err) != http.StatusInternalServerError { // a panic is that environment's failure
			return s.broken(res.err)
		}
	}
	return object(http.StatusOK, Info{{"success", true}})
}

// settle makes one environment of a legacy request and lists it, also when that
// fails. The one that had its name before is closed.
func (s *Server) settle(id, name string, order map[string]any) error {
	if err := s.quota.reserve(); err != nil {
		return err
	}
	one := &session{id: id}
	listed := false
	defer func() {
		if !listed { // the factory panicked
			one.failure = errors.New("panic")
			s.list(one)
		}
	}()
	config, err := mapping(order, "env_config")
	if err == nil {
		err = s.make(one, func(config map[string]any) (env.Env, error) { return s.o.Legacy.New(name, config) }, config)
	}
	if errors.Is(err, env.ErrRefused) {
		listed = true // not at all
		s.quota.release()
		return err
	}
	if err != nil {
		s.log.Warn("environment was not made", "id", id, "kind", name, "err", err)
		one.failure = err
	}
	listed = true
	s.list(one)
	return nil
}

// list enters a legacy environment and closes the one whose name it takes. It is
// called within a piece of work that Close waits for, which is why another one may
// follow without asking whether the service is shutting down.
func (s *Server) list(one *session) {
	before := s.legacy.add(one)
	s.opened(one)
	if before == nil {
		return
	}
	s.quota.release()
	s.metrics.closed("replaced")
	s.work.Add(1)
	go func() {
		defer s.end()
		before.turn <- struct{}{} // a call may be under way
		before.gone = true
		s.discard(before.env)
		<-before.turn
	}()
}

// result is what one environment of a batch gave.
type result[T any] struct {
	value T
	err   error
}

// batch calls f for every environment, some at a time, and returns the results in
// order.
func batch[T any](s *Server, r *http.Request, ids []string, f func(id string) (T, error)) ([]result[T], error) {
	release, err := s.admit(r.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	results := make([]result[T], len(ids))
	var next sync.Mutex
	at := 0
	var wg sync.WaitGroup
	for range min(s.o.BatchWorkers, len(ids)) {
		wg.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(ids) {
					return
				}
				results[i].value, results[i].err = f(ids[i])
			}
		})
	}
	wg.Wait()
	if r.Context().Err() != nil {
		return nil, errGone
	}
	return results, nil
}

// members returns the environments of a request. One that is not listed fails the
// request before anything has run.
func (s *Server) members(ids []string) ([]*session, error) {
	list := make([]*session, len(ids))
	for i, id := range ids {
		if list[i] = s.legacy.get(id); list[i] == nil {
			return nil, fmt.Errorf("Environment %s not found", id) //lint:ignore ST1005 it travels to clients, in the words that they know
		}
	}
	return list, nil
}

// each calls f for the environments of a batch that were made.
func each[T any](s *Server, r *http.Request, ids []string, what string, f func(context.Context, *session) (T, error)) ([]result[T], error) {
	list, err := s.members(ids)
	if err != nil {
		return nil, err
	}
	at := make(map[string]*session, len(list))
	for _, one := range list {
		at[one.id] = one
	}
	return batch(s, r, ids, func(id string) (T, error) {
		var zero T
		one := at[id]
		if one.failure != nil {
			return zero, fmt.Errorf("Environment %s not found", id) //lint:ignore ST1005 it travels to clients, in the words that they know
		}
		return perform(r.Context(), s, s.legacy, one, what, func() {}, func(ctx context.Context) (T, error) { return f(ctx, one) })
	})
}

// pictured writes an observation of the legacy protocol.
func (s *Server) pictured(o env.Observation) (pyjson.Raw, error) {
	a, err := s.observed(o)
	if err != nil {
		return nil, err
	}
	in := Info{{"obs_str", o.Text}}
	if len(a.images) > 0 {
		list := make([]any, len(a.images))
		for i, b := range a.images {
			list[i] = Info{{"__pil_image__", base64.StdEncoding.EncodeToString(b)}}
		}
		in = append(in, Field{"multi_modal_data", Info{{env.ImageMark, list}}})
	}
	return pyjson.Append(nil, in, pyjson.Legacy)
}

// entry is one environment's part of the answer to a batch, the observation first
// and the info dictionary last, both written while the environment's turn lasts.
func (s *Server) entry(o env.Observation, in Info, between ...any) ([]any, error) {
	first, err := s.pictured(o)
	if err != nil {
		return nil, err
	}
	last, err := pyjson.Append(nil, in, pyjson.Legacy)
	if err != nil {
		return nil, err
	}
	return append(append([]any{first}, between...), pyjson.Raw(last)), nil
}
