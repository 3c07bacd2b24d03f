package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/field"
	"vagen/internal/transport"
)

// health answers GET /health in both protocols.
func (s *Server) health(*http.Request, string, body) reply {
	if s.o.Lite == nil {
		return object(http.StatusOK, s.legacyHealth())
	}
	in := Info{{"ok", true}, {"service", "gym-env-service"}, {"max_inflight", "unlimited"}}
	if s.o.MaxInFlight > 0 {
		in[2].Value = s.o.MaxInFlight
	}
	if s.o.Legacy != nil {
		in = append(in, s.legacyHealth()...)
	}
	return plain(http.StatusOK, in)
}

// listSessions answers GET /sessions.
func (s *Server) listSessions(*http.Request, string, body) reply {
	unix := func(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
	list := []any{}
	for _, one := range s.lite.all() {
		idle, used := one.idle(), one.created.Add(time.Duration(one.used.Load()))
		list = append(list, Info{{"session_id", one.id}, {"created_at", unix(one.created)}, {"last_access", unix(used)},
			{"idle_seconds", idle.Seconds()}, {"will_timeout_in", max(0, (s.o.SessionTimeout - idle).Seconds())}})
	}
	return plain(http.StatusOK, Info{{"num_sessions", len(list)}, {"max_sessions", s.o.MaxSessions},
		{"session_timeout", s.o.SessionTimeout.Seconds()}, {"sessions", list}})
}

// answer is the result of an environment's method.
type answer struct {
	data   Info
	images [][]byte
}

// errorReply replies to a call that failed.
func (s *Server) errorReply(err error, what string) reply {
	status := statusOf(err)
	text := err.Error()
	switch {
	case errors.Is(err, errFull):
		s.metrics.refused("sessions")
		text = s.quota.message()
	case status == http.StatusInternalServerError:
		s.log.Warn("environment failed", "call", what, "err", err)
	}
	return detail(status, text)
}

// encodeAnswer encodes an answer as a reply. It must be called while the session is
// locked: the result of an Informer may share memory with the environment.
func (s *Server) encodeAnswer(a answer, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	data, err := pyjson.Append(make([]byte, 0, 1024), a.data, pyjson.Lite)
	if err != nil {
		return reply{}, err
	}
	boundary := wire.NewBoundary()
	return reply{status: http.StatusOK, kind: wire.ContentType("multipart/mixed", boundary),
		body: wire.Encode(boundary, data, a.images, s.o.Images.Type())}, nil
}

// decode reads a request of the Lite protocol. No method uses images, but invalid ones
// are refused, as in the original.
func (s *Server) decode(r *http.Request, b body) (map[string]any, error) {
	defer b.free()
	m, err := wire.Decode(r.Header.Get("Content-Type"), b.raw, s.o.Limits.Parts)
	room := s.o.Limits.Pixels
	for i := 0; i < len(m.Images) && err == nil; i++ {
		err = wire.CheckImage(m.Images[i], &room)
	}
	return m.Data, err
}

// connect creates an environment and, if the request has a seed, resets it.
func (s *Server) connect(r *http.Request, _ string, b body) reply {
	release, err := s.admit(r.Context())
	if err != nil {
		return s.errorReply(err, "connect")
	}
	data, err := s.decode(r, b)
	var config map[string]any
	if err == nil {
		config, err = mapping(data, "env_config")
	}
	seed, seeded := data["seed"]
	var start *int64
	if err == nil && seeded && seed != nil {
		start = new(int64)
		*start, err = s.seed(seed)
	}
	if err != nil {
		release()
		return s.errorReply(err, "connect")
	}
	a, err := callWithTimeout(r.Context(), s, "connect", release, func(ctx context.Context) (reply, error) {
		return s.open(ctx, r.Context(), config, start)
	}, func() {})
	if err != nil {
		return s.errorReply(err, "connect")
	}
	return a
}

// open creates a session. If its first reset fails or the client, whose context is
// client, has disconnected, the environment is closed again.
func (s *Server) open(ctx, client context.Context, config map[string]any, seed *int64) (re reply, err error) {
	if err := s.quota.reserve(); err != nil {
		return re, err
	}
	one := &session{id: wire.NewID()}
	kept := false
	defer func() {
		if !kept {
			s.quota.release()
			s.closeUnused(one.env)
		}
	}()
	if err := s.createEnv(one, s.o.Lite, config); err != nil {
		return re, err
	}
	var first answer
	if seed != nil {
		if first, err = s.reset(ctx, one, *seed); err != nil {
			return re, err
		}
	}
	first.data = append(Info{{"session_id", one.id}}, first.data...)
	if re, err = s.encodeAnswer(first, nil); err != nil {
		return re, err
	}
	if client.Err() != nil || ctx.Err() != nil {
		return re, errDisconnected
	}
	s.lite.add(one)
	kept = true
	s.countOpened(one)
	return re, nil
}

// call runs a method of a session.
func (s *Server) call(r *http.Request, _ string, b body) reply {
	release, err := s.admit(r.Context())
	if err != nil {
		return s.errorReply(err, "call")
	}
	return s.dispatch(r, b, release)
}

func (s *Server) dispatch(r *http.Request, b body, release func()) reply {
	data, err := s.decode(r, b)
	if err != nil {
		release()
		return s.errorReply(err, "call")
	}
	id, method := data["session_id"], data["method"]
	if falsy(id) || falsy(method) {
		release()
		if falsy(id) {
			return detail(http.StatusBadRequest, "session_id required")
		}
		return detail(http.StatusBadRequest, "method required")
	}
	name, _ := id.(string)
	one := s.lite.get(name)
	if one == nil {
		release()
		return notFound(id)
	}
	f, what, err := s.method(one, method, data)
	if err != nil {
		release()
		one.touch()
		return s.errorReply(err, "call")
	}
	a, err := perform(r.Context(), s, one, what, release, func(ctx context.Context) (reply, error) {
		return s.encodeAnswer(f(ctx))
	})
	switch {
	case errors.Is(err, errEnded):
		return notFound(id)
	case err != nil:
		return s.errorReply(err, what)
	}
	return a
}

func notFound(id any) reply {
	return detail(http.StatusNotFound, "Session "+transport.Clip(fmt.Sprint(id), 100)+" not found")
}

// method returns the function for a call, with its parameters, and its name.
func (s *Server) method(
	one *session, method any, data map[string]any,
) (f func(context.Context) (answer, error), what string, err error) {
	params, err := mapping(data, "params")
	if err != nil {
		return nil, "", err
	}
	switch method {
	case "system_prompt":
		return func(ctx context.Context) (answer, error) {
			o, err := one.env.System(ctx)
			if err != nil {
				return answer{}, err
			}
			return s.answerWith(o)
		}, "system_prompt", nil
	case "reset":
		seed := int64(0)
		if given, ok := params["seed"]; ok {
			if seed, err = s.seed(given); err != nil {
				return nil, "", err
			}
		}
		return func(ctx context.Context) (answer, error) { return s.reset(ctx, one, seed) }, "reset", nil
	case "step":
		text, ok := params["action_str"].(string)
		if given, there := params["action_str"]; there && !ok {
			return nil, "", fmt.Errorf("action_str must be text, found %T", given)
		}
		return func(ctx context.Context) (answer, error) { return s.step(ctx, one, text) }, "step", nil
	case "close":
		return func(context.Context) (answer, error) {
			return answer{data: Info{{"closed", true}}}, s.closeSession(s.lite, one, "client")
		}, "close", nil
	}
	//lint:ignore ST1005 clients receive the original's message
	return nil, "", fmt.Errorf("Unknown method: %s", transport.Clip(fmt.Sprint(method), 100))
}

func (s *Server) reset(ctx context.Context, one *session, seed int64) (answer, error) {
	o, err := one.env.Reset(ctx, seed)
	if err != nil {
		return answer{}, err
	}
	return s.answerWith(o, Field{"info", one.inform.ResetInfo()})
}

func (s *Server) step(ctx context.Context, one *session, text string) (answer, error) {
	o, err := one.env.Step(ctx, text)
	if err != nil {
		return answer{}, err
	}
	return s.answerWith(o.Observation, Field{"reward", o.Reward.Sum()}, Field{"done", o.Done},
		Field{"info", one.inform.StepInfo(o)})
}

// answerWith returns an answer with an observation and further fields. It encodes the
// images, so it must be called while the session is locked: the environment may reuse
// their memory for the next observation.
func (s *Server) answerWith(o env.Observation, more ...Field) (answer, error) {
	images, err := wire.EncodeImages(o.Images, s.o.Images)
	return answer{data: append(append(make(Info, 0, 1+len(more)), Field{"obs", o.Text}), more...), images: images}, err
}

// mapping returns an object of a request, empty if it is missing.
func mapping(data map[string]any, name string) (map[string]any, error) {
	switch v := data[name].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s must be an object, found %T", name, v)
	}
}

// seed reads a seed; for null it draws one.
func (s *Server) seed(v any) (int64, error) {
	if v == nil {
		return s.seeds.Next(s.o.Seed), nil
	}
	n, whole := field.Rules{}.Whole(v)
	if !whole {
		return 0, fmt.Errorf("seed must be a whole number, found %s", transport.Clip(fmt.Sprint(v), 100))
	}
	return n, nil
}

// falsy reports whether Python treats a value as false.
func falsy(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
