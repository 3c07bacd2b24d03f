package prose

import "vagen/reward/judge/internal/words"

// extreme is the number of the top row and of the leftmost column where only a place such as
// "the top left corner" is known; the middle and the other end follow. It is above all
// numbers that a text states.
const extreme = 1 << 22

// corner notes the place on the board that a corner is, where a preposition and no reference to
// something else stand beside it: "in the bottom right corner". next is the token after it.
func (r *reader) corner(v, h uint8, i, next, end int) {
	if c := r.before(i); c != words.Placing || v == 0 || h == 0 || r.negated || len(r.subject) != 1 {
		return
	}
	if next < end && r.tokens[next].Class == words.Linking && r.tokens[next].A == 0 {
		if k := r.skip(next+1, end); k < end && r.tokens[k].Class != words.Foreign {
			return // the corner of another thing
		}
	}
	r.locate(words.RowAxis, extremeOf(v))
	r.locate(words.ColumnAxis, extremeOf(h))
}

func extremeOf(d uint8) int {
	if d == words.Before {
		return extreme
	}
	return extreme + 2
}
