package diagnose

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
)

func TestTemplatesAreToldFromAnswers(t *testing.T) {
	groups := []string{"cat", "cat", "dog", "dog", "eel", "eel"}
	answers := &Batch{Group: groups, Text: []string{
		"the cat sits on the mat", "I see the cat sits there", "a dog runs in circles",
		"my dog runs in circles fast", "one eel swims down deep", "that eel swims down now",
	}}
	template := &Batch{Group: groups, Text: []string{
		"let me think step by step", "I should look and then move", "let me think step by step",
		"I should look and then move", "let me think step by step", "I should look and then move",
	}}
	healthy, collapsed := measured(t, TemplateCollapse(3), answers), measured(t, TemplateCollapse(3), template)
	require.Zero(t, healthy["template/index"])
	require.Zero(t, healthy["template/repeated"])
	// Two templates: texts of one group differ, half of the pairs across groups agree.
	same(t, collapsed, map[string]float64{
		"template/distinct_n": 8.0 / 24, "template/repeated": 1, "template/within": 0, "template/across": 0.5,
	})
	for i := range template.Text {
		template.Text[i] = template.Text[0]
	}
	same(t, measured(t, TemplateCollapse(3), template), map[string]float64{
		"template/distinct_n": 4.0 / 24, "template/repeated": 1, "template/within": 1, "template/across": 1,
		"template/index": 1,
	})
}

// The sums over pairs have a closed form; here the pairs are enumerated.
func TestSimilarityIsTheMeanOverPairs(t *testing.T) {
	r := rng.New(3, rng.Script)
	b := &Batch{}
	for range 17 {
		var words []string
		for range r.IntN(12) {
			words = append(words, fmt.Sprint(r.IntN(4)))
		}
		b.Group = append(b.Group, fmt.Sprint("g", r.IntN(4)))
		b.Text = append(b.Text, strings.Join(words, " "))
	}
	var sum, n [2]float64
	for i := range b.Text {
		for j := range i {
			v, ok := cosine(b.Text[i], b.Text[j], 2)
			if !ok {
				continue
			}
			k := 0
			if b.Group[i] == b.Group[j] {
				k = 1
			}
			sum[k] += v
			n[k]++
		}
	}
	got := measured(t, TemplateCollapse(2), b)
	for name, want := range map[string]float64{
		"template/across": sum[0] / n[0], "template/within": sum[1] / n[1], "template/index": sum[0] / n[0] / (sum[1] / n[1]),
	} {
		require.InDelta(t, want, got[name], 1e-12, name)
		require.NotZero(t, want, name)
	}
}

func cosine(a, b string, n int) (float64, bool) {
	count := func(s string) map[string]float64 {
		w, out := strings.Fields(s), map[string]float64{}
		for i := 0; i+min(n, len(w)) <= len(w) && len(w) > 0; i++ {
			out[strings.Join(w[i:i+min(n, len(w))], " ")]++
		}
		return out
	}
	x, y := count(a), count(b)
	var xy, xx, yy float64
	for g, v := range x {
		xy += v * y[g]
		xx += v * v
	}
	for _, v := range y {
		yy += v * v
	}
	return xy / math.Sqrt(xx*yy), len(x) > 0 && len(y) > 0
}

func TestWhatCannotBeMeasuredIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		texts, groups []string
		want          []string
	}{
		"nothing said":  {[]string{"", " "}, []string{"a", "b"}, nil},
		"one text":      {[]string{"hello", ""}, []string{"a", "b"}, []string{"distinct_n", "repeated"}},
		"one group":     {[]string{"hello", "hello"}, []string{"a", "a"}, []string{"distinct_n", "repeated", "within"}},
		"groups of one": {[]string{"hello", "hello"}, []string{"a", "b"}, []string{"across", "distinct_n", "repeated"}},
	} {
		got := measured(t, TemplateCollapse(4), &Batch{Text: c.texts, Group: c.groups})
		require.Len(t, got, len(c.want), name)
		for _, key := range c.want {
			require.Contains(t, got, "template/"+key, name)
		}
	}
}

func TestNGramsOfNoWordsAreRefused(t *testing.T) {
	for _, n := range []int{0, -1} {
		err := TemplateCollapse(n)(map[string]float64{}, &Batch{Text: []string{"two words"}, Group: []string{"a"}})
		require.ErrorIs(t, err, ErrSetting, "n-grams of %d words", n)
	}
}

func TestWordsAreComparedNotLetters(t *testing.T) {
	b := &Batch{Group: []string{"a", "b"}, Text: []string{"ab c", "a bc"}}
	got := measured(t, TemplateCollapse(2), b)
	require.Equal(t, []float64{0, 1}, []float64{got["template/repeated"], got["template/distinct_n"]})
}
