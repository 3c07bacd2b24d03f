package rollout

import (
	"context"
	"fmt"
	"slices"
)

// Dealer plays episodes elsewhere: in other processes, or on other machines.
type Dealer interface {
	// Deal plays episodes as Player.Play does with these settings, and returns one trajectory
	// for each, in order. The trajectories are those that the player would have recorded
	// itself, if the policy gives equal responses in every process. An episode that cannot be
	// played has the End EndWorker.
	Deal(ctx context.Context, p *Player, episodes []Episode, seed uint64) ([]*Trajectory, Timing, error)
}

// deal plays episodes with the Dealer.
func (p *Player) deal(ctx context.Context, episodes []Episode, seed uint64) ([]*Trajectory, Timing, error) {
	ts, took, err := p.Dealer.Deal(ctx, p, episodes, seed)
	if err != nil {
		return nil, took, err
	}
	if len(ts) != len(episodes) {
		return nil, took, fmt.Errorf("rollout: Dealer: %d trajectories for %d episodes, the numbers must be equal", len(ts),
			len(episodes))
	}
	if i := slices.Index(ts, nil); i >= 0 {
		return nil, took, fmt.Errorf("rollout: Dealer: trajectory %d is nil", i)
	}
	p.warn(ts)
	return ts, took, nil
}
