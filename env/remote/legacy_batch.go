package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// The handlers of batches and those of single environments share their work:
// each of the former answers a dictionary by id, each of the latter one entry.

// resets resets environments; the seed of each is as the request has it.
func (s *Server) resets(r *http.Request, seeds map[string]any) (Info, error) {
	ids := slices.Sorted(maps.Keys(seeds))
	drawn := make(map[string]result[int64], len(ids)) // in order, so that seeds of null don't depend on who is first
	for _, id := range ids {
		seed, err := s.seed(seeds[id])
		drawn[id] = result[int64]{seed, err}
	}
	results, err := each(s, r, ids, "reset", func(ctx context.Context, one *session) ([]any, error) {
		if err := drawn[one.id].err; err != nil {
			return nil, err
		}
		o, err := one.env.Reset(ctx, drawn[one.id].value)
		if err != nil {
			return nil, err
		}
		return s.entry(o, one.inform.ResetInfo())
	})
	return collect(s, ids, results, err, func(err error) any { return []any{Info{}, failure(err)} })
}

// steps plays one turn of environments.
func (s *Server) steps(r *http.Request, actions map[string]any) (Info, error) {
	ids := slices.Sorted(maps.Keys(actions))
	results, err := each(s, r, ids, "step", func(ctx context.Context, one *session) ([]any, error) {
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
			sum = 0 // the original starts to count in integers
		}
		return s.entry(o.Observation, one.inform.StepInfo(o), sum, o.Done)
	})
	return collect(s, ids, results, err, func(err error) any { return []any{Info{}, 0.0, true, failure(err)} })
}

// rewards asks environments what they pay in the end.
func (s *Server) rewards(r *http.Request, ids []string) (Info, error) {
	results, err := each(s, r, ids, "reward", func(_ context.Context, one *session) (float64, error) {
		if e, ok := unwrapped(one.env).(Rewarder); ok {
			return e.FinalReward(), nil
		}
		return 0, nil
	})
	return collect(s, ids, results, err, func(error) any { return 0.0 })
}

// prompts asks environments for their system prompts, which are text alone in
// this protocol.
func (s *Server) prompts(r *http.Request, ids []string) (Info, error) {
	results, err := each(s, r, ids, "system_prompt", func(ctx context.Context, one *session) (string, error) {
		o, err := one.env.System(ctx)
		return o.Text, err
	})
	return collect(s, ids, results, err, func(error) any { return "" })
}

// closes closes environments. That one fails to close is not the client's
// concern.
func (s *Server) closes(r *http.Request, ids []string) error {
	list, err := s.members(ids)
	if err != nil {
		return err
	}
	at := make(map[string]*session, len(list))
	for _, one := range list {
		at[one.id] = one
	}
	results, err := batch(s, r, ids, func(id string) (struct{}, error) {
		one := at[id]
		return perform(r.Context(), s, s.legacy, one, "close", func() {}, func(context.Context) (struct{}, error) {
			return struct{}{}, s.retire(s.legacy, one, "client")
		})
	})
	for i, res := range results {
		if res.err != nil && !errors.Is(res.err, errEnded) {
			s.log.Warn("environment did not close", "id", ids[i], "err", res.err)
		}
	}
	return err
}

// collect puts the results of a batch under their ids. What an environment could
// not do is told in its own entry.
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

// answered replies with a dictionary under a name.
func (s *Server) answered(name string, in Info, err error) reply {
	if err != nil {
		return s.broken(err)
	}
	return object(http.StatusOK, Info{{name, in}})
}

func (s *Server) batchReset(r *http.Request, _ string, body []byte) reply {
	return s.dictionary(r, body, "ids2seeds", "results", s.resets)
}

func (s *Server) batchStep(r *http.Request, _ string, body []byte) reply {
	return s.dictionary(r, body, "ids2actions", "results", s.steps)
}

func (s *Server) batchReward(r *http.Request, _ string, body []byte) reply {
	return s.listed(r, body, "rewards", s.rewards)
}

func (s *Server) batchSystem(r *http.Request, _ string, body []byte) reply {
	return s.listed(r, body, "system_prompts", s.prompts)
}

func (s *Server) batchClose(r *http.Request, _ string, body []byte) reply {
	data, bad := parameters(r, body, "env_ids")
	if bad != nil {
		return *bad
	}
	ids, err := names(data["env_ids"])
	if err == nil {
		err = s.closes(r, ids)
	}
	return s.done(err)
}

func (s *Server) done(err error) reply {
	if err != nil {
		return s.broken(err)
	}
	return object(http.StatusOK, Info{{"status", "success"}})
}

// dictionary answers a batch whose parameter has a value for each id.
func (s *Server) dictionary(r *http.Request, body []byte, name, result string, f func(*http.Request, map[string]any) (Info, error)) reply {
	data, bad := parameters(r, body, name)
	if bad != nil {
		return *bad
	}
	values, err := mapping(data, name)
	if err != nil {
		return s.broken(err)
	}
	in, err := f(r, values)
	return s.answered(result, in, err)
}

// listed answers a batch whose parameter is a list of ids.
func (s *Server) listed(r *http.Request, body []byte, result string, f func(*http.Request, []string) (Info, error)) reply {
	data, bad := parameters(r, body, "env_ids")
	if bad != nil {
		return *bad
	}
	ids, err := names(data["env_ids"])
	if err != nil {
		return s.broken(err)
	}
	in, err := f(r, ids)
	return s.answered(result, in, err)
}

// names reads a list of ids; one that occurs twice counts once.
func names(v any) ([]string, error) {
	values, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("env_ids must be a list, found %T", v)
	}
	ids := make([]string, 0, len(values))
	seen := make(map[string]bool, len(values))
	for i, v := range values {
		id, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("env_ids: entry %d must be text, found %T", i, v)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (s *Server) oneReset(r *http.Request, id string, body []byte) reply {
	if _, err := s.members([]string{id}); err != nil {
		return s.broken(err)
	}
	data, bad := parameters(r, body, "")
	if bad != nil {
		return *bad
	}
	in, err := s.resets(r, map[string]any{id: data["seed"]})
	if err != nil {
		return s.broken(err)
	}
	entry := in[0].Value.([]any)
	return object(http.StatusOK, Info{{"observation", entry[0]}, {"info", entry[1]}})
}

func (s *Server) oneStep(r *http.Request, id string, body []byte) reply {
	if _, err := s.members([]string{id}); err != nil {
		return s.broken(err)
	}
	data, bad := parameters(r, body, "action")
	if bad != nil {
		return *bad
	}
	in, err := s.steps(r, map[string]any{id: data["action"]})
	if err != nil {
		return s.broken(err)
	}
	entry := in[0].Value.([]any)
	return object(http.StatusOK, Info{{"observation", entry[0]}, {"reward", entry[1]}, {"done", entry[2]}, {"info", entry[3]}})
}

func (s *Server) oneReward(r *http.Request, id string, _ []byte) reply {
	in, err := s.rewards(r, []string{id})
	if err != nil {
		return s.broken(err)
	}
	return object(http.StatusOK, Info{{"reward", in[0].Value}})
}

func (s *Server) oneSystem(r *http.Request, id string, _ []byte) reply {
	in, err := s.prompts(r, []string{id})
	if err != nil {
		return s.broken(err)
	}
	return object(http.StatusOK, Info{{"system_prompt", in[0].Value}})
}

func (s *Server) oneClose(r *http.Request, id string, _ []byte) reply {
	return s.done(s.closes(r, []string{id}))
}
