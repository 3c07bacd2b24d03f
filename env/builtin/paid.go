package builtin

import (
	"fmt"
	"slices"
	"sync"

	"vagen/env"
	"vagen/reward/judge"
)

// paid makes environments whose options have a block state_reward. Those with
// equal blocks share a judge.
type paid struct {
	dial judge.Dial

	mu     sync.Mutex
	judges map[judge.StateReward]env.Judge // by block; see judge
	order  []judge.StateReward             // of judges, oldest first
}

// maxJudges is how many judges are kept for further environments. Environments keep
// the one that they were made with.
const maxJudges = 64

// factory returns the factory of a kind that also accepts a block state_reward. Options
// of services are passed on unchanged: the service that makes the environment pays.
func (p *paid) factory(k Kind) env.Factory {
	if k.Defaults == nil {
		return k.Make
	}
	return func(config map[string]any) (env.Env, error) {
		block, rest, err := judge.TakeStateReward(config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", env.ErrOption, err)
		}
		if !block.Enabled() {
			return k.Make(rest)
		}
		if !k.Claims {
			return nil, fmt.Errorf("%w: %s: this environment has no state that responses could describe", env.ErrOption,
				judge.Key)
		}
		if err := block.Supports(k.Name); err != nil {
			return nil, fmt.Errorf("%w: %w", env.ErrOption, err)
		}
		if rest, err = block.Apply(rest); err != nil {
			return nil, fmt.Errorf("%w: %w", env.ErrOption, err)
		}
		if _, given := rest["rules"]; !given && slices.Contains(k.Rules, "next") {
			rest["rules"] = "next" // the system that has such blocks
		}
		j, err := p.judge(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", judge.Key, err)
		}
		e, err := k.Make(rest)
		if err != nil {
			return nil, err
		}
		return env.Judged{Env: e, Judge: j}, nil
	}
}

func (p *paid) judge(block *judge.StateReward) (env.Judge, error) {
	key := judge.StateReward{Base: block.Base, Scorer: block.Scorer, Scoring: block.Scoring, Guard: block.Guard,
		Phrases: block.Phrases}
	if block.Scorer == judge.ByModel {
		key.JudgeURL, key.JudgeModel, key.Service = block.JudgeURL, block.JudgeModel, block.Service
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.judges[key]; j != nil {
		return j, nil
	}
	j, err := block.Judge(p.dial)
	if err != nil {
		return nil, err
	}
	if len(p.order) == maxJudges {
		delete(p.judges, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
	p.judges[key], p.order = j, append(p.order, key)
	return j, nil
}
