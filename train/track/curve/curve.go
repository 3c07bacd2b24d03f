// Package curve draws training curves as PNG, SVG and PDF files: Curve that of the success
// rates of a run, Lines a metric of one or several runs.
package curve

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"vagen/train/track"
)

// Curve collects a metric over the steps and draws it. It is a Sink.
type Curve struct {
	// Train and Val are the metrics drawn over steps: a thin line for every
	// training step, a thick one for validation.
	Train, Val string
	Title      string
	Label      string // of the vertical axis
	// Marks are reference values, drawn as dashed lines with their names.
	Marks []Mark

	train, val plotter.XYs
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
		undone := func(p plotter.XY) bool { return p.X > float64(e.Step) }
		c.train, c.val = slices.DeleteFunc(c.train, undone), slices.DeleteFunc(c.val, undone)
	}
	return nil
}

// extend appends a point, unless the event does not have the metric or it is not finite.
func extend(xys plotter.XYs, e track.Event, name string) plotter.XYs {
	y, ok := e.Metrics[name]
	if !ok || math.IsNaN(y) || math.IsInf(y, 0) {
		return xys
	}
	return append(xys, plotter.XY{X: float64(e.Step), Y: y})
}

// Close implements Sink.
func (c *Curve) Close() error { return nil }

// The colours of the curves and marks: dark blue, light blue, grey.
var (
	inkVal   = color.RGBA{24, 78, 150, 255}
	inkTrain = color.RGBA{150, 186, 226, 255}
	inkMark  = color.RGBA{110, 110, 110, 255}
)

// WritePNG draws the points collected so far.
func (c *Curve) WritePNG(path string) error {
	p := plot.New()
	sansSerif(p)
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, "training step", c.Label
	p.Y.Min, p.Y.Max = 0, 1
	p.Add(plotter.NewGrid())
	last := 1.0
	for _, xy := range append(append(plotter.XYs{}, c.train...), c.val...) {
		last = max(last, xy.X)
		p.Y.Max = max(p.Y.Max, xy.Y)
		p.Y.Min = min(p.Y.Min, xy.Y)
	}
	p.X.Min, p.X.Max = 0, last
	for _, m := range joined(c.Marks) {
		if err := addMark(p, m, last); err != nil {
			return fmt.Errorf("curve: %w", err)
		}
	}
	for _, l := range []struct {
		name  string
		xys   plotter.XYs
		ink   color.RGBA
		width vg.Length
	}{{"training episodes", c.train, inkTrain, 1.2}, {"unseen levels", c.val, inkVal, 2.4}} {
		if len(l.xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(l.xys)
		if err != nil {
			return fmt.Errorf("curve: %w", err)
		}
		line.Color, line.Width = l.ink, l.width
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(-12), vg.Points(10)
	if err := p.Save(8*vg.Inch, 4.8*vg.Inch, path); err != nil {
		return fmt.Errorf("curve: %w", err)
	}
	return nil
}

// sansSerif sets the fonts of a plot.
func sansSerif(p *plot.Plot) {
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(14), vg.Points(8)
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(11), vg.Points(11)
}

// joined names marks whose labels would cover each other, because they show the same value,
// in one label.
func joined(marks []Mark) []Mark {
	var out []Mark
	for _, m := range marks {
		same := func(o Mark) bool { return fmt.Sprintf("%.2f", o.Value) == fmt.Sprintf("%.2f", m.Value) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Name += ", " + m.Name
		} else {
			out = append(out, m)
		}
	}
	return out
}

func addMark(p *plot.Plot, m Mark, width float64) error {
	line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: m.Value}, {X: width, Y: m.Value}})
	if err != nil {
		return err
	}
	line.Color, line.Dashes = inkMark, []vg.Length{vg.Points(4), vg.Points(3)}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: width * 0.01, Y: m.Value}}, Labels: []string{fmt.Sprintf("%s %.2f", m.Name, m.Value)}})
	if err != nil {
		return err
	}
	labels.TextStyle[0].Color, labels.TextStyle[0].Font.Size = inkMark, font.Length(9)
	labels.TextStyle[0].Font.Variant = "Sans"
	labels.Offset.Y = vg.Points(2)
	p.Add(line, labels)
	return nil
}

// Ends returns the validation value before the first step, and the last one after a
// step. Values that were not measured are NaN.
func (c *Curve) Ends() (before, trained float64) {
	before, trained = math.NaN(), math.NaN()
	for _, p := range c.val {
		if p.X > 0 {
			trained = p.Y
		} else {
			before = p.Y
		}
	}
	return before, trained
}
