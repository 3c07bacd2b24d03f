package reward

import (
	"fmt"
	"math"
	"slices"

	"vagen/internal/nearest"
)

// Placement says on which tokens of a row the rewards of its turns sit.
type Placement string

// The placements.
const (
	// PerTurn puts each turn's reward on the last token of the turn, and the
	// final reward on that of the last turn (use_multi_turn_reward).
	PerTurn Placement = "turn"
	// AtLast puts the sum of everything on the last token of the row.
	AtLast Placement = "last"
	// PerSpan is PerTurn, except that a part that is about a section of the
	// response sits on the last token of that section.
	PerSpan Placement = "span"
)

// ParsePlacement returns the placement of a name.
func ParsePlacement(name string) (Placement, error) {
	known := []string{string(PerTurn), string(AtLast), string(PerSpan)}
	if !slices.Contains(known, name) {
		return "", fmt.Errorf("reward: placement %q is not one of %v%s", name, known, nearest.Hint(name, known))
	}
	return Placement(name), nil
}

// Turn is the reward of one turn and where its tokens are in the row.
type Turn struct {
	Reward Parts
	End    int            // last token of the response
	Spans  map[string]int // last token of each section that has rewards of its own
}

// Place writes the rewards of a row, one per token, into dst: those of the turns
// and final, the reward of the episode as a whole. Sums are made in float64 in
// the order of the turns. All other tokens get 0.
//
// Positions must lie in the row and turns must end one after another; numbers
// must be finite; a row without tokens, or without turns for PerTurn and
// PerSpan, has room for no reward but 0. Errors leave dst undefined.
func Place(dst []float32, how Placement, turns []Turn, final float64) error {
	if err := checkTurns(len(dst), turns, final); err != nil {
		return err
	}
	clear(dst)
	switch how {
	case AtLast:
		total := 0.0
		for _, t := range turns {
			total += t.Reward.Sum()
		}
		total += final
		if len(dst) > 0 {
			dst[len(dst)-1] = float32(total)
		} else if total != 0 {
			return fmt.Errorf("reward: place: the row has no token for a reward of %v", total)
		}
	case PerTurn, PerSpan:
		if len(turns) == 0 && final != 0 {
			return fmt.Errorf("reward: place: the row has no turn for the final reward of %v", final)
		}
		for k, t := range turns {
			rest := t.Reward
			if how == PerSpan {
				rest = placeSpans(dst, t)
			}
			sum := rest.Sum()
			if k == len(turns)-1 {
				sum += final
			}
			dst[t.End] = float32(float64(dst[t.End]) + sum)
		}
	default:
		return fmt.Errorf("reward: place: placement %q is not one of %s, %s, %s", how, PerTurn, AtLast, PerSpan)
	}
	return nil
}

// placeSpans puts the parts with a span of their own there and returns the rest.
func placeSpans(dst []float32, t Turn) Parts {
	var rest Parts
	for _, part := range t.Reward {
		if at, ok := t.Spans[part.Name]; ok {
			dst[at] = float32(float64(dst[at]) + part.Value)
			continue
		}
		rest = append(rest, part)
	}
	return rest
}

func checkTurns(tokens int, turns []Turn, final float64) error {
	if !finite(final) {
		return fmt.Errorf("reward: place: the final reward is %v, it must be finite", final)
	}
	before := -1
	for k, t := range turns {
		if t.End <= before || t.End >= tokens {
			return fmt.Errorf("reward: place: turn %d ends at token %d; it must be after token %d and below %d", k, t.End, before, tokens)
		}
		for _, part := range t.Reward {
			if !finite(part.Value) {
				return fmt.Errorf("reward: place: turn %d: part %q is %v, it must be finite", k, part.Name, part.Value)
			}
		}
		for name, at := range t.Spans {
			if at <= before || at > t.End {
				return fmt.Errorf("reward: place: turn %d: span %q ends at token %d, outside the turn's %d..%d", k, name, at, before+1, t.End)
			}
		}
		before = t.End
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
