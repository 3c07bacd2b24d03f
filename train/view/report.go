package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/url"
	"slices"
)

// Limits of a report, which is read in one piece by a browser.
const (
	// MaxReportEpisodes is the largest number of episodes of a report.
	MaxReportEpisodes = 500
	// maxReportPoints is the largest number of points of a curve in a report.
	maxReportPoints = 1000
	// maxReportImages limits the images of a report in bytes.
	maxReportImages = 24 << 20
)

// Report describes a report: the page of [Server] with its data in one HTML file, which
// opens without a server and without a network.
type Report struct {
	// Runs are the folders of runs.
	Runs []string
	// Episodes is the number of episodes of each run, from 0 to MaxReportEpisodes. They
	// are spread over the run's episodes evenly: successes and failures, first to last.
	Episodes int
	// Estimators are computed for these episodes, beside the run's own, with the parameters
	// of the run. Nil is masked_gae, bi_level_gae, turn_wise_gae and grpo.
	Estimators []string
	// Log receives faults; nil discards them.
	Log *slog.Logger
}

// reportData is window.VAGEN_REPORT: answers of the server by run and by episode.
type reportData struct {
	Runs       []runAnswer                                      `json:"runs"`
	Metrics    map[string]map[string]map[string][]point         `json:"metrics"`
	Config     []keyAnswer                                      `json:"config"`
	Estimators []estimatorAnswer                                `json:"estimators"`
	Episodes   map[string]listAnswer                            `json:"episodes"` // a sample
	Episode    map[string]map[string]json.RawMessage            `json:"episode"`
	Credit     map[string]map[string]map[string]json.RawMessage `json:"credit"`
	Measured   map[string]map[string]json.RawMessage            `json:"measured"`
}

// Write writes the report. The error wraps ErrRun for a folder that is not that of a run.
func (o *Report) Write(w io.Writer) error {
	if o.Episodes < 0 || o.Episodes > MaxReportEpisodes {
		return fmt.Errorf("view: report: episodes: %d is not in [0, %d]", o.Episodes, MaxReportEpisodes)
	}
	s := Server{Runs: o.Runs, Log: o.Log}
	h, err := s.handler()
	if err != nil {
		return err
	}
	data, err := o.collect(h)
	if err != nil {
		return fmt.Errorf("view: report: %w", err)
	}
	// Package json writes <, > and & as escapes, so that no text ends the script.
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("view: report: %w", err)
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return fmt.Errorf("view: report: %w", err)
	}
	page, err := bundle(files, "window.VAGEN_REPORT = "+string(raw)+";")
	if err != nil {
		return fmt.Errorf("view: report: %w", err)
	}
	if _, err := io.WriteString(w, page); err != nil {
		return fmt.Errorf("view: report: %w", err)
	}
	return nil
}

// collect gathers everything that the report contains.
func (o *Report) collect(h *handler) (*reportData, error) {
	ctx := context.Background()
	runs, err := h.listRuns(ctx, nil)
	config, err2 := h.compareConfigs(ctx, nil)
	estimators, err3 := listEstimators(ctx, nil)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	d := &reportData{
		Runs: runs["runs"], Config: config["keys"], Estimators: estimators["estimators"],
		Metrics: map[string]map[string]map[string][]point{}, Episodes: map[string]listAnswer{},
		Episode: map[string]map[string]json.RawMessage{}, Credit: map[string]map[string]map[string]json.RawMessage{},
		Measured: map[string]map[string]json.RawMessage{},
	}
	images := pictures{left: maxReportImages, cached: map[string]string{}}
	for i, r := range h.runs {
		d.Metrics[r.id] = map[string]map[string][]point{"series": r.curves()}
		names := o.Estimators
		if names == nil {
			names = []string{"masked_gae", "bi_level_gae", "turn_wise_gae", "grpo"}
		}
		if own := d.Runs[i].Estimator; own != "" && !slices.Contains(names, own) {
			names = append([]string{own}, names...)
		}
		if err := d.episodes(ctx, r, o.Episodes, names, &images); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sample chooses n episodes, spread evenly. Half of them are measured ones, if there are so
// many, because they show most.
func sample(all []listed, n int) []listed {
	var measured, others []int
	for i, e := range all {
		if e.Measured {
			measured = append(measured, i)
		} else {
			others = append(others, i)
		}
	}
	half := max(min((n+1)/2, len(measured)), n-len(others))
	out := []listed{}
	for _, i := range slices.Sorted(slices.Values(append(spread(measured, half), spread(others, n-half)...))) {
		out = append(out, all[i])
	}
	return out
}

// spread chooses at most n of several, from the first to the last.
func spread[T any](from []T, n int) []T {
	if n = min(n, len(from)); n == 1 {
		return from[:1]
	}
	var out []T
	for i := range n {
		out = append(out, from[i*(len(from)-1)/(n-1)])
	}
	return out
}

// episodes adds the sample of a run's episodes.
func (d *reportData) episodes(ctx context.Context, r *run, n int, estimators []string, images *pictures) error {
	list, err := r.listEpisodes(ctx, filter{limit: math.MaxInt})
	if err != nil {
		return err
	}
	list.Episodes = sample(list.Episodes, n)
	full, credits, measured := map[string]json.RawMessage{}, map[string]map[string]json.RawMessage{},
		map[string]json.RawMessage{}
	d.Episodes[r.id], d.Episode[r.id], d.Credit[r.id], d.Measured[r.id] = list, full, credits, measured
	for _, e := range list.Episodes {
		q := url.Values{"key": {e.Key}}
		a, err := r.episodeAnswer(ctx, q)
		if err == nil {
			images.embed(r, a)
		}
		raw, err := encode(a, err)
		if err != nil { // a list needs less of an episode's file
			a = newEpisodeAnswer(e, err.Error())
			raw, err = encode(a, nil)
		}
		if err != nil {
			return err
		}
		full[e.Key], credits[e.Key] = raw, map[string]json.RawMessage{}
		for _, name := range estimators {
			if len(a.Rows) == 0 {
				break
			}
			q.Set("estimator", name)
			raw, err := encode(r.creditAnswer(ctx, q))
			if err != nil {
				raw, err = encode(creditResult{[]creditRow{}, []creditTurn{}, err.Error()}, nil)
			}
			if err != nil {
				return err
			}
			credits[e.Key][name] = raw
		}
		if raw, err := encode(r.measuredAnswer(ctx, q)); err == nil {
			measured[e.Key] = raw
		}
	}
	return nil
}
