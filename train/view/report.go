package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
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
	// Estimators are computed for these episodes with the parameters of the run, beside
	// the run's own. Nil is masked_gae, bi_level_gae, turn_wise_gae and grpo.
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
	Episodes   map[string]any                        `json:"episodes"`
	Episode    map[string]map[string]any             `json:"episode"`
	Credit     map[string]map[string]map[string]any  `json:"credit"`
	Measured   map[string]map[string]json.RawMessage `json:"measured"`
}

// Write writes the report. The error wraps ErrRun for a folder that is not that of a run.
func (o *Report) Write(w io.Writer) error {
	if o.Episodes < 0 || o.Episodes > MaxReportEpisodes {
		return fmt.Errorf("view: report: episodes: %d is not in [0, %d]", o.Episodes, MaxReportEpisodes)
	}
	s := Server{Runs: o.Runs, Log: o.Log}
	h, err := s.Handler()
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
	var said struct{ Error string }
	_ = json.Unmarshal(r.body.Bytes(), &said)
	return nil, errAnswer{r.status, said.Error}
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
func (o *Report) collect(h http.Handler) (*reportData, error) {
	var runs struct{ Runs json.RawMessage }
	var config struct{ Keys json.RawMessage }
	var estimators struct{ Estimators json.RawMessage }
	for path, into := range map[string]any{"/api/runs": &runs, "/api/config": &config, "/api/estimators": &estimators} {
		if err := answerOf(h, path, nil, into); err != nil {
			return nil, err
		}
	}
	d := &reportData{Runs: runs.Runs, Config: config.Keys, Estimators: estimators.Estimators, Metrics: map[string]any{}, Episodes: map[string]any{},
		Episode: map[string]map[string]any{}, Credit: map[string]map[string]map[string]any{}, Measured: map[string]map[string]json.RawMessage{}}
	var list []struct{ ID, Estimator string }
	if err := json.Unmarshal(runs.Runs, &list); err != nil {
		return nil, err
	}
	images := pictures{server: h, left: maxReportImages, cached: map[string]string{}}
	for _, r := range list {
		metrics, err := allMetrics(h, r.ID)
		if err != nil {
			return nil, err
		}
		d.Metrics[r.ID] = map[string]any{"series": metrics}
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

// allMetrics are the curves of a run, with a bounded number of points.
func allMetrics(h http.Handler, run string) (map[string][]json.RawMessage, error) {
	series := map[string][]json.RawMessage{}
	for after := 0; ; {
		var a struct {
			Lines  int
			More   bool
			Series map[string][]json.RawMessage
		}
		if err := answerOf(h, "/api/runs/"+run+"/metrics", url.Values{"after": {fmt.Sprint(after)}}, &a); err != nil {
			return nil, err
		}
		for name, points := range a.Series {
			series[name] = append(series[name], points...)
		}
		if after = a.Lines; !a.More {
			break
		}
	}
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

// sample spreads n episodes evenly. Measured ones come first, because they show most.
func sample(all []map[string]any, n int) []map[string]any {
	chosen := map[int]bool{}
	for i, e := range all {
		if e["measured"] == true && len(chosen) < n {
			chosen[i] = true
		}
	}
	for i := 0; i < n && len(chosen) < min(n, len(all)); i++ {
		chosen[i*len(all)/n] = true
	}
	for i := 0; len(chosen) < min(n, len(all)); i++ {
		chosen[i] = true
	}
	out := []map[string]any{}
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		out = append(out, all[i])
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
	d.Episode[run], d.Credit[run], d.Measured[run] = map[string]any{}, map[string]map[string]any{}, map[string]json.RawMessage{}
	for _, e := range list {
		key, _ := e["key"].(string)
		var full map[string]any
		if err := answerOf(h, "/api/runs/"+run+"/episode", url.Values{"key": {key}}, &full); err != nil {
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
	d.Episodes[run] = map[string]any{"total": len(all), "facets": facets, "episodes": list}
	return nil
}

// pictures puts images into a report until the limit of bytes is reached.
type pictures struct {
	server http.Handler
	left   int
	cached map[string]string
}

// embed replaces the addresses of an episode's images by the images. One that cannot be
// read, or that does not fit, becomes null, and the page says so.
func (p *pictures) embed(episode map[string]any) {
	turns, _ := episode["turns"].([]any)
	for _, t := range turns {
		turn, _ := t.(map[string]any)
		list, _ := turn["images"].([]any)
		for i, address := range list {
			list[i] = nil
			if a, ok := address.(string); ok {
				if text := p.data(a); text != "" {
					list[i] = text
				}
			}
		}
	}
}

func (p *pictures) data(address string) string {
	text, ok := p.cached[address]
	if !ok {
		if raw, err := get(p.server, address, nil); err == nil && len(raw) <= p.left {
			text = "data:image/png;base64," + base64.StdEncoding.EncodeToString(smaller(raw))
		}
		p.cached[address] = text
	}
	if len(text) > p.left {
		return ""
	}
	p.left -= len(text)
	return text
}

// smaller compresses an image, which runs store without compression by default. An image
// that cannot be decoded, or that has very many pixels, stays as it is.
func smaller(raw []byte) []byte {
	const maxPixels = 4 << 20
	if c, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || c.Width*c.Height > maxPixels {
		return raw
	}
	m, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	var b bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&b, m); err != nil || b.Len() >= len(raw) {
		return raw
	}
	return b.Bytes()
}
