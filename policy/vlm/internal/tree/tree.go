// Package tree defines how the gradients of a step are summed over devices so that the sum
// has the same bytes on 1, 2, 4 and 8 devices.
//
// A step's rows are always divided into eight leaves. Leaves are summed in pairs, the pairs
// in pairs, and so on. A device computes adjacent leaves, which are a subtree; the rest of
// the tree is summed by recursive halving: in each round every device exchanges half of its
// sums with a partner. Floating-point addition is commutative but not associative, so only
// the shape of the tree matters, not the device on which two sums meet.
package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Leaves is the number of leaves where bytes must not depend on the number of devices, and the
// maximum number of devices. Otherwise each device has one leaf.
const Leaves = 8

// ErrDevices is wrapped by errors about a number of devices.
var ErrDevices = errors.New("bad number of devices")

// Check returns an error unless n devices divide the leaves evenly.
func Check(n int) error {
	if n > Leaves {
		return fmt.Errorf("%w: %d, but a step's rows are divided into %d parts, so at most %d devices are allowed",
			ErrDevices, n, Leaves, Leaves)
	}
	if n < 1 || Leaves%n != 0 {
		return fmt.Errorf("%w: %d, must be 1, 2, 4 or 8", ErrDevices, n)
	}
	return nil
}

// Largest returns the largest number of devices that is at most n and passes Check.
func Largest(n int) int {
	most := 1
	for 2*most <= min(n, Leaves) {
		most *= 2
	}
	return most
}

// Span returns which of the leaves belong to a device of n: from included, to excluded.
func Span(device, n, leaves int) (from, to int) {
	return device * leaves / n, (device + 1) * leaves / n
}

// DeviceOf returns the device of a leaf.
func DeviceOf(leaf, n, leaves int) int { return leaf * n / leaves }

// Sum sums the leaves from, …, to-1, a power of two of them, along the tree. Leaves are
// computed in order, and at most log2(to-from)+1 sums exist at a time.
func Sum[T any](from, to int, leaf func(int) (T, error), add func(a, b T) (T, error)) (T, error) {
	if to-from == 1 {
		return leaf(from)
	}
	middle := (from + to) / 2
	a, err := Sum(from, middle, leaf, add)
	if err != nil {
		return a, err
	}
	b, err := Sum(middle, to, leaf, add)
	if err != nil {
		return a, err
	}
	return add(a, b)
}

// Rounds returns the distances between partners in the rounds in which n devices sum.
func Rounds(n int) []int {
	var out []int
	for d := 1; d < n; d *= 2 {
		out = append(out, d)
	}
	return out
}

// Receives reports whether a device receives its partner's sum of an array in the round with
// this distance; the partner is device^distance. After the last round the owner has the sum.
func Receives(device, owner, distance int) bool {
	return (device^owner)&(2*distance-1) == 0
}

// Owners assigns arrays of these sizes to n devices so that each device owns about equally
// much. The result is the same in every run.
func Owners(sizes []int, n int) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	owners, load := make([]int, len(sizes)), make([]int, n)
	for _, i := range order {
		owners[i] = LeastLoaded(load)
		load[owners[i]] += sizes[i]
	}
	return owners
}

// LeastLoaded returns the index of the smallest number, the first of several.
func LeastLoaded(load []int) int {
	return slices.Index(load, slices.Min(load))
}
