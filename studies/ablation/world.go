package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/reward"
)

// worldName is the environment's name in the registry.
const worldName = "told_lake"

// optionPaid is the option that decides whether true statements are paid for.
const optionPaid = "paid"

// statements are the reward parts for true statements. The environment's metrics have the
// share of right words of each under the same name with "_score".
var statements = []string{"observation", "prediction"}

// toldLake is FrozenLake whose agent says in every turn what it sees and what its move will
// lead to. The statements are always compared with the truth, but paid for only with the
// option paid.
type toldLake struct {
	*frozenlake.Env
	paid bool
}

// newToldLake is the environment's factory. Its options are paid and those of FrozenLake.
func newToldLake(config map[string]any) (env.Env, error) {
	rest := maps.Clone(config)
	t := &toldLake{}
	if v, ok := rest[optionPaid]; ok {
		if t.paid, ok = v.(bool); !ok {
			return nil, fmt.Errorf("option %q: %w: %v is neither true nor false", optionPaid, env.ErrOption, v)
		}
		delete(rest, optionPaid)
	}
	e, err := frozenlake.FromConfig(rest)
	if err != nil {
		return nil, err
	}
	lake, ok := e.(*frozenlake.Env)
	if !ok {
		return nil, fmt.Errorf("%w: FrozenLake made a %T", env.ErrOption, e)
	}
	t.Env = lake
	return t, nil
}

// Step implements env.Env.
func (t *toldLake) Step(ctx context.Context, response string) (env.Outcome, error) {
	out, err := t.Env.Step(ctx, response)
	if err == nil && !t.paid {
		out.Reward = slices.DeleteFunc(out.Reward, func(p reward.Part) bool { return slices.Contains(statements, p.Name) })
	}
	return out, err
}
