package plot

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Lines draws one metric of several runs over the steps. The colours are those of Okabe
// and Ito (https://jfly.uni-koeln.de/color/), which readers with any form of colour
// blindness can tell apart; dashes differ as well.
type Lines struct {
	Title string
	Label string // of the vertical axis
	Lines []Line
}

// Line is the metric of a run: step and value of each point. Values that are not finite
// are left out.
type Line struct {
	Name   string
	Points [][2]float64
}

var (
	lineInks = []color.RGBA{
		{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255},
		{86, 180, 233, 255}, {0, 0, 0, 255},
	}
	lineDashes = [][]float64{nil, {6, 3}, {2, 3}, {8, 3, 2, 3}, {10, 4}}
)

// Write draws to a file, in the format that its name ends with: .png, .svg or .pdf.
func (l *Lines) Write(path string) error {
	p := New(l.Title, l.Label)
	for i, line := range l.Lines {
		xys := finite(line.Points)
		if len(xys) == 0 {
			continue
		}
		drawn, err := plotter.NewLine(xys)
		if err != nil {
			return fmt.Errorf("plot: %s: %w", line.Name, err)
		}
		drawn.Color, drawn.Width = lineInks[i%len(lineInks)], 1.8
		for _, d := range lineDashes[i%len(lineDashes)] {
			drawn.Dashes = append(drawn.Dashes, vg.Points(d))
		}
		p.Add(drawn)
		p.Legend.Add(line.Name, drawn)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-4)
	return save(p, 6*vg.Inch, 3.6*vg.Inch, path)
}
