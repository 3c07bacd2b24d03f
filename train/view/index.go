package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"vagen/rollout/store"
	"vagen/train/credit"
	"vagen/train/rundir"
)

// The kinds of episodes.
const (
	kindTrain = "train"
	kindVal   = "val"
	// kindMeasured are training episodes that the run did not record: `vagen credit`
	// played or scored them, and measured them.
	kindMeasured = "measured"
)

const (
	// maxFiles limits the files of episodes of a run.
	maxFiles = 100_000
	// maxMemory limits what a file of episodes or scores may take in memory when it is read, in
	// bytes. The scores of 10 million tokens take 310 MB.
	maxMemory = 512 << 20
	// maxProblems limits the problems that are listed.
	maxProblems = 20
)

// index lists the episodes of a run. A file is read again when its size or its time of
// change differs.
type index struct {
	folders map[string]string   // of each kind, the path of its folder; absent if there is none
	files   map[fileKey]*source // what was read
	faults  []string
	cached  []entry // of all files; nil after a change
	changes int     // counts changes of the list
}

// fileKey identifies a file: step_<n>.parquet, or the folder episodes/step_<n>.
type fileKey struct {
	kind     string
	step     int
	readable bool
}

// source is a file of episodes.
type source struct {
	fileKey
	stamp
	scores    bool            // the scores of the step are recorded
	measured  map[string]bool // of kindMeasured: episodes with a result, as <group>-<index>
	summaries []store.Summary
	names     []string // of the files in a folder episodes/step_<n>, for each summary
	problem   string
}

// entry is an episode of the list.
type entry struct {
	*source
	*store.Summary
	row int // in the file
}

func (e *entry) key() string { return fmt.Sprintf("%s/%d/%s", e.kind, e.source.step, e.name()) }

// name identifies the episode in its step.
func (e *entry) name() string { return fmt.Sprintf("%d-%d", e.Group, e.Index) }

// refresh reads new and changed files. The run's lock is held.
func (x *index) refresh(r *run, root *os.Root) {
	x.folders, x.faults = map[string]string{}, nil
	found := map[fileKey]*source{}
	if c := r.config; c != nil {
		for _, d := range []struct {
			kind, key string
			path      *string
		}{{kindTrain, "trainer.rollout_data_dir", c.Trainer.RolloutDir},
			{kindVal, "trainer.validation_data_dir", c.Trainer.ValDir}} {
			dir, problem := r.dataFolder(root, d.key, d.path)
			if problem != "" {
				x.faults = append(x.faults, problem)
			}
			if dir != nil {
				x.folders[d.kind] = dir.Name()
				x.scan(dir, d.kind, found)
				_ = dir.Close()
			}
		}
	}
	x.scanMeasured(r, root, found)
	x.scanShown(root, found)
	x.update(r.path, found)
}

// scan lists the files of a folder.
func (x *index) scan(dir *os.Root, kind string, found map[fileKey]*source) {
	entries, err := readDir(dir, ".")
	if err != nil {
		x.faults = append(x.faults, sentence("%s cannot be listed: %v", dir.Name(), err))
		return
	}
	scores := map[int]bool{}
	for _, e := range entries {
		if step, is, ok := rundir.StepOf(e.Name()); ok && is && e.Type().IsRegular() {
			scores[step] = true
		}
	}
	for _, e := range entries {
		step, is, ok := rundir.StepOf(e.Name())
		if !ok || is {
			continue
		}
		if !e.Type().IsRegular() {
			x.faults = append(x.faults, sentence("%s in %s is not a regular file; it is left out", e.Name(), dir.Name()))
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it was removed meanwhile
		}
		k := fileKey{kind: kind, step: step}
		found[k] = &source{fileKey: k, stamp: stampOf(info), scores: scores[step]}
	}
}

// scanMeasured lists the episodes that a measurement made. The folder is one in the run's
// folder, also through links.
func (x *index) scanMeasured(r *run, root *os.Root, found map[fileKey]*source) {
	dir, err := root.OpenRoot(credit.PlayedFolder("."))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			x.faults = append(x.faults, sentence("the folder %s cannot be opened: %v", credit.PlayedFolder("."), err))
		}
		return
	}
	defer dir.Close()
	x.folders[kindMeasured] = credit.PlayedFolder(r.path)
	x.scan(dir, kindMeasured, found)
	for k, s := range found {
		if k.kind != kindMeasured {
			continue
		}
		s.measured = map[string]bool{}
		results, _ := readDir(root, filepath.Dir(credit.Path(".", credit.Key{Step: k.step}))) // without it there are none
		for _, e := range results {
			if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && e.Type().IsRegular() {
				s.measured[name] = true
			}
		}
	}
}

// scanShown lists the folders of validation episodes in readable form. Those of a step
// whose episodes are stored completely are left out.
func (x *index) scanShown(root *os.Root, found map[fileKey]*source) {
	entries, err := readDir(root, rundir.Shown)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			x.faults = append(x.faults, sentence("the folder episodes cannot be listed: %v", err))
		}
		return
	}
	for _, e := range entries {
		step, ok := rundir.Number(e.Name(), rundir.StepPrefix, "")
		if !ok || !e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if found[fileKey{kind: kindVal, step: step}] == nil {
			k := fileKey{kindVal, step, true}
			found[k] = &source{fileKey: k, stamp: stampOf(info)}
		}
	}
}

func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("it has %d entries, at most %d are listed", len(entries), maxFiles)
	}
	return entries, err
}

// update reads the files that are new or changed, several at a time, and forgets those
// that are gone.
func (x *index) update(run string, found map[fileKey]*source) {
	var fresh []*source
	changed := len(found) != len(x.files)
	for k, s := range found {
		if old := x.files[k]; old != nil && old.stamp == s.stamp {
			changed = changed || old.scores != s.scores || !maps.Equal(old.measured, s.measured)
			old.scores, old.measured = s.scores, s.measured
			found[k] = old
			continue
		}
		fresh = append(fresh, s)
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	for _, s := range fresh {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if s.readable {
				s.loadShown(run)
			} else {
				s.load(x.folders[s.kind])
			}
		})
	}
	wait.Wait()
	x.files = found
	if changed || len(fresh) > 0 {
		x.cached = nil
		x.changes++
	}
}

// load reads the summaries of a file's episodes.
func (s *source) load(folder string) {
	r, err := s.open(folder)
	if err == nil {
		s.summaries, err = r.Summaries()
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		s.summaries = nil
		s.problem = sentence("The episodes of step %d (%s) cannot be read: %v", s.step, s.kind, err)
	}
}

// open opens a file of episodes.
func (s *source) open(folder string) (*store.Reader, error) {
	dir, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, _, err := openFile(dir, rundir.EpisodesName(s.step))
	if err != nil {
		return nil, err
	}
	r, err := store.NewReader(f)
	if err != nil {
		return nil, err
	}
	r.Limit(maxMemory)
	return r, nil
}

// sources are the files by kind and step.
func (x *index) sources() []*source {
	return slices.SortedFunc(maps.Values(x.files), func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.step, b.step))
	})
}

// all lists the episodes by kind, step, group and index.
func (x *index) all() []entry {
	if x.cached != nil {
		return x.cached
	}
	out := []entry{}
	for _, s := range x.sources() {
		for i := range s.summaries {
			e := entry{s, &s.summaries[i], i}
			// The others of a measured step are there for estimators that compare episodes.
			if s.kind != kindMeasured || s.measured[e.name()] {
				out = append(out, e)
			}
		}
	}
	x.cached = out
	return out
}

// problems lists what cannot be read.
func (x *index) problems() []string {
	out := slices.Clone(x.faults)
	for _, s := range x.sources() {
		if p := s.problem; p != "" {
			out = append(out, p)
		}
	}
	if n := len(out); n > maxProblems {
		out = append(out[:maxProblems], sentence("%d more files cannot be read", n-maxProblems))
	}
	return out
}
