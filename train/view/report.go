package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	Runs       json.RawMessage                       `json:"runs"`
	Metrics    map[string]any                        `json:"metrics"`
	Config     json.RawMessage                       `json:"config"`
	Estimators json.RawMessage                       `json:"estimators"`
	Episodes   map[string]reportList                 `json:"episodes"`
	Episode    map[string]map[string]any             `json:"episode"`
	Credit     map[string]map[string]map[string]any  `json:"credit"`
	Measured   map[string]map[string]json.RawMessage `json:"measured"`
}

// reportList is the sample of a run's episodes, as in the list of the server.
type reportList struct {
	Total    int              `json:"total"`
	Facets   any              `json:"facets"`
	Episodes []map[string]any `json:"episodes"`
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

// errAnswer is an answer of the server other than 200.
type errAnswer struct {
	status int
	text   string
}

func (e errAnswer) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// recorder keeps an answer of a handler.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// get requests an address from the server, in this process.
func get(h http.Handler, path string, q url.Values) ([]byte, error) {
	u := url.URL{Path: path, RawQuery: q.Encode()}
	if strings.Contains(path, "?") {
		u.Path, u.RawQuery, _ = strings.Cut(path, "?")
	}
	req, err := http.NewRequest(http.MethodGet, "http://localhost"+u.String(), nil)
	if err != nil {
		return nil, err
	}
	r := &recorder{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(r, req)
	if r.status == http.StatusOK {
		return r.body.Bytes(), nil
	}
	var answer struct{ Error string }
	_ = json.Unmarshal(r.body.Bytes(), &answer)
	return nil, errAnswer{r.status, answer.Error}
}

// answerOf reads an answer into a value.
func answerOf(h http.Handler, path string, q url.Values, into any) error {
	raw, err := get(h, path, q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// collect requests everything that the report contains.
func (o *Report) collect(h *handler) (*reportData, error) {
	var runs struct{ Runs json.RawMessage }
	var config struct{ Keys json.RawMessage }
	var estimators struct{ Estimators json.RawMessage }
	for path, into := range map[string]any{"/api/runs": &runs, "/api/config": &config, "/api/estimators": &estimators} {
		if err := answerOf(h, path, nil, into); err != nil {
			return nil, err
		}
	}
	d := &reportData{
		Runs: runs.Runs, Config: config.Keys, Estimators: estimators.Estimators, Metrics: map[string]any{},
		Episodes: map[string]reportList{}, Episode: map[string]map[string]any{},
		Credit: map[string]map[string]map[string]any{}, Measured: map[string]map[string]json.RawMessage{},
	}
	var list []struct{ ID, Estimator string }
	if err := json.Unmarshal(runs.Runs, &list); err != nil {
		return nil, err
	}
	images := pictures{server: h, left: maxReportImages, cached: map[string]string{}}
	for i, r := range list {
		d.Metrics[r.ID] = map[string]any{"series": h.runs[i].curves()}
		names := o.Estimators
		if names == nil {
			names = []string{"masked_gae", "bi_level_gae", "turn_wise_gae", "grpo"}
		}
		if r.Estimator != "" && !slices.Contains(names, r.Estimator) {
			names = append([]string{r.Estimator}, names...)
		}
		if err := d.episodes(h, r.ID, o.Episodes, names, &images); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// listAll are all episodes of a run, in the order of the list.
func listAll(h http.Handler, run string) (all []map[string]any, facets any, err error) {
	for {
		var a struct {
			Total    int
			Facets   any
			Episodes []map[string]any
		}
		q := url.Values{"offset": {fmt.Sprint(len(all))}, "limit": {fmt.Sprint(maxLimit)}}
		if err := answerOf(h, "/api/runs/"+run+"/episodes", q, &a); err != nil {
			return nil, nil, err
		}
		if all = append(all, a.Episodes...); len(all) >= a.Total || len(a.Episodes) == 0 {
			return all, a.Facets, nil
		}
	}
}

// sample chooses n episodes, spread evenly. Half of them are measured ones, if there are so
// many, because they show most.
func sample(all []map[string]any, n int) []map[string]any {
	var measured, others []int
	for i, e := range all {
		if e["measured"] == true {
			measured = append(measured, i)
		} else {
			others = append(others, i)
		}
	}
	half := max(min((n+1)/2, len(measured)), n-len(others))
	out := []map[string]any{}
	for _, i := range slices.Sorted(slices.Values(append(spread(measured, half), spread(others, n-half)...))) {
		out = append(out, all[i])
	}
	return out
}

// spread chooses at most n of some numbers, from the first to the last.
func spread(from []int, n int) []int {
	if n = min(n, len(from)); n == 1 {
		return from[:1]
	}
	var out []int
	for i := range n {
		out = append(out, from[i*(len(from)-1)/(n-1)])
	}
	return out
}

// episodes adds the sample of a run's episodes.
func (d *reportData) episodes(h http.Handler, run string, n int, estimators []string, images *pictures) error {
	all, facets, err := listAll(h, run)
	if err != nil {
		return err
	}
	list := sample(all, n)
	d.Episode[run], d.Credit[run], d.Measured[run] = map[string]any{}, map[string]map[string]any{},
		map[string]json.RawMessage{}
	for _, e := range list {
		key, _ := e["key"].(string)
		var full map[string]any
		err := answerOf(h, "/api/runs/"+run+"/episode", url.Values{"key": {key}}, &full)
		if answer := (errAnswer{}); errors.As(err, &answer) { // a list needs less of an episode's file
			full = maps.Clone(e)
			full["turns"], full["rows"], full["problems"] = []any{}, []any{}, []any{answer.text}
		} else if err != nil {
			return err
		}
		images.embed(full)
		d.Episode[run][key] = full
		d.Credit[run][key] = map[string]any{}
		for _, name := range estimators {
			if rows, _ := full["rows"].([]any); len(rows) == 0 {
				break
			}
			var a any
			err := answerOf(h, "/api/runs/"+run+"/credit", url.Values{"key": {key}, "estimator": {name}}, &a)
			if answer := (errAnswer{}); errors.As(err, &answer) {
				a = map[string]any{"rows": []any{}, "turns": []any{}, "problem": answer.text}
			} else if err != nil {
				return err
			}
			d.Credit[run][key][name] = a
		}
		if raw, err := get(h, "/api/runs/"+run+"/measured", url.Values{"key": {key}}); err == nil {
			d.Measured[run][key] = raw
		}
	}
	d.Episodes[run] = reportList{len(all), facets, list}
	return nil
}
