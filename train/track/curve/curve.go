// Package curve collects the training curve of a run; package plot below it draws it.
package curve

import (
	"math"
	"slices"

	"vagen/internal/floats"
	"vagen/train/track"
)

// Curve collects a metric over the steps. It is a Sink.
type Curve struct {
	// Train and Val are the metrics drawn over steps: a thin line for every
	// training step, a thick one for validation.
	Train, Val string
	Title      string
	Label      string // of the vertical axis
	// Marks are reference values, drawn as dashed lines with their names.
	Marks []Mark

	train, val [][2]float64
}

var _ track.Sink = (*Curve)(nil)

// Mark is a reference value of a curve.
type Mark struct {
	Name  string
	Value float64
}

// Event implements Sink.
func (c *Curve) Event(e track.Event) error {
	switch e.Kind {
	case track.KindStep:
		c.train = extend(c.train, e, c.Train)
	case track.KindValidate:
		c.val = extend(c.val, e, c.Val)
	case track.KindRollback:
		undone := func(p [2]float64) bool { return p[0] > float64(e.Step) }
		c.train, c.val = slices.DeleteFunc(c.train, undone), slices.DeleteFunc(c.val, undone)
	}
	return nil
}

// extend appends a point, unless the event does not have the metric or it is not finite.
func extend(points [][2]float64, e track.Event, name string) [][2]float64 {
	y, ok := e.Metrics[name]
	if !ok || !floats.Finite(y) {
		return points
	}
	return append(points, [2]float64{float64(e.Step), y})
}

// Close implements Sink.
func (c *Curve) Close() error { return nil }

// Points returns what was collected: step and value of Train and of Val.
func (c *Curve) Points() (train, val [][2]float64) { return c.train, c.val }

// Ends returns the validation value before the first step, and the last one after a
// step. Values that were not measured are NaN.
func (c *Curve) Ends() (before, trained float64) {
	before, trained = math.NaN(), math.NaN()
	for _, p := range c.val {
		if p[0] > 0 {
			trained = p[1]
		} else {
			before = p[1]
		}
	}
	return before, trained
}
