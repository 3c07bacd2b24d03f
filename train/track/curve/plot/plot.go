// Package plot draws training curves as PNG, SVG and PDF files: PNG that of the success rates of a
// run, Lines a metric of one or several runs.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"vagen/internal/durable"
	"vagen/internal/floats"
	"vagen/train/track/curve"
)

// The colours of the curves and marks: dark blue, light blue, grey.
var (
	inkVal   = color.RGBA{24, 78, 150, 255}
	inkTrain = color.RGBA{150, 186, 226, 255}
	inkMark  = color.RGBA{110, 110, 110, 255}
)

// PNG draws the points that a curve has so far. It is a run.Options.DrawCurve.
func PNG(c *curve.Curve, path string) error {
	if c == nil {
		return errors.New("plot: the curve is nil")
	}
	p := New(c.Title, c.Label)
	p.Y.Min, p.Y.Max = 0, 1
	trained, validated := c.Points()
	train, val := finite(trained), finite(validated)
	last := 1.0
	for _, xy := range slices.Concat(train, val) {
		last = max(last, xy.X)
		p.Y.Max = max(p.Y.Max, xy.Y)
		p.Y.Min = min(p.Y.Min, xy.Y)
	}
	p.X.Min, p.X.Max = 0, last
	for _, m := range joined(c.Marks) {
		if err := addMark(p, m, last); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	for _, l := range []struct {
		name  string
		xys   plotter.XYs
		ink   color.RGBA
		width vg.Length
	}{{"training episodes", train, inkTrain, 1.2}, {"unseen levels", val, inkVal, 2.4}} {
		if len(l.xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(l.xys)
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		line.Color, line.Width = l.ink, l.width
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(-12), vg.Points(10)
	return save(p, 8*vg.Inch, 4.8*vg.Inch, path)
}

// save writes a plot in the format that the file's name ends with. A failure leaves the file as it was.
func save(p *plot.Plot, width, height vg.Length, path string) error {
	var b bytes.Buffer
	w, err := p.WriterTo(width, height, strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."))
	if err == nil {
		_, err = w.WriteTo(&b)
	}
	if err == nil {
		err = durable.WriteFile(path, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// finite converts points, without values that are not finite.
func finite(points [][2]float64) (out plotter.XYs) {
	for _, p := range points {
		if floats.Finite(p[1]) {
			out = append(out, plotter.XY{X: p[0], Y: p[1]})
		}
	}
	return out
}

// New returns an empty plot over training steps, with a grid.
func New(title, label string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "training step", label
	p.Add(plotter.NewGrid())
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(14), vg.Points(8)
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(11), vg.Points(11)
	return p
}

// joined names marks whose labels would cover each other, because they show the same value,
// in one label.
func joined(marks []curve.Mark) []curve.Mark {
	var out []curve.Mark
	for _, m := range marks {
		same := func(o curve.Mark) bool { return fmt.Sprintf("%.2f", o.Value) == fmt.Sprintf("%.2f", m.Value) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Name += ", " + m.Name
		} else {
			out = append(out, m)
		}
	}
	return out
}

func addMark(p *plot.Plot, m curve.Mark, width float64) error {
	line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: m.Value}, {X: width, Y: m.Value}})
	if err != nil {
		return err
	}
	line.Color, line.Dashes = inkMark, []vg.Length{vg.Points(4), vg.Points(3)}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: width * 0.01, Y: m.Value}},
		Labels: []string{fmt.Sprintf("%s %.2f", m.Name, m.Value)}})
	if err != nil {
		return err
	}
	labels.TextStyle[0].Color, labels.TextStyle[0].Font.Size = inkMark, font.Length(9)
	labels.TextStyle[0].Font.Variant = "Sans"
	labels.Offset.Y = vg.Points(2)
	p.Add(line, labels)
	return nil
}
