package rollout

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// RolloutID returns the id of a rollout. It depends only on the environment, the
// seed, the number of the rollout and the number of the trajectory, which may be
// empty. VAGEN next uses the same ids.
func RolloutID(env, seed, rollout, trajectory string) string {
	h, err := blake2b.New(16, nil)
	if err != nil { // only for lengths that blake2b does not have
		panic(err)
	}
	h.Write([]byte(strings.Join([]string{env, seed, rollout, trajectory}, "\x1f")))
	return "vagen-" + hex.EncodeToString(h.Sum(nil))
}

// Candidate is what a Choice uses of an episode.
type Candidate struct {
	Source  string // groups episodes, for instance the environment
	Success bool
	Reward  float64 // NaN when it is not known, which ranks above every other
}

// Choice is a rule that selects episodes to log (trainer.val_log_select).
type Choice string

// The choices.
const (
	ChooseFirst     Choice = "first"
	ChooseSuccesses Choice = "successes"
	ChooseFailures  Choice = "failures"
	ChooseBest      Choice = "best"     // by reward, from the highest
	ChooseWorst     Choice = "worst"    // from the lowest
	ChooseBalanced  Choice = "balanced" // successes and failures of all sources
)

// Choose returns the positions of up to n episodes, in display order.
//
// ChooseBalanced selects n·ratio successes, halves rounded to even, and failures for
// the rest. It visits the sources in turn and selects one episode of each kind that
// is still missing; when no such episode is left it fills up with the remaining ones.
// Its result is sorted by source, successes before failures. The other rules keep the
// order of the episodes where they do not sort.
func (c Choice) Choose(episodes []Candidate, n int, ratio float64) ([]int, error) {
	if n < 0 || !(ratio >= 0 && ratio <= 1) {
		return nil, fmt.Errorf("rollout: choose: %d episodes with a share of successes of %v; the number must not be negative, the share must be in [0, 1]", n, ratio)
	}
	all := make([]int, len(episodes))
	for i := range all {
		all[i] = i
	}
	switch c {
	case ChooseFirst:
	case ChooseSuccesses, ChooseFailures:
		all = slices.DeleteFunc(all, func(i int) bool { return episodes[i].Success != (c == ChooseSuccesses) })
	case ChooseBest, ChooseWorst:
		slices.SortStableFunc(all, func(a, b int) int {
			if c == ChooseBest {
				a, b = b, a
			}
			return cmp.Compare(rankValue(episodes[a].Reward), rankValue(episodes[b].Reward))
		})
	case ChooseBalanced:
		all = balance(episodes, n, ratio)
	default:
		return nil, fmt.Errorf("rollout: choose: choice %q is not one of first, successes, failures, best, worst and balanced", c)
	}
	return all[:min(n, len(all))], nil
}

// rankValue returns the reward, or +Inf for an unknown one, so that it ranks highest.
func rankValue(reward float64) float64 {
	if math.IsNaN(reward) {
		return math.Inf(1)
	}
	return reward
}

// kind is a source and an outcome; balance selects from each kind separately.
type kind struct {
	source  string
	success bool
}

func (a kind) compare(b kind) int {
	if c := strings.Compare(a.source, b.source); c != 0 || a.success == b.success {
		return c
	}
	if a.success {
		return -1
	}
	return 1
}

// balance chooses n episodes, about n·ratio of them successes.
func balance(episodes []Candidate, n int, ratio float64) []int {
	left := map[kind][]int{}
	for i, e := range episodes {
		k := kind{e.Source, e.Success}
		left[k] = append(left[k], i)
	}
	kinds := slices.SortedFunc(maps.Keys(left), kind.compare)
	successes := int(math.RoundToEven(float64(n) * ratio))
	wanted := map[bool]int{true: successes, false: n - successes}
	var out []int
	for _, strict := range []bool{true, false} {
		for took := true; took && len(out) < n; {
			took = false
			for _, k := range kinds {
				if len(left[k]) == 0 || strict && wanted[k.success] <= 0 || len(out) == n {
					continue
				}
				out, left[k] = append(out, left[k][0]), left[k][1:]
				wanted[k.success]--
				took = true
			}
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		ka, kb := kind{episodes[a].Source, episodes[a].Success}, kind{episodes[b].Source, episodes[b].Success}
		return cmp.Or(ka.compare(kb), cmp.Compare(a, b))
	})
	return out
}
