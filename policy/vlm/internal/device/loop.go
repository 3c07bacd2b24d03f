package device

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
)

// Repeat runs a part of a graph on the device so many times, which must be positive. The body maps the number of the
// iteration, from 0, and the values before it to those after it; Repeat returns those after the last one. The body
// reads no other values of the graph, because go-xla v0.4.1 refuses sums and products of a value outside a loop with
// one inside. The number of iterations is a constant of the program, which XLA recognises.
func Repeat(
	times int, start []*graph.Node, body func(i *graph.Node, now []*graph.Node) []*graph.Node,
) []*graph.Node {
	g := start[0].Graph()
	start = append([]*graph.Node{graph.Const(g, int32(0))}, start...)
	inside := func(g *graph.Graph) []*graph.Node {
		now := make([]*graph.Node, len(start))
		for i, x := range start {
			now[i] = graph.Parameter(g, fmt.Sprint("x", i), x.Shape())
		}
		return now
	}
	condition := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
		return []*graph.Node{graph.LessThan(inside(g)[0], graph.Const(g, int32(times)))}
	})
	iteration := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
		now := inside(g)
		next := graph.Add(now[0], graph.Const(g, int32(1)))
		return append([]*graph.Node{next}, body(now[0], now[1:])...)
	})
	return graph.While(condition, iteration, start...)[1:]
}
