// Package baseline measures the success rates of scripted players.
package baseline

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
)

// SuccessRate plays the episodes of the seeds first, first+1, …, each until it is
// done or for the given number of turns, and returns the share that succeed. script
// writes the responses with randomness that depends only on the key and the seed.
func SuccessRate(
	e env.Env, first int64, episodes, turns int, key uint64, script func(*rand.Rand) string,
) (float64, error) {
	ctx := context.Background()
	wins := 0
	for i := range int64(episodes) {
		if _, err := e.Reset(ctx, first+i); err != nil {
			return 0, err
		}
		r := rand.New(rand.NewPCG(key, uint64(first+i)))
		for range turns {
			out, err := e.Step(ctx, script(r))
			if err != nil {
				return 0, err
			}
			if out.Success {
				wins++
			}
			if out.Done {
				break
			}
		}
	}
	return float64(wins) / float64(max(1, episodes)), nil
}

// Rate is SuccessRate of a player of an environment that was just made, or the error of making it. A turn has the
// given number of actions, of which the environment allows most.
func Rate[P any](
	name string, e interface {
		env.Env
		Script(*rand.Rand, P, int) string
	}, err error, player P, first int64, episodes, turns, actions, most int, key uint64,
) (float64, error) {
	switch {
	case err != nil:
		return 0, err
	case actions < 1 || actions > most:
		return 0, fmt.Errorf("%s: success rate: turns of %d actions, must be 1 to max_actions_per_step, %d", name, actions,
			most)
	}
	return SuccessRate(e, first, episodes, turns, key, func(r *rand.Rand) string { return e.Script(r, player, actions) })
}
