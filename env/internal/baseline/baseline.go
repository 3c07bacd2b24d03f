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

// CheckActions returns an error if an environment, which it names, does not play turns of so many actions.
func CheckActions(name string, actions, most int) error {
	if actions < 1 || actions > most {
		return fmt.Errorf("%s: success rate: turns of %d actions, must be 1 to max_actions_per_step, %d", name, actions, most)
	}
	return nil
}
