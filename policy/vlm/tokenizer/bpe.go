package tokenizer

import "fmt"

// bpe merges bytes into tokens. It applies the merge of lowest rank, leftmost first,
// until none applies (Sennrich et al. 2016, arXiv:1508.07909).
type bpe struct {
	vocab        map[string]int32 // by bytes
	bytes        [256]int32       // token of each single byte, -1 if there is none
	merges       map[uint64]merge
	ignoreMerges bool // a piece that is a token is not split
}

type merge struct{ rank, id int32 }

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

const (
	noRank = int32(1<<31 - 1)
	// heapFrom is the length from which a heap is faster than scanning for the lowest rank.
	heapFrom = 48
)

// append encodes one piece.
func (m *bpe) append(dst []int32, piece string) ([]int32, error) {
	if m.ignoreMerges {
		if id, ok := m.vocab[piece]; ok {
			return append(dst, id), nil
		}
	}
	start := len(dst)
	for i := range len(piece) {
		id := m.bytes[piece[i]]
		if id < 0 {
			return nil, fmt.Errorf("%w: the vocabulary has no token for byte %#02x", ErrText, piece[i])
		}
		dst = append(dst, id)
	}
	var n int
	if ids := dst[start:]; len(ids) < heapFrom {
		n = m.mergeScan(ids)
	} else {
		n = m.mergeHeap(ids)
	}
	return dst[:start+n], nil
}

func (m *bpe) rank(a, b int32) merge {
	if found, ok := m.merges[pair(a, b)]; ok {
		return found
	}
	return merge{rank: noRank}
}

// mergeScan merges ids in place and returns the remaining number. Its time is
// proportional to the length times the number of merges.
func (m *bpe) mergeScan(ids []int32) int {
	var next [heapFrom]merge // next[i] would join ids[i] and ids[i+1]
	n := len(ids)
	for i := range n - 1 {
		next[i] = m.rank(ids[i], ids[i+1])
	}
	for {
		best := -1
		low := noRank
		for i := range n - 1 {
			if next[i].rank < low {
				low, best = next[i].rank, i
			}
		}
		if best < 0 {
			return n
		}
		ids[best] = next[best].id
		copy(ids[best+1:], ids[best+2:n])
		copy(next[best:], next[best+1:n-1])
		n--
		if best > 0 {
			next[best-1] = m.rank(ids[best-1], ids[best])
		}
		if best < n-1 {
			next[best] = m.rank(ids[best], ids[best+1])
		}
	}
}

// mergeHeap is mergeScan in time n·log n: tokens form a linked list, candidate
// merges a heap whose outdated entries are skipped.
func (m *bpe) mergeHeap(ids []int32) int {
	n := len(ids)
	links := make([]link, n)
	queue := make(candidates, 0, n)
	push := func(left int32) {
		right := links[left].next
		if right < 0 {
			return
		}
		if found, ok := m.merges[pair(ids[left], ids[right])]; ok {
			queue.push(candidate{found, left, ids[left], ids[right]})
		}
	}
	for i := range links {
		links[i] = link{int32(i) - 1, int32(i) + 1}
	}
	links[n-1].next = -1
	for i := range n {
		push(int32(i))
	}
	for len(queue) > 0 {
		c := queue.pop()
		right := links[c.at].next
		if ids[c.at] != c.left || right < 0 || ids[right] != c.right {
			continue
		}
		ids[c.at], ids[right] = c.id, -1
		after := links[right].next
		links[c.at].next = after
		if after >= 0 {
			links[after].prev = c.at
		}
		if before := links[c.at].prev; before >= 0 {
			push(before)
		}
		push(c.at)
	}
	out := 0
	for _, id := range ids {
		if id >= 0 {
			ids[out] = id
			out++
		}
	}
	return out
}

type link struct{ prev, next int32 }

// candidate is a merge of the token at a position with the next one. It is valid
// while both are unchanged.
type candidate struct {
	merge
	at, left, right int32
}

func (c candidate) before(o candidate) bool {
	return c.rank < o.rank || c.rank == o.rank && c.at < o.at
}

// candidates is a binary heap, lowest rank and then leftmost first.
type candidates []candidate

func (h *candidates) push(c candidate) {
	*h = append(*h, c)
	list := *h
	for i := len(list) - 1; i > 0; {
		up := (i - 1) / 2
		if !list[i].before(list[up]) {
			return
		}
		list[i], list[up] = list[up], list[i]
		i = up
	}
}

func (h *candidates) pop() candidate {
	list := *h
	top, n := list[0], len(list)-1
	list[0] = list[n]
	list = list[:n]
	*h = list
	for i := 0; ; {
		low := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < n && list[k].before(list[low]) {
				low = k
			}
		}
		if low == i {
			return top
		}
		list[i], list[low] = list[low], list[i]
		i = low
	}
}
