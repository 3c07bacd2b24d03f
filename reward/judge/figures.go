package judge

import (
	"math"
	"regexp"
	"strconv"

	"vagen/reward"
)

// States without directions, such as positions of cubes or the value of a hand, are
// compared by the numbers in them.

var (
	numberPattern = regexp.MustCompile(`-?\d+(?:\.\d+)?`)
	// figurePattern matches a list of numbers in brackets, or a number elsewhere.
	figurePattern = regexp.MustCompile(`[(\[]\s*-?\d+(?:\.\d+)?(?:\s*,\s*-?\d+(?:\.\d+)?)+\s*[)\]]|-?\d+(?:\.\d+)?`)
)

// maxNumbers limits how many numbers are read from one text.
const maxNumbers = 256

// numbers returns the lists of numbers in brackets and the single numbers
// elsewhere.
func numbers(text string) (all [][]float64) {
	for _, figure := range figurePattern.FindAllString(text, maxNumbers) {
		var list []float64
		for _, word := range numberPattern.FindAllString(figure, maxNumbers) {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				v = math.Inf(1) // out of range: differs from every number of a state
			}
			list = append(list, v)
		}
		all = append(all, list)
	}
	return all
}

// compareNumbers is the F1 of the numbers of a text and a state. Single numbers must
// be equal; numbers in lists may differ by one unit, because states are rounded.
func compareNumbers(text, state string) float64 {
	said, truth := numbers(text), numbers(state)
	taken := make([]bool, len(truth))
	matches := 0
	for _, s := range said {
		for i, t := range truth {
			if !taken[i] && near(s, t) {
				taken[i] = true
				matches++
				break
			}
		}
	}
	return reward.F1(float64(matches), len(said), len(truth))
}

func near(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if slack := float64(min(len(a)-1, 1)); !(math.Abs(a[i]-b[i]) <= slack) {
			return false
		}
	}
	return true
}
