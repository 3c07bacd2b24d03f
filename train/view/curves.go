package view

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
)

// allMetrics are the curves of a run, with a bounded number of points.
func allMetrics(h http.Handler, run string) (map[string][]json.RawMessage, error) {
	var a struct{ Series map[string][]json.RawMessage }
	if err := answerOf(h, "/api/runs/"+run+"/metrics", nil, &a); err != nil {
		return nil, err
	}
	series := a.Series
	for name, points := range series {
		series[name] = downsample(points)
	}
	return series, nil
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
	h, err := s.Handler()
	if err != nil {
		return nil, err
	}
	var runs struct{ Runs []struct{ ID, Name string } }
	if err := answerOf(h, "/api/runs", nil, &runs); err != nil {
		return nil, fmt.Errorf("view: curves: %w", err)
	}
	var out []Curves
	for _, r := range runs.Runs {
		series, err := allMetrics(h, r.ID)
		if err != nil {
			return nil, fmt.Errorf("view: curves: %w", err)
		}
		c := Curves{Run: r.Name, Series: map[string][][2]float64{}}
		for name, points := range series {
			for _, raw := range points {
				var p [2]*float64
				if err := json.Unmarshal(raw, &p); err != nil || p[0] == nil {
					return nil, fmt.Errorf("view: curves: %s: %s must be a pair of step and value", name, raw)
				}
				y := math.NaN()
				if p[1] != nil {
					y = *p[1]
				}
				c.Series[name] = append(c.Series[name], [2]float64{*p[0], y})
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// downsample keeps every n-th point and the last one.
func downsample(points []json.RawMessage) []json.RawMessage {
	if len(points) <= maxReportPoints {
		return points
	}
	out := make([]json.RawMessage, maxReportPoints)
	for i := range out {
		out[i] = points[i*(len(points)-1)/(maxReportPoints-1)]
	}
	return out
}
