package main

import (
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"vagen/rollout/evaluate"
	"vagen/train/track/curve/plot"
)

// inks are the presets' colours.
var inks = []color.RGBA{{110, 110, 110, 255}, {214, 134, 30, 255}, {44, 140, 80, 255}, {70, 130, 200, 255},
	{170, 40, 60, 255}}

// curve is a mean over seeds at each validation.
type curve struct {
	name   string
	ink    int // index of its colour
	dashed bool
	steps  []int
	at     []evaluate.Estimate
}

// chart is a plot of curves over training steps.
type chart struct {
	y      string  // what the vertical axis shows
	max    float64 // of the vertical axis
	curves []curve
}

// draw writes the curves, with confidence intervals as bars, to a PNG.
func (ch chart) draw(path string) error {
	p := plot.New("", ch.y)
	p.Y.Min, p.Y.Max = 0, ch.max
	for i, c := range ch.curves {
		bars := struct {
			plotter.XYs
			plotter.YErrors
		}{make(plotter.XYs, len(c.at)), make(plotter.YErrors, len(c.at))}
		for k, e := range c.at {
			// Side by side, so that bars of one step do not overlap.
			bars.XYs[k] = plotter.XY{X: float64(c.steps[k]) + 0.06*float64(i-len(ch.curves)/2), Y: e.Mean}
			bars.YErrors[k].Low, bars.YErrors[k].High = e.Mean-max(0, e.Low), min(ch.max, e.High)-e.Mean
		}
		line, err := plotter.NewLine(bars.XYs)
		if err != nil {
			return err
		}
		errs, err := plotter.NewYErrorBars(bars)
		if err != nil {
			return err
		}
		ink := inks[c.ink%len(inks)]
		line.Color, line.Width, errs.Color = ink, vg.Points(2), ink
		if c.dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(line, errs)
		p.Legend.Add(c.name, line)
	}
	// Success and accuracy rise above the lower right corner. The last bars need some room.
	p.X.Max += 0.5
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(-10), vg.Points(6)
	return p.Save(8*vg.Inch, 4.8*vg.Inch, path)
}
