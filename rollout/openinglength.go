package rollout

import (
	"context"
	"errors"
	"fmt"

	"vagen/policy"
)

// OpeningLengths returns the number of tokens of each episode's opening: instructions and
// first observation, as the harness arranges them and the policy counts them. The
// policy must be a policy.Counter. It creates, resets and closes the
// environments, and plays no turn. It is an error if an environment or the harness fails. An
// episode of a Caller has 0, because its opening is not known.
func (p *Player) OpeningLengths(ctx context.Context, episodes []Episode) ([]int, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if _, counts := policy.As[policy.Counter](p.Policy); !counts {
		return nil, fmt.Errorf("rollout: openings: %w", ErrNoCounter)
	}
	lives, place := make([]*live, len(episodes)), map[*live]int{}
	for i, e := range episodes {
		lives[i] = &live{Trajectory: &Trajectory{Episode: e}, trial: true}
		place[lives[i]] = i
	}
	out, errs := make([]int, len(episodes)), make([]error, len(episodes))
	p.each(lives, func(l *live) { out[place[l]], errs[place[l]] = p.openingLength(ctx, l) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("rollout: the opening of %s, seed %d: %w", episodes[i].Env, episodes[i].Seed, err)
		}
	}
	return out, nil
}

// openingLength returns the number of tokens of an episode's opening.
func (p *Player) openingLength(ctx context.Context, l *live) (int, error) {
	if p.open(ctx, l); errors.Is(l.Err, errTrial) {
		return 0, nil
	} else if l.ended {
		return 0, l.Err
	}
	defer p.closeEnv(l.Env, l.env)
	s := p.state(l)
	a, err := callHarness(p.harness(), s)
	if err != nil {
		return 0, err
	}
	return s.Count(a)
}
