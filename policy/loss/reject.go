package loss

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/nearest"
)

// Rejection removes tokens or whole rows from the mask whose divergence is out of bounds.
// With ln ρ the trainer's minus the rollout's log-prob, clamped to ±20, a token's
// divergence is
//
//	k1  −ln ρ              kept within [ln Lower, ln Upper]
//	k2  (ln ρ)²/2          kept up to Upper
//	k3  ρ − 1 − ln ρ       kept up to Upper
//
// Note the sign: for k1 the bounds are on rollout over trainer probability, as
// in verl. Over is what the bounds apply to.
type Rejection struct {
	Over         Over    // what the bounds apply to
	Divergence   int     // 1, 2 or 3 for k1, k2, k3
	Lower, Upper float64 // Lower is read for k1 alone; both > 0
}

// Over is the unit of a Rejection.
type Over string

// The units: single tokens, or rows by the sum, mean or largest of their tokens'
// divergence. SeqMax of k1 requires every token of the row to be within the bounds.
const (
	Token   Over = "token"
	SeqSum  Over = "seq_sum"
	SeqMean Over = "seq_mean"
	SeqMax  Over = "seq_max"
)

var overs = []Over{Token, SeqSum, SeqMean, SeqMax}

func rejectionNames() []string {
	var names []string
	for _, o := range overs {
		for k := 1; k <= 3; k++ {
			names = append(names, fmt.Sprintf("%s_k%d", o, k))
		}
	}
	return names
}

// String returns the name that ParseRejections reads.
func (r Rejection) String() string { return fmt.Sprintf("%s_k%d", r.Over, r.Divergence) }

// ParseRejections reads verl's notation: names separated by commas, such as
// "token_k1,seq_mean_k3", and either one threshold for all or one for each,
// such as "0.5_2.0,0.01". A threshold of k1 is lower_upper; a single number u means 1/u
// and u. Repeated names count once.
func ParseRejections(names, thresholds string) ([]Rejection, error) {
	wanted := fields(names)
	limits := fields(thresholds)
	if len(wanted) == 0 {
		return nil, setting("rejection: no names in %q", names)
	}
	if len(limits) != 1 && len(limits) != len(wanted) {
		return nil, setting("rejection: %d thresholds for %d names, want 1 or %d", len(limits), len(wanted), len(wanted))
	}
	var out []Rejection
	for i, name := range wanted {
		limit := limits[0]
		if len(limits) > 1 {
			limit = limits[i]
		}
		r, err := parseRejection(name, limit)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Rejection) bool { return o.String() == name }) {
			out = append(out, r)
		}
	}
	return out, nil
}

func fields(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func parseRejection(name, limit string) (Rejection, error) {
	known := rejectionNames()
	at := slices.Index(known, name)
	if at < 0 {
		return Rejection{}, fmt.Errorf("loss: rejection %q: %w%s (known: %s)", name, ErrUnknown,
			nearest.Hint(name, known), strings.Join(known, ", "))
	}
	r := Rejection{Over: overs[at/3], Divergence: at%3 + 1}
	lower, upper, both := strings.Cut(limit, "_")
	if !both {
		upper = lower
	}
	var err error
	if r.Upper, err = parseNumber(upper); err != nil {
		return r, setting("rejection %s: threshold %q: want a number", name, limit)
	}
	switch {
	case r.Divergence != 1 && both:
		return r, setting("rejection %s: threshold %q: want one number", name, limit)
	case r.Divergence == 1 && both:
		if r.Lower, err = parseNumber(lower); err != nil {
			return r, setting("rejection %s: threshold %q: want lower_upper", name, limit)
		}
	case r.Divergence == 1:
		r.Lower = 1 / r.Upper
	}
	return r, r.check()
}

func (r Rejection) check() error {
	if !slices.Contains(overs, r.Over) {
		return fmt.Errorf("loss: rejection over %q: %w (known: token, seq_sum, seq_mean, seq_max)", string(r.Over),
			ErrUnknown)
	}
	if r.Divergence < 1 || r.Divergence > 3 {
		return setting("rejection: Divergence = %d, want 1, 2 or 3", r.Divergence)
	}
	if !(r.Upper > 0) || math.IsInf(r.Upper, 0) {
		return setting("rejection %v: Upper = %v, want more than 0", r, r.Upper)
	}
	if r.Divergence == 1 && !(r.Lower > 0 && r.Lower <= r.Upper) {
		return setting("rejection %v: Lower = %v, want more than 0, at most Upper = %v", r, r.Lower, r.Upper)
	}
	return nil
}

// ParseBounds reads verl's notation for the bounds of importance weights: an
// upper one, such as "2", or "lower_upper", such as "0.5_5", for
// [Correction.Lower] and [Correction.Threshold]. lower is 0 without one.
func ParseBounds(s string) (lower, upper float64, err error) {
	low, high, both := strings.Cut(strings.TrimSpace(s), "_")
	if !both {
		low, high = "", low
	}
	if upper, err = parseNumber(high); err != nil {
		return 0, 0, setting("bounds %q: want a number or lower_upper", s)
	}
	if both {
		if lower, err = parseNumber(low); err != nil || !(lower > 0 && lower <= upper) {
			return 0, 0, setting("bounds %q: want lower_upper, with lower above 0 and at most upper", s)
		}
	}
	return lower, upper, nil
}

// parseNumber parses a number. It rejects underscores, which Go allows between digits but
// which separate two numbers here.
func parseNumber(s string) (float64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

// divergence returns the divergence of one token.
func (r Rejection) divergence(logRatio float64) float64 {
	c := clampedRatio(logRatio)
	switch r.Divergence {
	case 1:
		return -c
	case 2:
		return c * c / 2
	}
	return math.Expm1(c) - c
}

// allows reports whether a divergence is within the bounds.
func (r Rejection) allows(v float64) bool {
	if r.Divergence == 1 {
		return v >= math.Log(r.Lower) && v <= math.Log(r.Upper)
	}
	return v <= r.Upper
}

// allowsRow reports whether a row passes. logRatio and mask are the row's.
func (r Rejection) allowsRow(logRatio []float64, mask []bool) bool {
	var sum float64
	n := 0
	for i, m := range mask {
		if !m {
			continue
		}
		v := r.divergence(logRatio[i])
		if r.Over == SeqMax && !r.allows(v) {
			return false
		}
		sum += v
		n++
	}
	switch {
	case r.Over == SeqMax:
		return true
	case r.Over == SeqMean:
		sum /= float64(n)
	}
	return r.allows(sum)
}

// reject sets Mask and its metrics. Every rejection is applied to the input mask, so their
// order does not matter.
func (d *Corrected) reject(rules []Rejection, offsets []int, mask []bool) {
	d.Mask = append(d.Mask[:0], mask...)
	tokens, rows := 0, 0
	for row := range len(offsets) - 1 {
		lo, hi := offsets[row], offsets[row+1]
		for _, r := range rules {
			if r.Over != Token {
				if !r.allowsRow(d.logRatio[lo:hi], mask[lo:hi]) {
					clear(d.Mask[lo:hi])
				}
				continue
			}
			for i := lo; i < hi; i++ {
				if mask[i] && !r.allows(r.divergence(d.logRatio[i])) {
					d.Mask[i] = false
				}
			}
		}
		if lost := countTrue(mask[lo:hi]) - countTrue(d.Mask[lo:hi]); lost > 0 {
			tokens += lost
			rows++
		}
	}
	if d.Metrics.Tokens > 0 {
		d.Metrics.Rejected = float64(tokens) / float64(d.Metrics.Tokens)
		d.Metrics.RejectedRows = float64(rows) / float64(d.Metrics.Rows)
	}
}
