package loss

import (
	"fmt"
	"math"
)

// TurnGSPO treats a turn as one action, with the geometric mean of its token ratios. Let
// turn k of a row have n counted tokens:
//
//	ln s = Σ (new − old) / n over the turn, at most 10
//	ℓ    = max(−A·s, −A·clip(s, 1−Low, 1+High)) / n at each of its tokens
//
// The gradient flows per token, as in [GSPO]. Aggregation is always
// seq-mean-token-sum: a turn counts once, the turns of a row add up, rows are
// averaged. Entropy and KL terms keep their own aggregation, so next to a row
// of K turns their coefficients have 1/K of the weight that they have next to GSPO.
//
// With one turn per row this is GSPO; with one token per turn it is the clipped
// surrogate of PPO. Source: VAGEN, 2026; ratio after arXiv:2507.18071.
//
// Needs Batch.Turn. Turns of a row are distinguished by their id.
type TurnGSPO struct {
	Low, High float64 // how far s may move below and above 1; Low in [0, 1], High ≥ 0
}

// Terms implements [Policy].
func (p TurnGSPO) Terms(t *Terms, b *Batch[float64]) error {
	return turnTerms(t, b, "turn_gspo", p.Low, p.High, true)
}

// TurnPPO treats a turn as one action with its plain ratio:
//
//	ln R = Σ (new − old) over the turn, at most 10
//	ℓ    = max(−A·R, −A·clip(R, 1−Low, 1+High)) at each of its tokens
//
// The gradient is that of the surrogate summed over turns; the reported loss
// counts a turn once per token, so divide it by Metrics.TurnLength to compare
// it with [TurnGSPO]. The spread of ln R grows with the square root of the
// turn's length: expect to need a wider range than for single tokens, and watch
// Metrics.TurnLogRatioStd. Aggregation is always seq-mean-token-sum.
//
// Source: VAGEN, 2026. Needs Batch.Turn.
type TurnPPO struct {
	Low, High float64 // how far R may move below and above 1; Low in [0, 1], High ≥ 0
}

// Terms implements [Policy].
func (p TurnPPO) Terms(t *Terms, b *Batch[float64]) error {
	return turnTerms(t, b, "turn_ppo", p.Low, p.High, false)
}

func turnTerms(t *Terms, b *Batch[float64], name string, low, high float64, mean bool) error {
	if err := ready(t, b, checkClip(name, low, high)); err != nil {
		return err
	}
	if err := CheckTurns(b.Offsets, b.Mask, b.Turn); err != nil {
		return err
	}
	t.Mode = SeqMeanTokenSum
	stats := turnStats{}
	for r := range b.Rows() {
		lo, end := b.Offsets[r], b.Offsets[r+1]
		for lo < end {
			hi := turnEnd(b, lo, end)
			sum, n := t.sumLogRatio(b.Mask, lo, hi)
			if n > 0 {
				joint, scale := sum, 1.0
				if mean {
					joint, scale = sum/float64(n), 1/float64(n)
				}
				t.jointAction(b, lo, hi, joint, low, high, scale)
				stats.add(joint, n)
			}
			lo = hi
		}
	}
	t.own = stats.metrics(b.Rows())
	return nil
}

// turnEnd returns the end of the turn of the first counted token at or after lo. Tokens
// that do not count belong to any turn.
func turnEnd(b *Batch[float64], lo, end int) int {
	id, open := int32(0), false
	for i := lo; i < end; i++ {
		if !b.Mask[i] {
			continue
		}
		if open && b.Turn[i] != id {
			return i
		}
		id, open = b.Turn[i], true
	}
	return end
}

// CheckTurns checks the turn ids of counted tokens: they start at 0 or above and
// do not decrease inside a row. Ids of other tokens are not read. Errors wrap
// ErrMissing, ErrLength and ErrTurn.
func CheckTurns(offsets []int, mask []bool, turn []int32) error {
	if err := checkLayout(offsets, mask, len(mask)); err != nil {
		return err
	}
	if turn == nil && len(mask) > 0 {
		return fmt.Errorf("loss: turn: %w (only estimators that return turn ids provide it)", ErrMissing)
	}
	if len(turn) != len(mask) {
		return fmt.Errorf("loss: turn has %d entries for %d tokens: %w", len(turn), len(mask), ErrLength)
	}
	for r := range len(offsets) - 1 {
		last := int32(0)
		for i := offsets[r]; i < offsets[r+1]; i++ {
			if !mask[i] {
				continue
			}
			if turn[i] < last {
				return fmt.Errorf("loss: turn: row %d, position %d: id %d, want %d or more (ids start at 0 and do not decrease): %w",
					r, i-offsets[r], turn[i], last, ErrTurn)
			}
			last = turn[i]
		}
	}
	return nil
}

// turnStats collects moments of the turn log-ratio, each turn weighted by its
// tokens, with Welford's update.
type turnStats struct {
	turns, tokens    int
	length, mean, m2 float64
}

func (s *turnStats) add(logRatio float64, n int) {
	s.turns++
	s.tokens += n
	s.length += float64(n) * float64(n)
	w, delta := float64(n), logRatio-s.mean
	s.mean += delta * w / float64(s.tokens)
	s.m2 += w * delta * (logRatio - s.mean)
}

func (s *turnStats) metrics(rows int) Metrics {
	if s.tokens == 0 {
		return Metrics{}
	}
	return Metrics{
		TurnsPerRow:     float64(s.turns) / float64(rows),
		TurnLength:      s.length / float64(s.tokens),
		TurnLogRatioStd: math.Sqrt(max(s.m2, 0) / float64(s.tokens)), // rounding can make m2 negative
	}
}
