package model

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Segments groups n tokens into runs of different length, such as rows or turns.
// Sums over a run gather its tokens through a table. Unlike a scatter, that adds
// them in the same order on every device.
type Segments struct {
	Members *Node // [segments, width] int32: the tokens of each run, padded with n
	Of      *Node // [n] int32: the run of each token
}

// sum gives every token the sum of x [n] over its run.
func (s *Segments) sum(x *Node) *Node {
	n, runs, width := rows(x), dim(s.Members, 0), dim(s.Members, 1)
	cells := takeRowsOrZero(Reshape(x, n, 1), Reshape(s.Members, runs*width))
	sums := ReduceSum(Reshape(cells, runs, width), 1)
	return Reshape(takeRows(Reshape(sums, runs, 1), s.Of), n)
}
