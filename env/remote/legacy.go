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
	"sync/atomic"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
)

// use adds a kind of environments to those that were requested. The original legacy service runs a
// sub-service for each.
func (s *Server) use(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.kinds, name) {
		s.kinds = append(s.kinds, name)
	}
}

func (s *Server) legacyHealth() Info {
	s.mu.Lock()
	kinds := append([]string{}, s.kinds...)
	s.mu.Unlock()
	return Info{{"status", "ok"}, {"message", "Environment server is running"}, {"registered_envs", s.o.Legacy.Names()},
		{"active_services", kinds}, {"active_environments", s.legacy.len()}}
}

// readParameters reads the JSON object of a legacy request, which must have the named
// parameter. The second result, if not nil, is the reply to a bad request.
func readParameters(r *http.Request, b body, name string) (map[string]any, *reply) {
	defer b.free()
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != kindJSON && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		a := page(http.StatusUnsupportedMediaType, "A request needs the Content-Type application/json.")
		return nil, &a
	}
	v, err := pyjson.Parse(b.raw)
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

// legacyError replies to a request that fails as a whole.
func (s *Server) legacyError(err error) reply {
	if errors.Is(err, errFull) {
		s.metrics.refused("sessions")
		return page(http.StatusServiceUnavailable, s.quota.message())
	}
	status := statusOf(err)
	if status == 0 {
		return reply{}
	}
	s.log.Warn("legacy request failed", "err", err)
	return page(status, err.Error())
}

// maxID limits the ids that clients choose, in bytes: the service keeps them.
const maxID = 1000

// create creates environments with the ids that the client chose. If one cannot be
// created, later calls of it fail; the request itself fails only if it is malformed, a
// kind is unknown, an option is refused or a limit is reached.
func (s *Server) create(r *http.Request, _ string, b body) reply {
	data, bad := readParameters(r, b, "ids2configs")
	if bad != nil {
		return *bad
	}
	wanted, err := mapping(data, "ids2configs")
	if err != nil {
		return s.legacyError(err)
	}
	if limit := s.o.MaxBatch; limit > 0 && len(wanted) > limit {
		s.metrics.refused("sessions")
		return s.legacyError(fmt.Errorf("ids2configs: %w: found %d, at most %d are allowed", errBatch, len(wanted), limit))
	}
	known, ids := s.o.Legacy.Names(), slices.Sorted(maps.Keys(wanted))
	for _, id := range ids {
		if len(id) > maxID {
			return s.legacyError(fmt.Errorf("ids2configs: an id has %d bytes, at most %d are allowed", len(id), maxID))
		}
		order, _ := wanted[id].(map[string]any)
		name, _ := order["env_name"].(string)
		if name == "" {
			return s.legacyError(fmt.Errorf("the config of environment %s has no env_name", id))
		}
		if !slices.Contains(known, name) {
			return s.legacyError(fmt.Errorf("environment %s: env_name %q: %w; known are %s", id, name, env.ErrUnknown,
				strings.Join(known, ", ")))
		}
	}
	name := func(id string) string { return wanted[id].(map[string]any)["env_name"].(string) }
	for _, id := range ids { // not by the workers of the batch, whose order differs
		s.use(name(id))
	}
	results, err := runBatch(s, r, ids, func(id string) (struct{}, error) {
		return callWithTimeout(r.Context(), s, "connect", func() {}, func(context.Context) (struct{}, error) {
			return struct{}{}, s.createLegacy(r.Context(), id, name(id), wanted[id].(map[string]any))
		}, func() {})
	})
	if err != nil {
		return s.legacyError(err)
	}
	for _, res := range results {
		if res.err != nil && statusOf(res.err) != http.StatusInternalServerError { // a panic fails only that environment
			return s.legacyError(res.err)
		}
	}
	return object(http.StatusOK, Info{{"success", true}})
}

// createLegacy creates one environment of a legacy request and registers it, even if its
// creation fails, unless its options are refused or the client, whose context is client, has
// gone: it may have sent the request again, and reset the environment of that one. An older one
// with its id is closed.
func (s *Server) createLegacy(client context.Context, id, name string, order map[string]any) error {
	if err := s.quota.reserve(); err != nil {
		return err
	}
	one := &session{id: id, failure: errors.New("panic")} // until the factory has returned
	register := true
	defer func() {
		if register {
			s.replaceLegacy(one)
		}
	}()
	config, err := mapping(order, "env_config")
	if err == nil {
		err = s.createEnv(one, func(config map[string]any) (env.Env, error) { return s.o.Legacy.New(name, config) }, config)
	}
	one.failure = err
	switch {
	case errors.Is(err, env.ErrRefused) || unknownOption(err):
		register = false
		s.quota.release()
		return err
	case client.Err() != nil:
		register = false
		s.quota.release()
		s.closeUnused(one.env)
		return errDisconnected
	case err != nil:
		s.log.Warn("environment not created", "id", id, "kind", name, "err", err)
	}
	return nil
}

// replaceLegacy registers a legacy environment and closes an older one with its id. The
// caller's call is counted in s.work, so that Add does not run concurrently with Wait.
func (s *Server) replaceLegacy(one *session) {
	before := s.legacy.add(one)
	s.countOpened(one)
	if before == nil {
		return
	}
	s.quota.release()
	s.metrics.closed("replaced")
	s.work.Add(1)
	go func() {
		defer s.end()
		before.turn <- struct{}{} // wait for a running call
		before.closed = true
		s.closeUnused(before.env)
		<-before.turn
	}()
}

// result is the result of one environment of a batch.
type result[T any] struct {
	value T
	err   error
}

// runBatch calls f for every environment, BatchWorkers at a time, and returns the
// results in the order of ids. It starts no more of them when the client has gone, because calls
// continue then without a worker that waits for them.
func runBatch[T any](s *Server, r *http.Request, ids []string, f func(id string) (T, error)) ([]result[T], error) {
	release, err := s.admit(r.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	results := make([]result[T], len(ids))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(s.o.BatchWorkers, len(ids)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(ids) && r.Context().Err() == nil; i = int(next.Add(1)) - 1 {
				results[i].value, results[i].err = f(ids[i])
			}
		})
	}
	wg.Wait()
	if r.Context().Err() != nil {
		return nil, errDisconnected
	}
	return results, nil
}

// lookupLegacy returns the environments of a request by id, or an error if one is unknown.
func (s *Server) lookupLegacy(ids []string) (map[string]*session, error) {
	at := make(map[string]*session, len(ids))
	for _, id := range ids {
		if at[id] = s.legacy.get(id); at[id] == nil {
			return nil, fmt.Errorf("Environment %s not found", id) //lint:ignore ST1005 clients receive the original's message
		}
	}
	return at, nil
}

// performBatch calls f for the environments of a batch and returns the results by id; instead
// gives the entry of an environment that failed, or that could not be created.
func performBatch[T any](
	s *Server, r *http.Request, ids []string, what string, f func(context.Context, *session) (T, error),
	instead func(error) any,
) (Info, error) {
	at, err := s.lookupLegacy(ids)
	if err != nil {
		return nil, err
	}
	results, err := runBatch(s, r, ids, func(id string) (T, error) {
		var zero T
		one := at[id]
		if one.failure != nil {
			return zero, fmt.Errorf("Environment %s not found", id) //lint:ignore ST1005 clients receive the original's message
		}
		return perform(r.Context(), s, one, what, func() {}, func(ctx context.Context) (T, error) {
			return f(ctx, one)
		})
	})
	if err != nil {
		return nil, err
	}
	in := make(Info, len(ids))
	for i, id := range ids {
		in[i] = Field{id, any(results[i].value)}
		if err := results[i].err; err != nil {
			s.log.Warn("environment failed", "id", id, "err", err)
			in[i].Value = instead(err)
		}
	}
	return in, nil
}

// encodeLegacyObservation encodes an observation for the legacy protocol.
func (s *Server) encodeLegacyObservation(o env.Observation) (pyjson.Raw, error) {
	a, err := s.answerWith(o)
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

// encodeEntry returns one environment's entry in the answer to a batch: observation,
// between, info dictionary. It encodes while the session is locked, because the values
// may share memory with the environment.
func (s *Server) encodeEntry(o env.Observation, in Info, between ...any) ([]any, error) {
	first, err := s.encodeLegacyObservation(o)
	if err != nil {
		return nil, err
	}
	last, err := pyjson.Append(nil, in, pyjson.Legacy)
	if err != nil {
		return nil, err
	}
	return append(append([]any{first}, between...), pyjson.Raw(last)), nil
}
