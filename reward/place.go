package reward

import (
	"errors"
	"fmt"

	"vagen/internal/floats"
	"vagen/mask"
)

// Placement defines on which tokens of a row the rewards of its turns are placed.
type Placement string

// The placements.
const (
	// PerTurn puts each turn's reward on the last token of the turn, and the
	// final reward on that of the last turn (use_multi_turn_reward).
	PerTurn Placement = "turn"
	// AtLast puts the sum of everything on the last token that the model wrote.
	AtLast Placement = "last"
	// PerSpan is PerTurn, except that a part for a section of the response is placed
	// on the last token of that section.
	PerSpan Placement = "span"
)

// Place appends the rewards of a row, one per token: those of its turns and final,
// the reward of the episode as a whole. Sums are computed in float64 in the order of
// the turns. All other tokens get 0.
//
// Positions are those of the row. PerSpan puts a part on the last token of the span
// of its name that was added last to the turn, or on the turn's end if there is none.
// PerTurn and PerSpan need as many rewards as the row has turns, else the error wraps
// mask.ErrTurns; in a row without turns only a reward of 0 is allowed. Numbers must be
// finite. After an error dst is returned unchanged.
func Place(dst []float32, row *mask.Sequence, how Placement, turns []Parts, final float64) ([]float32, error) {
	if row == nil {
		return dst, errors.New("reward: place: the row is nil")
	}
	for k, parts := range turns {
		for _, part := range parts {
			if !floats.Finite(part.Value) {
				return dst, fmt.Errorf("reward: place: turn %d: part %q is %v, it must be finite", k, part.Name, part.Value)
			}
		}
	}
	sums := make([]float64, len(turns))
	var ends map[spanKey]int
	switch how {
	case AtLast:
		for _, parts := range turns {
			final += parts.Sum()
		}
		sums = make([]float64, row.Turns())
	case PerTurn:
		for k, parts := range turns {
			sums[k] = parts.Sum()
		}
	case PerSpan:
		ends = spanEnds(row)
		for k, parts := range turns {
			sums[k] = withoutSpans(parts, k, ends).Sum()
		}
	default:
		return dst, fmt.Errorf("reward: place: placement %q is not one of %s, %s, %s", how, PerTurn, AtLast, PerSpan)
	}
	start := len(dst)
	out, err := row.PlaceTurnRewards(dst, sums, final)
	if err != nil {
		return dst, fmt.Errorf("reward: place: %w", err)
	}
	if ends != nil {
		if err := addSpans(out[start:], turns, ends); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// spanKey is a span's name within a turn.
type spanKey struct {
	turn int
	name string
}

// spanEnds finds the last token of each turn's spans.
func spanEnds(row *mask.Sequence) map[spanKey]int {
	ends := map[spanKey]int{}
	for s := range row.Spans {
		ends[spanKey{s.Turn, s.Name}] = s.End - 1
	}
	return ends
}

// withoutSpans returns the parts for which there is no span.
func withoutSpans(parts Parts, turn int, ends map[spanKey]int) Parts {
	var rest Parts
	for _, part := range parts {
		if _, ok := ends[spanKey{turn, part.Name}]; !ok {
			rest = append(rest, part)
		}
	}
	return rest
}

// addSpans adds the parts with a span to the span's last token.
func addSpans(row []float32, turns []Parts, ends map[spanKey]int) error {
	for k, parts := range turns {
		for _, part := range parts {
			if at, ok := ends[spanKey{k, part.Name}]; ok {
				row[at] = float32(float64(row[at]) + part.Value)
				if !floats.Finite(row[at]) {
					return fmt.Errorf("reward: place: turn %d: part %q of %v is too large for a token's reward", k, part.Name,
						part.Value)
				}
			}
		}
	}
	return nil
}
