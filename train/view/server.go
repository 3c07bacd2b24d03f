package view

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vagen/internal/redact"
	"vagen/internal/silent"
	"vagen/train/rundir"
)

//go:embed static
var static embed.FS

// Server serves the page and its data.
type Server struct {
	// Runs are the folders of runs, such as runs/default-seed0.
	Runs []string
	// Key, if not empty, must come with every request: in the header X-API-Key, as
	// ?key=…, or in the cookie that an answer to ?key=… sets.
	Key string
	// Log receives faults of the server; nil discards them.
	Log *slog.Logger
}

// ErrRun means that a folder is not that of a run.
var ErrRun = errors.New("not the folder of a run")

// Handler returns the server's answers. The error wraps ErrRun for a folder without
// config.yaml and metrics.jsonl.
func (s *Server) Handler() (http.Handler, error) {
	h, err := s.handler()
	if err != nil { // not a *handler that is nil
		return nil, err
	}
	return h, nil
}

func (s *Server) handler() (*handler, error) {
	if len(s.Runs) == 0 {
		return nil, fmt.Errorf("view: runs: %w: none is given", ErrRun)
	}
	h := &handler{log: silent.Log(s.Log), key: s.Key, listeners: make(chan struct{}, maxListeners)}
	for i, path := range s.Runs {
		r, err := openRun("r"+strconv.Itoa(i), path)
		if err != nil {
			return nil, err
		}
		h.runs = append(h.runs, r)
	}
	nameRuns(h.runs)
	m := http.NewServeMux()
	m.HandleFunc("/api/runs", answer(h.listRuns))
	m.HandleFunc("/api/config", answer(h.compareConfigs))
	m.HandleFunc("/api/estimators", answer(listEstimators))
	m.HandleFunc("/api/runs/{run}/metrics", of(h, (*run).metricsAnswer))
	m.HandleFunc("/api/runs/{run}/episodes", of(h, (*run).episodesAnswer))
	m.HandleFunc("/api/runs/{run}/episode", of(h, (*run).episodeAnswer))
	m.HandleFunc("/api/runs/{run}/credit", of(h, (*run).creditAnswer))
	m.HandleFunc("/api/runs/{run}/measured", of(h, (*run).measuredAnswer))
	m.HandleFunc("/api/runs/{run}/image", h.image)
	m.HandleFunc("/api/events", h.events)
	m.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, notFound("there is no such address")) })
	m.HandleFunc("/", page)
	h.next = m
	return h, nil
}

// types are the content types of the page's files.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

// page sends a file of the page.
func page(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	raw, err := static.ReadFile("static/" + name)
	if err != nil {
		refuse(w, notFound("there is no such address"))
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
}

// openRun checks that a folder is that of a run.
func openRun(id, dir string) (*run, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %s: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, fmt.Errorf("view: %w: %w", ErrRun, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("view: %w: %s is a file", ErrRun, dir)
	}
	for _, name := range []string{rundir.ConfigName, rundir.MetricsName} {
		if _, err := os.Stat(filepath.Join(abs, name)); err == nil {
			return &run{id: id, path: abs, name: filepath.Base(abs), tokens: tokenizers{lock: make(chan struct{}, 1)}}, nil
		}
	}
	return nil, fmt.Errorf("view: %w: %s has neither %s nor %s", ErrRun, dir, rundir.ConfigName, rundir.MetricsName)
}

// nameRuns adds the folder above to names that occur twice.
func nameRuns(runs []*run) {
	count := map[string]int{}
	for _, r := range runs {
		count[r.name]++
	}
	for _, r := range runs {
		if count[r.name] > 1 {
			r.name = filepath.Join(filepath.Base(filepath.Dir(r.path)), r.name)
		}
	}
}

// handler checks requests and passes them on.
type handler struct {
	log  *slog.Logger
	key  string
	runs []*run
	next http.Handler

	listeners chan struct{} // one for each page that listens to events
}

// of answers requests about one run.
func of[T any](h *handler, f func(*run, context.Context, url.Values) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		run, err := h.run(r.PathValue("run"))
		if err != nil {
			refuse(w, err)
			return
		}
		answer(func(ctx context.Context, q url.Values) (T, error) { return f(run, ctx, q) })(w, r)
	}
}

func (h *handler) run(id string) (*run, error) {
	for _, r := range h.runs {
		if r.id == id {
			return r, nil
		}
	}
	return nil, notFound("there is no run %q", clip(id, 20))
}

// clip shortens a text for an error.
func clip(s string, n int) string {
	s = redact.Text(s)
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
