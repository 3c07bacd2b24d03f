package reward

import (
	"cmp"
	"maps"
	"slices"
)

// topStrings counts texts. Among equal counts, the text that was added first ranks
// first. The zero value is empty and ready to use.
type topStrings struct {
	seen map[string]*stringCount
	next int
}

type stringCount struct {
	count int
	order int // order in which the text was first added
}

// add counts a text n more times. Nothing happens for n ≤ 0.
func (t *topStrings) add(text string, n int) {
	if n <= 0 {
		return
	}
	if t.seen == nil {
		t.seen = make(map[string]*stringCount)
	}
	if t.seen[text] == nil {
		t.seen[text] = &stringCount{order: t.next}
		t.next++
	}
	t.seen[text].count += n
}

// trim removes all but the m most frequent texts.
func (t *topStrings) trim(m int) {
	if len(t.seen) <= max(0, m) {
		return
	}
	for _, text := range t.ranked()[max(0, m):] {
		delete(t.seen, text)
	}
}

// top returns the k most frequent texts, most frequent first; all of them when
// there are fewer.
func (t *topStrings) top(k int) []string {
	ranked := t.ranked()
	return ranked[:min(max(0, k), len(ranked))]
}

func (t *topStrings) ranked() []string {
	return slices.SortedFunc(maps.Keys(t.seen), func(a, b string) int {
		x, y := t.seen[a], t.seen[b]
		return cmp.Or(cmp.Compare(y.count, x.count), cmp.Compare(x.order, y.order))
	})
}
