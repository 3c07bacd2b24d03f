package env

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// SuccessRate plays the episodes of the seeds first, first+1, …, each until it is done or for the given number of
// turns, and returns the share that succeed, to compare a model with a scripted player. script writes the responses,
// such as with an environment's Script, with randomness that depends on the key and the seed alone. Responses with more
// actions than the environment allows in a turn are an error.
func SuccessRate(
	ctx context.Context, e Env, first int64, episodes, turns int, key uint64, script func(*rand.Rand) string,
) (float64, error) {
	if e == nil || script == nil {
		return 0, errors.New("env: success rate: the environment or the script is nil")
	}
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
			if n := len(out.Response.Actions); out.Response.Dropped > 0 {
				return 0, fmt.Errorf("env: success rate: turns of %d actions, at most %d are allowed",
					n+out.Response.Dropped, n)
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
