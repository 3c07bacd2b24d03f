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

// optionPay is the option that says what a true statement pays.
const optionPay = "statement_pay"

// statements are the reward parts for true statements. The environment's metrics have the
// share of right words of each under the same name with "_score".
var statements = []string{"observation", "prediction"}

// fair is the share of right words that pays nothing. Statements that are worse cost, and those
// that are missing as much as those without a right word, so that neither a long episode nor a
// malformed response is worth more for its statements.
const fair = 0.75

// toldLake is FrozenLake whose agent says in every turn what it sees and what its move will
// lead to. The statements are always compared with the truth. They pay
// pay·(share of right words − fair) each, nothing if pay is 0.
type toldLake struct {
	*frozenlake.Env
	pay float64
}

// newToldLake is the environment's factory. Its options are statement_pay and those of
// FrozenLake, in which observation_reward and prediction_reward have to be 1.
func newToldLake(config map[string]any) (env.Env, error) {
	rest := maps.Clone(config)
	t := &toldLake{}
	if v, ok := rest[optionPay]; ok {
		if t.pay, ok = v.(float64); !ok {
			return nil, fmt.Errorf("option %q: %w: %v is not a number", optionPay, env.ErrOption, v)
		}
		delete(rest, optionPay)
	}
	e, err := frozenlake.FromConfig(rest)
	if err != nil {
		return nil, err
	}
	lake, ok := e.(*frozenlake.Env)
	if !ok {
		return nil, fmt.Errorf("%w: FrozenLake made a %T", env.ErrOption, e)
	}
	if o := lake.Options(); o.ObservationReward != 1 || o.PredictionReward != 1 {
		return nil, fmt.Errorf("options observation_reward %v and prediction_reward %v: %w: both must be 1, %s is their factor", o.ObservationReward, o.PredictionReward, env.ErrOption, optionPay)
	}
	t.Env = lake
	return t, nil
}

// Step implements env.Env.
func (t *toldLake) Step(ctx context.Context, response string) (env.Outcome, error) {
	out, err := t.Env.Step(ctx, response)
	if err != nil {
		return out, err
	}
	out.Reward = slices.DeleteFunc(out.Reward, func(p reward.Part) bool { return slices.Contains(statements, p.Name) })
	if t.pay != 0 {
		for _, name := range statements {
			out.Reward.Add(name, t.pay*(out.Turn[name+"_score"]-fair)) // 0 without a statement
		}
	}
	return out, nil
}
