package mask

import "fmt"

// PlaceTurnRewards appends one reward per token: the k-th reward on the last token of
// the k-th turn, and final, the reward of the whole episode, added at the last turn's
// end. A count other than Turns is an ErrTurns, a number that is not finite as a float32
// an ErrNotFinite. Without turns final must be 0.
func (s *Sequence) PlaceTurnRewards(dst []float32, rewards []float64, final float64) ([]float32, error) {
	if len(rewards) != s.turns || s.turns == 0 && final != 0 {
		return dst, fmt.Errorf("mask: turn rewards: %d rewards, final %v, %d turns: %w", len(rewards), final, s.turns,
			ErrTurns)
	}
	for k, r := range rewards {
		if !storable(r) {
			return dst, fmt.Errorf("mask: turn rewards: turn %d: %v: %w", k, r, ErrNotFinite)
		}
	}
	if s.turns > 0 && !storable(rewards[s.turns-1]+final) || !storable(final) {
		return dst, fmt.Errorf("mask: turn rewards: final: %v: %w", final, ErrNotFinite)
	}
	n := len(dst)
	dst = append(dst, make([]float32, s.Len())...)
	for p := range s.Pieces {
		if p.Turn < 0 {
			continue
		}
		r := rewards[p.Turn]
		if p.Turn == s.turns-1 {
			r += final
		}
		dst[n+p.End-1] = float32(r)
	}
	return dst, nil
}

// storable reports whether a number is finite as a float32.
func storable(x float64) bool {
	y := float32(x)
	return y-y == 0
}
