package net

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// layout packs rows of the given lengths, with every token wanted, and returns
// bins and length of each pack.
func layout(t *testing.T, cfg *model.Config, budget int, lengths ...int) (sizes [][2]int, packs []*Pack) {
	t.Helper()
	rows := policy.Rows{Offsets: []int{0}}
	for _, n := range lengths {
		rows.Tokens = append(rows.Tokens, make([]int32, n)...)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	k := &Packer{Cfg: cfg, Budget: budget}
	packs, err := k.Packs(&rows, slices.Repeat([]bool{true}, len(rows.Tokens)))
	require.NoError(t, err)
	for _, p := range packs {
		require.Len(t, p.tokens, p.bins*p.Length)
		require.LessOrEqual(t, p.Size(), max(budget, p.Length))
		sizes = append(sizes, [2]int{p.bins, p.Length})
	}
	return sizes, packs
}

func repeated(n, times int) []int {
	out := make([]int, times)
	for i := range out {
		out[i] = n
	}
	return out
}

func smallText() *model.Config {
	return &model.Config{ImageToken: -1, Text: model.Text{Vocab: 8, Hidden: 96, FF: 288, Layers: 3, Heads: 3, KVHeads: 1,
		HeadDim: 32}}
}

func largeText() *model.Config {
	return &model.Config{ImageToken: -1, Text: model.Text{Vocab: 8, Hidden: 576, FF: 1536, Layers: 30, Heads: 9,
		KVHeads: 3, HeadDim: 64}}
}

func TestBatchesThatFitOnePackAreNotPaddedToIt(t *testing.T) {
	for _, cfg := range []*model.Config{smallText(), largeText()} {
		sizes, packs := layout(t, cfg, 4096, repeated(256, 4)...)
		require.Equal(t, [][2]int{{4, 256}}, sizes)
		require.Len(t, packs[0].Chunks(4096)[0].At, 1024, "4·255 tokens")
		require.Len(t, packs[0].Chunks(512), 2)
		for n := 1; n <= 16; n++ {
			sizes, packs := layout(t, cfg, 4096, repeated(256, n)...)
			require.Len(t, sizes, 1)
			require.LessOrEqual(t, 2*sizes[0][0], 3*n, "at most half of it is padding: %d rows", n)
			require.GreaterOrEqual(t, sizes[0][0], n)
			require.LessOrEqual(t, len(packs[0].Chunks(8192)[0].At), max(32, 2*255*n))
		}
	}
}

// A run whose batches differ in size compiles few executables.
func TestPacksComeInFewSizes(t *testing.T) {
	seen := map[[2]int]bool{}
	for n := range 200 {
		sizes, _ := layout(t, largeText(), 4096, repeated(100, n+1)...)
		for _, s := range sizes {
			seen[s] = true
		}
	}
	require.LessOrEqual(t, len(seen), 11, "sizes of %d tokens and less: %v", 4096, seen)
}

func TestLastPacksAreSmallerWhereThatIsWorthCompiling(t *testing.T) {
	sizes, packs := layout(t, smallText(), 4096, repeated(256, 18)...)
	require.Equal(t, [][2]int{{16, 256}, {16, 256}}, sizes, "3 layers of width 96")
	require.Len(t, packs[1].Chunks(512)[0].At, 512)
	sizes, packs = layout(t, largeText(), 4096, repeated(256, 18)...)
	require.Equal(t, [][2]int{{16, 256}, {2, 256}}, sizes, "30 layers of width 576")
	require.Len(t, packs[1].Chunks(1024)[0].At, 1024, "chunks are of one size in batches of several packs")
}

// TestGroupsShareTheirPromptsOverParts: one group has a row for each part, several have a bin each.
func TestGroupsShareTheirPromptsOverParts(t *testing.T) {
	for groups, want := range map[int]int{1: 8 * 448, 2: 2 * 896, 4: 4 * 896} {
		rows, wanted := policy.Rows{Offsets: []int{0}}, []bool(nil)
		for i := range 8 * groups {
			rows.Tokens = append(rows.Tokens, slices.Repeat([]int32{int32(i / 8)}, 448)...)
			wanted = append(wanted, slices.Concat(make([]bool, 392), slices.Repeat([]bool{true}, 56))...)
			rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		}
		k := &Packer{Cfg: largeText(), Budget: 1024, Share: true, LeafCount: 8}
		leaves, err := k.Leaves(&rows, wanted)
		require.NoError(t, err)
		size := 0
		for _, p := range Flat(leaves) {
			size += p.Size()
		}
		require.Equal(t, want, size, "%d groups", groups)
	}
}

// TestABinHasAsManyRowsAsSegments: beyond them a token would attend to other rows.
func TestABinHasAsManyRowsAsSegments(t *testing.T) {
	b := &batch{rows: &policy.Rows{Offsets: []int{0, 2}}}
	s := &binSet{length: 4 * maxRows}
	require.Empty(t, b.put(s, make([]int, maxRows+1), true))
	require.Len(t, s.bins, 2)
	const last = 2*maxRows - 1
	bits := withPrefix(last, last-1)
	require.Equal(t, []int32{last, last}, []int32{bits & (1<<16 - 1), bits >> 16})
}
