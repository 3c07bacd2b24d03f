package tree_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/tree"
)

// exchange sums leaves as devices do, and returns the owner's sum.
func exchange(t *testing.T, leaves []float32, n, owner int) float32 {
	sums := make([]float32, n)
	add := func(a, b float32) (float32, error) { return a + b, nil }
	for d := range n {
		from, to := tree.Span(d, n, tree.Leaves)
		var err error
		sums[d], err = tree.Sum(from, to, func(i int) (float32, error) { return leaves[i], nil }, add)
		require.NoError(t, err)
	}
	for _, distance := range tree.Rounds(n) {
		before := append([]float32(nil), sums...)
		for d := range n {
			if tree.Receives(d, owner, distance) {
				sums[d] = before[d] + before[d^distance]
			}
		}
	}
	return sums[owner]
}

func TestTheSumIsTheSameOnAnyNumberOfDevices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inOrder := 0
	for range 200 {
		leaves := make([]float32, tree.Leaves)
		var plain float32
		for i := range leaves {
			leaves[i] = float32(r.NormFloat64())
			plain += leaves[i]
		}
		want := exchange(t, leaves, 1, 0)
		if want == plain {
			inOrder++
		}
		for _, n := range []int{2, 4, 8} {
			for owner := range n {
				require.Equal(t, want, exchange(t, leaves, n, owner), "%d devices, owner %d", n, owner)
			}
		}
	}
	require.Less(t, inOrder, 200, "the numbers do not show the order of summation")
}

func TestEachLeafHasOneDevice(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8} {
		require.NoError(t, tree.Check(n))
		next := 0
		for d := range n {
			from, to := tree.Span(d, n, tree.Leaves)
			require.Equal(t, next, from)
			for leaf := from; leaf < to; leaf++ {
				require.Equal(t, d, tree.DeviceOf(leaf, n, tree.Leaves))
			}
			next = to
		}
		require.Equal(t, tree.Leaves, next)
	}
}

func TestNumbersOfDevicesThatDoNotDivideTheLeavesAreRefused(t *testing.T) {
	for _, n := range []int{-1, 0, 3, 5, 6, 7} {
		require.ErrorIs(t, tree.Check(n), tree.ErrDevices)
		require.ErrorContains(t, tree.Check(n), "must be 1, 2, 4 or 8")
	}
	require.ErrorIs(t, tree.Check(16), tree.ErrDevices)
	require.ErrorContains(t, tree.Check(16), "at most 8 devices")
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 2, 6: 4, 8: 8, 12: 8} {
		require.Equal(t, want, tree.Largest(n), "%d", n)
	}
}

func TestOwnersHaveAboutTheSame(t *testing.T) {
	sizes := []int{100, 7, 7, 7, 7, 50, 50, 3, 3, 3, 3}
	owners := tree.Owners(sizes, 2)
	require.Equal(t, owners, tree.Owners(sizes, 2))
	load := make([]int, 2)
	for i, o := range owners {
		load[o] += sizes[i]
	}
	require.Equal(t, []int{120, 120}, load)
	require.Equal(t, []int{0, 0}, tree.Owners([]int{1, 2}, 1))
}
