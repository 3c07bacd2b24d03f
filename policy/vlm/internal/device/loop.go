package device

import (
	"errors"
	"slices"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/gomlx/core/graph"
)

// Loop is a part of a graph that the device repeats a fixed number of times: everything
// that Next of the carried values depends on, unless a value outside the loop needs it,
// too. It can read all values of the graph.
//
// GoMLX v0.28.2 has loops, but go-xla v0.4.1 refuses sums and products of a value outside a
// loop with one inside. As with kernels, the statements are moved inside the
// StableHLO function that the graph is built into. The number of iterations is a constant
// of the program, which XLA recognises.
type Loop struct {
	Index *graph.Node // number of the iteration, from 0: int32

	carried []*Carried // the first is the index
	asked   *graph.Node
	again   *graph.Node // whether the iteration asked is executed
}

// Carried is a value that changes from iteration to iteration. Next must be set.
type Carried struct {
	Start *graph.Node // before the first iteration
	Now   *graph.Node // at the start of an iteration
	Next  *graph.Node // at its end
	End   *graph.Node // after the last one
}

// NewLoop returns a loop of so many iterations, which must be positive.
func NewLoop(g *graph.Graph, times int) *Loop {
	l := &Loop{}
	i := l.Carry(graph.Const(g, int32(0)))
	i.Next = graph.Add(i.Now, graph.Const(g, int32(1)))
	l.Index, l.asked = i.Now, standIn(i.Now)
	l.again = graph.LessThan(l.asked, graph.Const(g, int32(times)))
	return l
}

// Carry adds a value of the loop.
func (l *Loop) Carry(start *graph.Node) *Carried {
	c := &Carried{Start: start, Now: standIn(start), End: standIn(start)}
	l.carried = append(l.carried, c)
	return c
}

// standIn returns a node with the type and dimensions of x whose definition is removed
// when the loop is made.
func standIn(x *graph.Node) *graph.Node {
	s := x.Shape()
	return graph.Reshape(graph.Iota(x.Graph(), shapes.Make(s.DType, s.Size()), 0), s.Dimensions...)
}

// list returns a node of each carried value.
func (l *Loop) list(which func(c *Carried) *graph.Node) []*graph.Node {
	out := make([]*graph.Node, len(l.carried))
	for i, c := range l.carried {
		out[i] = which(c)
	}
	return out
}

func (l *Loop) start() []*graph.Node { return l.list(func(c *Carried) *graph.Node { return c.Start }) }
func (l *Loop) now() []*graph.Node   { return l.list(func(c *Carried) *graph.Node { return c.Now }) }
func (l *Loop) next() []*graph.Node  { return l.list(func(c *Carried) *graph.Node { return c.Next }) }
func (l *Loop) end() []*graph.Node   { return l.list(func(c *Carried) *graph.Node { return c.End }) }

// roots returns the nodes whose values the program needs, given its outputs. l may be nil.
func (l *Loop) roots(out []*graph.Node) []*graph.Node {
	if l == nil {
		return out
	}
	return slices.Concat(out, l.start(), l.next(), []*graph.Node{l.again})
}

var errLoop = errors.New("this version of GoMLX does not permit loops on the device")

// insert makes the loop in the function that a graph is built into. l may be nil.
func (l *Loop) insert(f *stablehlo.Function, out []*graph.Node) error {
	if l == nil {
		return nil
	}
	start, now, next, end := values(l.start()), values(l.now()), values(l.next()), values(l.end())
	asked, again, roots := values([]*graph.Node{l.asked}), values([]*graph.Node{l.again}), values(out)
	made := slices.Concat(now, end, asked) // by the loop, not by the statements that stand in for it
	all := slices.DeleteFunc(slices.Clone(f.Statements), func(s *stablehlo.Statement) bool {
		return len(s.Outputs) == 1 && slices.Contains(made, s.Outputs[0])
	})
	before := removeUnused(all, start)
	after := without(removeUnused(all, roots), before)
	outside := slices.Concat(before, after)
	inside := func(roots []*stablehlo.Value) []*stablehlo.Statement {
		return without(removeUnused(all, roots), outside)
	}
	condition := region(f, asked, inside(again), again)
	body := region(f, now, keepUpdates(f, inside(next), next), next)
	while := &stablehlo.Statement{Builder: f.Builder, Function: f, Inputs: start, Outputs: end}
	setOp(while, "While")
	for _, v := range now[1:] { // the condition reads the index only
		if _, err := condition.Input(v.Shape()); err != nil {
			return err
		}
	}
	while.AddFunctionParameter("condition", condition)
	while.AddFunctionParameter("body", body)
	// Statements after the loop that do not read it can define what the body reads.
	free, reading := split(after, end)
	f.Statements = slices.Concat(before, free, []*stablehlo.Statement{while}, reading)
	if !definedBeforeUse(f, f.Statements) {
		return errLoop
	}
	return nil
}

// region is a function inside f with these inputs and results.
func region(
	f *stablehlo.Function, in []*stablehlo.Value, body []*stablehlo.Statement, out []*stablehlo.Value,
) *stablehlo.Function {
	back := &stablehlo.Statement{Builder: f.Builder, Function: f, Inputs: out}
	setOp(back, "FuncReturn")
	return &stablehlo.Function{Builder: f.Builder, Name: "loop", Parent: f, Inputs: slices.Clone(in),
		Statements: append(body, back), Returned: true}
}

// without returns the statements of all that are not in others, in order.
func without(all, others []*stablehlo.Statement) []*stablehlo.Statement {
	known := map[*stablehlo.Statement]bool{}
	for _, s := range others {
		known[s] = true
	}
	return slices.DeleteFunc(all, func(s *stablehlo.Statement) bool { return known[s] })
}

// split separates the statements that depend on the values from the others.
func split(all []*stablehlo.Statement, on []*stablehlo.Value) (free, dependent []*stablehlo.Statement) {
	reached := map[*stablehlo.Value]bool{}
	for _, v := range on {
		reached[v] = true
	}
	for _, s := range all {
		depends := false
		uses(s, func(v *stablehlo.Value) { depends = depends || reached[v] })
		if !depends {
			free = append(free, s)
			continue
		}
		dependent = append(dependent, s)
		for _, v := range s.Outputs {
			reached[v] = true
		}
	}
	return free, dependent
}
