package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"vagen/env"
)

// Handlers of batches answer an object with an entry for each id, handlers of single
// environments one such entry. Both use the functions below.

// resetBatch resets environments; seeds has the request's seed for each id.
func (s *Server) resetBatch(r *http.Request, seeds map[string]any) (Info, error) {
	ids := slices.Sorted(maps.Keys(seeds))
	drawn := make(map[string]result[int64], len(ids)) // in the order of ids, so that drawn seeds are reproducible
	for _, id := range ids {
		seed, err := s.seed(seeds[id])
		drawn[id] = result[int64]{seed, err}
	}
	return performBatch(s, r, ids, "reset", func(ctx context.Context, one *session) ([]any, error) {
		if err := drawn[one.id].err; err != nil {
			return nil, err
		}
		o, err := one.env.Reset(ctx, drawn[one.id].value)
		if err != nil {
			return nil, err
		}
		return s.encodeEntry(o, one.inform.ResetInfo())
	}, func(err error) any { return []any{Info{}, failure(err)} })
}

// stepBatch plays one turn of environments; actions has the response for each id.
func (s *Server) stepBatch(r *http.Request, actions map[string]any) (Info, error) {
	ids := slices.Sorted(maps.Keys(actions))
	return performBatch(s, r, ids, "step", func(ctx context.Context, one *session) ([]any, error) {
		text, ok := actions[one.id].(string)
		if !ok {
			return nil, fmt.Errorf("an action must be text, found %T", actions[one.id])
		}
		o, err := one.env.Step(ctx, text)
		if err != nil {
			return nil, err
		}
		var sum any = o.Reward.Sum()
		if len(o.Reward) == 0 && o.Turn["action_is_valid"] == 0 && o.Turn["action_is_effective"] == 0 {
			sum = 0 // an integer, as in the original
		}
		return s.encodeEntry(o.Observation, one.inform.StepInfo(o), sum, o.Done)
	}, func(err error) any { return []any{Info{}, 0.0, true, failure(err)} })
}

// rewardBatch returns the final rewards of environments.
func (s *Server) rewardBatch(r *http.Request, ids []string) (Info, error) {
	return performBatch(s, r, ids, "reward", func(_ context.Context, one *session) (float64, error) {
		if e, ok := env.Unwrap(one.env).(rewarder); ok {
			return e.FinalReward(), nil
		}
		return 0, nil
	}, func(error) any { return 0.0 })
}

// systemBatch returns the system prompts of environments, without images.
func (s *Server) systemBatch(r *http.Request, ids []string) (Info, error) {
	return performBatch(s, r, ids, "system_prompt", func(ctx context.Context, one *session) (string, error) {
		o, err := one.env.System(ctx)
		return o.Text, err
	}, func(error) any { return "" })
}

// closeBatch closes environments, also when the client has gone. Errors of closing are only logged.
func (s *Server) closeBatch(r *http.Request, ids []string) (status string, err error) {
	at, err := s.lookupLegacy(ids)
	if err != nil {
		return "", err
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	results, err := runBatch(s, r, ids, func(id string) (struct{}, error) {
		one := at[id]
		return perform(r.Context(), s, one, "close", func() {}, func(context.Context) (struct{}, error) {
			return struct{}{}, s.closeSession(s.legacy, one, "client")
		})
	})
	for i, res := range results {
		if res.err != nil && !errors.Is(res.err, errEnded) {
			s.log.Warn("environment did not close", "id", ids[i], "err", res.err)
		}
	}
	return "success", err
}

func failure(err error) Info { return Info{{"error", err.Error()}} }

// legacyReply replies with an object.
func (s *Server) legacyReply(in Info, err error) reply {
	if err != nil {
		return s.legacyError(err)
	}
	return object(http.StatusOK, in)
}

// batch handles a request with one parameter, which read converts. What f returns is the member result of the
// answer.
func batch[V, R any](
	name, result string, read func(data map[string]any, name string) (V, error),
	f func(*Server, *http.Request, V) (R, error),
) handler {
	return func(s *Server, r *http.Request, _ string, b body) reply {
		data, bad := readParameters(r, b, name)
		if bad != nil {
			return *bad
		}
		values, err := read(data, name)
		if err != nil {
			return s.legacyError(err)
		}
		out, err := f(s, r, values)
		return s.legacyReply(Info{{result, out}}, err)
	}
}

// idList reads a parameter that is a list of ids and removes duplicates.
func idList(data map[string]any, name string) ([]string, error) {
	values, ok := data[name].([]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a list, found %T", name, data[name])
	}
	ids := make([]string, 0, len(values))
	seen := make(map[string]bool, len(values))
	for i, v := range values {
		id, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s: entry %d must be text, found %T", name, i, v)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// entry handles a request about one environment: f gets the value of a parameter, which needed names if it must
// be there, and fields name the parts of the entry that it returns.
func entry(
	needed, name string, f func(*Server, *http.Request, map[string]any) (Info, error), fields ...string,
) handler {
	return func(s *Server, r *http.Request, id string, b body) reply {
		if _, err := s.lookupLegacy([]string{id}); err != nil {
			return s.legacyError(err)
		}
		data, bad := readParameters(r, b, needed)
		if bad != nil {
			return *bad
		}
		in, err := f(s, r, map[string]any{id: data[name]})
		if err != nil {
			return s.legacyError(err)
		}
		out := make(Info, len(fields))
		for i, part := range in[0].Value.([]any) {
			out[i] = Field{fields[i], part}
		}
		return object(http.StatusOK, out)
	}
}

// single handles a request about one environment without parameters. The entry that f returns is the only member
// of the answer.
func single(name string, f func(*Server, *http.Request, []string) (Info, error)) handler {
	return func(s *Server, r *http.Request, id string, _ body) reply {
		in, err := f(s, r, []string{id})
		if err != nil {
			return s.legacyError(err)
		}
		return object(http.StatusOK, Info{{name, in[0].Value}})
	}
}

func (s *Server) oneClose(r *http.Request, id string, _ body) reply {
	status, err := s.closeBatch(r, []string{id})
	return s.legacyReply(Info{{"status", status}}, err)
}
