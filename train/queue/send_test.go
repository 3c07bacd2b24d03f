package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResultsOfOneBatchAreSentTogether, as many as fit in a message, in their order; those of another
// batch and failures are not.
func TestResultsOfOneBatchAreSentTogether(t *testing.T) {
	batch, other := &opened{}, &opened{}
	w := &worker{finished: make(chan outcome, 3*maxGrouped)}
	put := func(of *opened, fault string, n int) {
		for range n {
			w.finished <- outcome{held: &held{task: task{Number: len(w.finished)}}, of: of, fault: fault}
		}
	}
	put(batch, "", maxGrouped+3)
	put(other, "", 2)
	put(other, faultFailed, 1)
	put(batch, "", 1)
	close(w.finished)
	var sizes, order []int
	first, ok := <-w.finished
	for ok {
		var group []outcome
		group, first, ok = w.gather(first)
		sizes = append(sizes, len(group))
		for _, o := range group {
			order = append(order, o.task.Number)
		}
		if ok && first.held == nil {
			first, ok = <-w.finished
		}
	}
	require.Equal(t, []int{maxGrouped, 3, 2, 1, 1}, sizes)
	for i, n := range order {
		require.Equal(t, i, n)
	}
}
