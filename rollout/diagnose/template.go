package diagnose

import (
	"fmt"
	"math"
	"strings"
)

// TemplateCollapse returns a metric of how much responses depend on the start state,
// based on their text alone. Each text is represented by the counts of its n-grams of
// words, as a vector v of length 1 (a text of fewer than n words is one n-gram; an empty
// one is skipped). With cosine similarity v·w it writes
//
//	template/distinct_n   different n-grams / n-grams
//	template/repeated     n-grams that also occur for another start state / n-grams
//	template/across       mean similarity of texts of different start states
//	template/within       mean similarity of texts of one start state
//	template/index        across / within
//
// The index is near 0 while responses depend on the input, and approaches 1 as they
// become one template: then a text resembles those of other start states as much as its
// own group's. Unlike an estimate of mutual information from counts, it has no bias with
// few samples. It needs two groups, one of them with two texts that share an n-gram;
// values that cannot be computed are not written. Its cost is linear in the number of
// words.
//
// n must be at least 1, otherwise the metric is an ErrSetting. Compare runs only at the
// same n and group size. distinct-n: Li et al.,
// arXiv:1510.03055; the notion of template collapse: RAGEN-2, arXiv:2604.06268.
func TemplateCollapse(n int) Metric {
	return func(dst map[string]float64, b *Batch) error {
		if n < 1 {
			return fmt.Errorf("diagnose: n-grams of %d words, want 1 or more: %w", n, ErrSetting)
		}
		if err := b.check(); err != nil {
			return err
		}
		if b.Text == nil || b.Group == nil {
			return nil
		}
		c := newCorpus(b.Text, b.Group, n)
		if c.total == 0 {
			return nil
		}
		dst["template/distinct_n"] = float64(len(c.groupOf)) / float64(c.total)
		dst["template/repeated"] = c.repeated()
		within, across := c.similarity()
		if !math.IsNaN(across) {
			dst["template/across"] = across
		}
		if !math.IsNaN(within) {
			dst["template/within"] = within
			if within > 0 && !math.IsNaN(across) {
				dst["template/index"] = across / within
			}
		}
		return nil
	}
}

// corpus is a set of texts as counts of n-grams. Both are numbered by first
// appearance, so that sums over them have a fixed order.
type corpus struct {
	docs    []doc
	groups  int
	groupOf []int // per n-gram: the group it occurs in, −1 for several
	total   int   // n-grams in all texts
}

// doc is one text: its different n-grams with their counts.
type doc struct {
	group int
	grams []int
	count []float64
}

func newCorpus(texts, groups []string, n int) *corpus {
	c := &corpus{}
	ids := map[uint64]int{}
	groupIDs := map[string]int{}
	for i, text := range texts {
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		g, ok := groupIDs[groups[i]]
		if !ok {
			g = len(groupIDs)
			groupIDs[groups[i]] = g
		}
		c.add(ids, words, min(n, len(words)), g)
	}
	c.groups = len(groupIDs)
	return c
}

func (c *corpus) add(ids map[uint64]int, words []string, n, group int) {
	d := doc{group: group}
	at := map[int]int{} // position of an n-gram in d
	for i := 0; i+n <= len(words); i++ {
		key := hashWords(words[i : i+n])
		id, ok := ids[key]
		if !ok {
			id = len(ids)
			ids[key] = id
			c.groupOf = append(c.groupOf, group)
		}
		if c.groupOf[id] != group {
			c.groupOf[id] = -1
		}
		k, ok := at[id]
		if !ok {
			k = len(d.grams)
			at[id] = k
			d.grams, d.count = append(d.grams, id), append(d.count, 0)
		}
		d.count[k]++
		c.total++
	}
	c.docs = append(c.docs, d)
}

// hashWords is the 64-bit FNV-1a hash of the words with a zero byte after each.
func hashWords(words []string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, w := range words {
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * prime
		}
		h *= prime
	}
	return h
}

// repeated is the share of n-grams that occur in more than one group.
func (c *corpus) repeated() float64 {
	var sum float64
	for _, d := range c.docs {
		for k, id := range d.grams {
			if c.groupOf[id] < 0 {
				sum += d.count[k]
			}
		}
	}
	return sum / float64(c.total)
}

// similarity returns the mean cosine similarity of pairs inside groups and of pairs
// across groups, NaN if there is no pair. Since all vectors have length 1, the sum over
// the pairs of a set is (‖Σ v‖² − n)/2.
func (c *corpus) similarity() (within, across float64) {
	all := make([]float64, len(c.groupOf))
	byGroup := make([][]int, c.groups)
	for i, d := range c.docs {
		byGroup[d.group] = append(byGroup[d.group], i)
	}
	var inside, insidePairs float64
	acc := make([]float64, len(c.groupOf))
	for _, members := range byGroup {
		for _, i := range members {
			c.docs[i].addTo(acc)
			c.docs[i].addTo(all)
		}
		n := float64(len(members))
		inside += (c.squareAndReset(acc, members) - n) / 2
		insidePairs += n * (n - 1) / 2
	}
	var norm float64
	for _, v := range all {
		norm += v * v
	}
	n := float64(len(c.docs))
	pairs := n * (n - 1) / 2
	return mean(inside, insidePairs), mean((norm-n)/2-inside, pairs-insidePairs)
}

// addTo adds the text's vector, scaled to length 1.
func (d *doc) addTo(acc []float64) {
	var square float64
	for _, c := range d.count {
		square += c * c
	}
	scale := 1 / math.Sqrt(square)
	for k, id := range d.grams {
		acc[id] += d.count[k] * scale
	}
}

// squareAndReset returns the squared length of acc, whose entries are those of the members, and
// resets it to zero.
func (c *corpus) squareAndReset(acc []float64, members []int) (square float64) {
	for _, i := range members {
		for _, id := range c.docs[i].grams {
			square += acc[id] * acc[id]
			acc[id] = 0
		}
	}
	return square
}

// mean of similarities, clamped to [0, 1] against rounding errors.
func mean(sum, n float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return max(0, min(1, sum/n))
}
