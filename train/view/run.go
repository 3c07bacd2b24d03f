package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vagen/internal/settings"
	"vagen/train/config"
	"vagen/train/rundir"
)

// imageFolder is the folder of images in one of episodes.
const imageFolder = "images"

// maxSmall limits small text files in bytes.
const maxSmall = 4 << 20

// run is the folder of a run. Its methods are safe for concurrent use.
type run struct {
	id, name string
	path     string // absolute

	mu       sync.Mutex
	config   *config.Config // nil if it cannot be read
	problem  string         // why config cannot be read, or what of it has no effect
	read     stamp          // of config.yaml
	metrics  metricsFile
	episodes index
	texts    textCache
	tokens   tokenizers
	credit   creditCache
}

// stamp identifies the content of a file without reading it.
type stamp struct {
	size int64
	time time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// openRoot opens the run's folder. Paths below it cannot leave it, also through links.
func (r *run) openRoot() (*os.Root, error) { return os.OpenRoot(r.path) }

// open locks the run until done is called, and opens its folder.
func (r *run) open() (root *os.Root, done func(), err error) {
	r.mu.Lock()
	if root, err = r.openRoot(); err != nil {
		r.mu.Unlock()
		return nil, nil, err
	}
	return root, func() { root.Close(); r.mu.Unlock() }, nil
}

// openFile opens a regular file.
func openFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would block
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readFile reads a regular file of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, info, err := openFile(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// loadConfig reads config.yaml if it changed. r.mu is held.
func (r *run) loadConfig(root *os.Root) {
	info, err := root.Stat(rundir.ConfigName)
	if err == nil && stampOf(info) == r.read {
		return
	}
	r.config, r.problem, r.read = nil, "", stamp{}
	var raw []byte
	var c config.Config
	var removed []string
	if err == nil {
		raw, err = readFile(root, rundir.ConfigName, maxSmall)
	}
	if err == nil {
		c, removed, err = config.ReadStored(rundir.ConfigName, raw)
	}
	if err != nil {
		r.problem = sentence("config.yaml cannot be read, so the run's settings are not known: %v", err)
		return
	}
	if len(removed) > 0 {
		r.problem = sentence("config.yaml has keys that do not exist any more: %s", strings.Join(removed, ", "))
	}
	r.config, r.read = &c, stampOf(info)
}

// sentence is a problem as the page shows it: one line that ends with a full stop.
func sentence(format string, args ...any) string {
	s := strings.Join(strings.Fields(clip(fmt.Sprintf(format, args...), 500)), " ")
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "…") {
		s += "."
	}
	return s
}

// dataFolder opens the folder that a setting names for episodes, if it belongs to the run.
// root is nil if there is none; problem says why if there should be one.
func (r *run) dataFolder(own *os.Root, key string, setting *string) (root *os.Root, problem string) {
	if setting == nil {
		return nil, ""
	}
	// A run that was moved has its folder of episodes below it, or beside it.
	path, err := filepath.Abs(*setting)
	if err != nil {
		return nil, sentence("%s: %v", key, err)
	}
	candidates := []string{path, filepath.Join(r.path, filepath.Base(*setting)),
		filepath.Join(filepath.Dir(r.path), filepath.Base(*setting))}
	for _, path := range candidates {
		root, err := os.OpenRoot(path)
		if err != nil {
			continue
		}
		if err = r.owns(own, root); err == nil {
			return root, ""
		}
		_ = root.Close()
		problem = sentence("%s %v", key, err)
	}
	if problem == "" {
		problem = sentence("%s: the folder %s does not exist", key, *setting)
	}
	return nil, problem
}

// owns reports, as an error, that a folder's episodes are not those of the run.
func (r *run) owns(own, dir *os.Root) error {
	id, err := readFile(own, rundir.IDName, maxSmall)
	if err != nil {
		return fmt.Errorf("is not read: the run has no run.id that would show that %s belongs to it", dir.Name())
	}
	was, err := readFile(dir, rundir.OwnerName, maxSmall)
	if err != nil {
		return fmt.Errorf("is not read: %s has no run.txt that would show that it belongs to the run", dir.Name())
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(was)), "\n")
	if first == "" || first != strings.TrimSpace(string(id)) {
		return fmt.Errorf("is not read: %s belongs to another run", dir.Name())
	}
	return nil
}

// runAnswer is a run in the answer of /api/runs.
type runAnswer struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Steps     int      `json:"steps"`
	Live      bool     `json:"live"`
	Updated   int64    `json:"updated"`
	Problems  []string `json:"problems"`
	Episodes  int      `json:"episodes"`
	Estimator string   `json:"estimator"`
	Seed      uint64   `json:"seed"`
}

func (h *handler) listRuns(context.Context, url.Values) (map[string][]runAnswer, error) {
	out := make([]runAnswer, len(h.runs))
	var wait sync.WaitGroup
	for i, r := range h.runs {
		wait.Go(func() { out[i] = r.about() })
	}
	wait.Wait()
	return map[string][]runAnswer{"runs": out}, nil
}

// about describes the run.
func (r *run) about() runAnswer {
	a := runAnswer{ID: r.id, Name: r.name, Problems: []string{}}
	root, done, err := r.open()
	if err != nil {
		a.Problems = append(a.Problems, sentence("The run's folder cannot be read: %v", err))
		return a
	}
	defer done()
	r.refresh(root)
	if r.problem != "" {
		a.Problems = append(a.Problems, r.problem)
	}
	a.Problems = append(append(a.Problems, r.metrics.problems()...), r.episodes.problems()...)
	a.Steps, a.Episodes = r.metrics.steps, len(r.episodes.all())
	if !r.metrics.read.time.IsZero() {
		a.Updated = r.metrics.read.time.Unix()
	}
	if c := r.config; c != nil {
		a.Estimator, a.Seed = c.Algorithm.Estimator, c.Run.Seed
		a.Live = r.metrics.live(c.Trainer.Steps, time.Now())
	}
	return a
}

// refresh reads what was written since the last time. r.mu is held.
func (r *run) refresh(root *os.Root) {
	r.loadConfig(root)
	r.metrics.refresh(root)
	r.episodes.refresh(r, root)
}

// keyAnswer is a setting of several runs.
type keyAnswer struct {
	Key    string    `json:"key"`
	Values []*string `json:"values"`
}

func (h *handler) compareConfigs(_ context.Context, q url.Values) (map[string][]keyAnswer, error) {
	runs := h.runs
	if ids := q.Get("runs"); ids != "" {
		runs = nil
		for _, id := range strings.Split(ids, ",") {
			r, err := h.run(id)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(runs, r) {
				runs = append(runs, r)
			}
		}
	}
	var names []string
	values := map[string][]*string{}
	for i, r := range runs {
		for _, k := range r.settings() {
			if values[k.Path] == nil {
				names, values[k.Path] = append(names, k.Path), make([]*string, len(runs))
			}
			text := config.ValueText(k.Value)
			values[k.Path][i] = &text
		}
	}
	out := make([]keyAnswer, 0, len(names))
	for _, name := range names {
		out = append(out, keyAnswer{name, values[name]})
	}
	return map[string][]keyAnswer{"keys": out}, nil
}

// settings are the run's settings without secrets, none if they cannot be read.
func (r *run) settings() []settings.Key {
	root, done, err := r.open()
	if err != nil {
		return nil
	}
	defer done()
	if r.loadConfig(root); r.config == nil {
		return nil
	}
	return config.SafeKeys(r.config)
}
