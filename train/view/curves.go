package view

import (
	"math"

	"vagen/internal/floats"
)

// curves are the metrics of a run, with a bounded number of points.
func (r *run) curves() map[string][]point {
	series := r.metricsAfter(0, "").Series
	for name, points := range series {
		series[name] = spread(points, maxReportPoints)
	}
	return series
}

// Curves are the metrics of a run by name: step and value of each point, NaN where a value
// is not finite.
type Curves struct {
	Run    string // its name on the page
	Series map[string][][2]float64
}

// Curves reads the metrics of the runs, for plots. Curves of more than 1,000 points are
// thinned, as in the report.
func (o *Report) Curves() ([]Curves, error) {
	s := Server{Runs: o.Runs, Log: o.Log}
	h, err := s.handler()
	if err != nil {
		return nil, err
	}
	var out []Curves
	for _, r := range h.runs {
		c := Curves{Run: r.name, Series: map[string][][2]float64{}}
		for name, points := range r.curves() {
			for _, p := range points {
				y := float64(p.value)
				if !floats.Finite(y) {
					y = math.NaN()
				}
				c.Series[name] = append(c.Series[name], [2]float64{float64(p.step), y})
			}
		}
		out = append(out, c)
	}
	return out, nil
}
