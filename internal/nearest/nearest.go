// Package nearest finds the known name nearest to a misspelt one, for error messages.
package nearest

import "unicode/utf8"

// Name returns the entry of known with the smallest edit distance to name, the first of
// equals. It returns "" if none is close: if more than half of the longer name would have to
// change.
func Name(name string, known []string) string {
	best, bestDist := "", -1
	for _, k := range known {
		limit := max(utf8.RuneCountInString(name), utf8.RuneCountInString(k)) / 2
		if d := distance(name, k); d <= limit && (bestDist < 0 || d < bestDist) {
			best, bestDist = k, d
		}
	}
	return best
}

// Hint returns Name as the end of an error message: `, did you mean "size"?`, or "" if no
// name is close.
func Hint(name string, known []string) string {
	if n := Name(name, known); n != "" {
		return `, did you mean "` + n + `"?`
	}
	return ""
}

// distance is the Levenshtein distance in characters. Names are truncated to 64
// characters: longer ones are bad input, not misspellings.
func distance(a, b string) int {
	x, y := clip(a), clip(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, ca := range x {
		diag := row[0]
		row[0] = i + 1
		for j, cb := range y {
			cost := 1
			if ca == cb {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

func clip(s string) []rune {
	r := []rune(s)
	return r[:min(len(r), 64)]
}
