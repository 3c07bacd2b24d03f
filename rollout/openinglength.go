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
// environments, and plays no turn. An episode whose environment or harness fails has
// −1; Play reports the reason. One of a Caller has 0, because it is not known.
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
	out := make([]int, len(episodes))
	p.each(lives, func(l *live) { out[place[l]] = p.openingLength(ctx, l) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// openingLength returns the number of tokens of an episode's opening, or −1.
func (p *Player) openingLength(ctx context.Context, l *live) int {
	if p.open(ctx, l); errors.Is(l.Err, errTrial) {
		return 0
	} else if l.ended {
		return -1
	}
	defer p.closeEnv(l.Env, l.env)
	s := p.state(l)
	a, err := callHarness(p.harness(), s)
	if err != nil {
		return -1
	}
	n, err := s.Count(a)
	if err != nil {
		return -1
	}
	return n
}
