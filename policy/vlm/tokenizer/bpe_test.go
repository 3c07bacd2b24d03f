package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// randomBPE has merges over a small alphabet, so that they compete.
func randomBPE(rng *rand.Rand) *bpe {
	m := &bpe{vocab: map[string]int32{}, merges: map[uint64]merge{}}
	for v := range m.bytes {
		m.bytes[v] = int32(v)
		m.vocab[string([]byte{byte(v)})] = int32(v)
	}
	texts := []string{"a", "b", "c"}
	for rank := range int32(40) {
		l, r := texts[rng.IntN(len(texts))], texts[rng.IntN(len(texts))]
		if _, ok := m.vocab[l+r]; ok {
			continue
		}
		id := int32(len(m.vocab))
		m.vocab[l+r] = id
		m.merges[pair(m.vocab[l], m.vocab[r])] = merge{rank, id}
		texts = append(texts, l+r)
	}
	return m
}

// naive is the definition: the lowest rank first, the leftmost of those first.
func (m *bpe) naive(ids []int32) []int32 {
	ids = slices.Clone(ids)
	for {
		best, low := -1, noRank
		for i := range len(ids) - 1 {
			if r := m.rank(ids[i], ids[i+1]).rank; r < low {
				best, low = i, r
			}
		}
		if best < 0 {
			return ids
		}
		ids[best] = m.rank(ids[best], ids[best+1]).id
		ids = slices.Delete(ids, best+1, best+2)
	}
}

func TestBothMergeAlgorithmsFollowTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := randomBPE(rng)
		ids := make([]int32, 1+rng.IntN(heapFrom-1))
		for i := range ids {
			ids[i] = 'a' + int32(rng.IntN(3))
		}
		want := m.naive(ids)
		scan, heap := slices.Clone(ids), slices.Clone(ids)
		require.Equal(t, want, scan[:m.mergeScan(scan)])
		require.Equal(t, want, heap[:m.mergeHeap(heap)])
	}
}

func TestLongPieceTakesTheHeap(t *testing.T) {
	m := randomBPE(rand.New(rand.NewPCG(3, 4)))
	text := strings.Repeat("abcacbba", 50)
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = int32(text[i])
	}
	got, err := m.append([]int32{7}, text)
	require.NoError(t, err)
	require.Equal(t, append([]int32{7}, m.naive(ids)...), got)
}

func TestWholeTokenComesBeforeMergesWhereAsked(t *testing.T) {
	m := randomBPE(rand.New(rand.NewPCG(5, 6)))
	m.vocab["zz"] = 9999 // no merge leads to it
	got, err := m.append(nil, "zz")
	require.NoError(t, err)
	require.Equal(t, []int32{'z', 'z'}, got)
	m.ignoreMerges = true
	got, err = m.append(nil, "zz")
	require.NoError(t, err)
	require.Equal(t, []int32{9999}, got)
}

// Of two entries with the same bytes only the one in the alphabet of bytes can be a piece of text.
func TestEntriesOutsideTheAlphabetDoNotHideTokens(t *testing.T) {
	for range 20 { // in the orders of a map
		m, err := newBPE(modelSpec{IgnoreMerges: true, Vocab: map[string]int32{"Ġa": 7, " a": 3, " b": 4}})
		require.NoError(t, err)
		got, err := m.append(nil, " a")
		require.NoError(t, err)
		require.Equal(t, []int32{7}, got)
		require.Equal(t, int32(4), m.vocab[" b"])
	}
}

func TestByteWithoutTokenIsAnError(t *testing.T) {
	m := randomBPE(rand.New(rand.NewPCG(5, 6)))
	m.bytes['q'] = -1
	_, err := m.append(nil, "aq")
	testkit.Error(t, err, ErrText, "0x71")
}

func TestCacheIsBoundedAndOwnsItsMemory(t *testing.T) {
	var c cache
	key := []byte("piece-0000000")
	for i := range 5 * generation {
		for j := len(key) - 1; i > 0; j-- {
			key[j] = '0' + byte(i%10)
			i /= 10
		}
		c.put(string(key), []int32{1})
	}
	require.LessOrEqual(t, len(c.young)+len(c.old), 2*generation)
	ids := []int32{1, 2}
	c.put("a", ids)
	ids[0] = 9
	got, ok := c.get("a")
	require.True(t, ok)
	require.Equal(t, []int32{1, 2}, got)
	c.young, c.old = nil, c.young
	_, ok = c.get("a")
	require.True(t, ok, "the older half is still used")
	require.Contains(t, c.young, "a", "and what is used moves on")
}
