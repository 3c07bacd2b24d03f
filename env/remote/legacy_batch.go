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
	results, err := performBatch(s, r, ids, "reset", func(ctx context.Context, one *session) ([]any, error) {
		if err := drawn[one.id].err; err != nil {
			return nil, err
		}
		o, err := one.env.Reset(ctx, drawn[one.id].value)
		if err != nil {
			return nil, err
		}
		return s.encodeEntry(o, one.inform.ResetInfo())
	})
	return collect(s, ids, results, err, func(err error) any { return []any{Info{}, failure(err)} })
}

// stepBatch plays one turn of environments; actions has the response for each id.
func (s *Server) stepBatch(r *http.Request, actions map[string]any) (Info, error) {
	ids := slices.Sorted(maps.Keys(actions))
	results, err := performBatch(s, r, ids, "step", func(ctx context.Context, one *session) ([]any, error) {
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
	})
	return collect(s, ids, results, err, func(err error) any { return []any{Info{}, 0.0, true, failure(err)} })
}

// rewardBatch returns the final rewards of environments.
func (s *Server) rewardBatch(r *http.Request, ids []string) (Info, error) {
	results, err := performBatch(s, r, ids, "reward", func(_ context.Context, one *session) (float64, error) {
		if e, ok := env.Unwrap(one.env).(rewarder); ok {
			return e.FinalReward(), nil
		}
		return 0, nil
	})
	return collect(s, ids, results, err, func(error) any { return 0.0 })
}

// systemBatch returns the system prompts of environments, without images.
func (s *Server) systemBatch(r *http.Request, ids []string) (Info, error) {
	results, err := performBatch(s, r, ids, "system_prompt", func(ctx context.Context, one *session) (string, error) {
		o, err := one.env.System(ctx)
		return o.Text, err
	})
	return collect(s, ids, results, err, func(error) any { return "" })
}

// closeBatch closes environments, also when the client has gone. Errors of closing are only logged.
func (s *Server) closeBatch(r *http.Request, ids []string) error {
	at, err := s.lookupLegacy(ids)
	if err != nil {
		return err
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	results, err := runBatch(s, r, ids, func(id string) (struct{}, error) {
		one := at[id]
		return perform(r.Context(), s, s.legacy, one, "close", func() {}, func(context.Context) (struct{}, error) {
			return struct{}{}, s.closeSession(s.legacy, one, "client")
		})
	})
	for i, res := range results {
		if res.err != nil && !errors.Is(res.err, errEnded) {
			s.log.Warn("environment did not close", "id", ids[i], "err", res.err)
		}
	}
	return err
}

// collect returns the results of a batch by id; instead gives the entry of an
// environment that failed.
func collect[T any](s *Server, ids []string, results []result[T], err error, instead func(error) any) (Info, error) {
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

func failure(err error) Info { return Info{{"error", err.Error()}} }

// namedReply replies with an object that has in as its only member.
func (s *Server) namedReply(name string, in Info, err error) reply {
	if err != nil {
		return s.legacyError(err)
	}
	return object(http.StatusOK, Info{{name, in}})
}

func (s *Server) batchReset(r *http.Request, _ string, body []byte) reply {
	return handleBatch(s, r, body, "ids2seeds", "results", mapping, s.resetBatch)
}

func (s *Server) batchStep(r *http.Request, _ string, body []byte) reply {
	return handleBatch(s, r, body, "ids2actions", "results", mapping, s.stepBatch)
}

func (s *Server) batchReward(r *http.Request, _ string, body []byte) reply {
	return handleBatch(s, r, body, "env_ids", "rewards", idList, s.rewardBatch)
}

func (s *Server) batchSystem(r *http.Request, _ string, body []byte) reply {
	return handleBatch(s, r, body, "env_ids", "system_prompts", idList, s.systemBatch)
}

func (s *Server) batchClose(r *http.Request, _ string, body []byte) reply {
	data, bad := readParameters(r, body, "env_ids")
	if bad != nil {
		return *bad
	}
	ids, err := idList(data, "env_ids")
	if err == nil {
		err = s.closeBatch(r, ids)
	}
	return s.successReply(err)
}

func (s *Server) successReply(err error) reply {
	if err != nil {
		return s.legacyError(err)
	}
	return object(http.StatusOK, Info{{"status", "success"}})
}

// handleBatch handles a batch request with one parameter, which read converts.
func handleBatch[V any](
	s *Server, r *http.Request, body []byte, name, result string,
	read func(data map[string]any, name string) (V, error), f func(*http.Request, V) (Info, error),
) reply {
	data, bad := readParameters(r, body, name)
	if bad != nil {
		return *bad
	}
	values, err := read(data, name)
	if err != nil {
		return s.legacyError(err)
	}
	in, err := f(r, values)
	return s.namedReply(result, in, err)
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

func (s *Server) oneReset(r *http.Request, id string, body []byte) reply {
	return s.one(r, id, body, "", "seed", s.resetBatch, "observation", "info")
}

func (s *Server) oneStep(r *http.Request, id string, body []byte) reply {
	return s.one(r, id, body, "action", "action", s.stepBatch, "observation", "reward", "done", "info")
}

// one handles a request about one environment: f gets the value of a parameter, which needed names if it must
// be there, and fields name the parts of the entry that it returns.
func (s *Server) one(
	r *http.Request, id string, body []byte, needed, name string,
	f func(*http.Request, map[string]any) (Info, error), fields ...string,
) reply {
	if _, err := s.lookupLegacy([]string{id}); err != nil {
		return s.legacyError(err)
	}
	data, bad := readParameters(r, body, needed)
	if bad != nil {
		return *bad
	}
	in, err := f(r, map[string]any{id: data[name]})
	if err != nil {
		return s.legacyError(err)
	}
	out := make(Info, len(fields))
	for i, part := range in[0].Value.([]any) {
		out[i] = Field{fields[i], part}
	}
	return object(http.StatusOK, out)
}

func (s *Server) oneReward(r *http.Request, id string, _ []byte) reply {
	in, err := s.rewardBatch(r, []string{id})
	return s.entryReply("reward", in, err)
}

func (s *Server) oneSystem(r *http.Request, id string, _ []byte) reply {
	in, err := s.systemBatch(r, []string{id})
	return s.entryReply("system_prompt", in, err)
}

// entryReply replies with an object that has the first entry of in as its only member.
func (s *Server) entryReply(name string, in Info, err error) reply {
	if err != nil {
		return s.legacyError(err)
	}
	return object(http.StatusOK, Info{{name, in[0].Value}})
}

func (s *Server) oneClose(r *http.Request, id string, _ []byte) reply {
	return s.successReply(s.closeBatch(r, []string{id}))
}
