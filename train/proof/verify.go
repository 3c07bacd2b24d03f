package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// ErrNoRecord means that a run has no proof.jsonl.
var ErrNoRecord = errors.New("the run has no " + FileName + ", so nothing can be checked: " +
	"the file was removed, or the run was trained by a version of vagen before it or by a program that does not use train/run")

// State is the result of a check.
type State string

// The states of checks.
const (
	Passed    State = "ok"
	Faulty    State = "fault"
	Missing   State = "missing" // the file does not exist any more; no fault
	Unchecked State = "not checked"
	// Unfinished is what a run leaves that was stopped or is still training, and what a run leaves
	// whose record was cut off.
	Unfinished State = "unfinished"
)

// Check is the result of checking one thing.
type Check struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Report is what Verify found.
type Report struct {
	Run      string  `json:"run"`
	Head     string  `json:"head"` // hash of the last line
	Lines    int     `json:"lines"`
	Sessions int     `json:"sessions"` // start and resumes
	Facts    *Facts  `json:"facts"`    // of the last session; nil if they were lost
	Checks   []Check `json:"checks"`

	history *history
}

// Faults returns the checks that failed.
func (r *Report) Faults() []Check {
	return slices.DeleteFunc(slices.Clone(r.Checks), func(c Check) bool { return c.State != Faulty })
}

// Unfinished returns the checks that are right only for a run that has not ended.
func (r *Report) Unfinished() []Check {
	return slices.DeleteFunc(slices.Clone(r.Checks), func(c Check) bool { return c.State != Unfinished })
}

// Add adds the result of a check.
func (r *Report) Add(what string, state State, format string, args ...any) {
	r.Checks = append(r.Checks, Check{what, state, fmt.Sprintf(format, args...)})
}

// Steps returns the training steps of the run, without those that were undone.
func (r *Report) Steps() []int {
	if r.history == nil { // of a zero value
		return nil
	}
	var out []int
	for _, e := range r.history.events {
		if e.Kind == track.KindStep {
			out = append(out, e.Step)
		}
	}
	return out
}

// Input returns the recorded SHA-256 of an input, such as plugin; "" if there is none.
func (r *Report) Input(name string) string {
	if r.history == nil { // of a zero value
		return ""
	}
	return r.history.inputs[name]
}

// Verify compares the files of a run's folder with its chain. It changes nothing and
// replays nothing. An error means that the run could not be checked: it wraps ErrNoRecord
// if there is no chain. What it found, faults included, is in the report.
//
// A run that trains removes and replaces files while they are compared with what was read of its
// chain. If the chain has grown, all is checked again, at most three times. What is a fault in the
// third check only is then reported as unfinished.
func Verify(ctx context.Context, dir string) (*Report, error) {
	var before []Check
	for again := 2; ; again-- {
		r, err := verify(ctx, dir)
		if err != nil && (r == nil || ctx.Err() != nil) {
			return nil, err
		}
		now, failed := Read(dir)
		grown := failed == nil && now.Head() != r.Head
		switch {
		case grown && again > 0:
			before = r.Checks
			continue
		case err != nil:
			return nil, err
		case grown:
			r.whileWriting(before)
		}
		return r, nil
	}
}

// whileWriting completes the report of a run that has written during the check. Faults are those that
// an earlier check, against another chain, found as well.
func (r *Report) whileWriting(before []Check) {
	for i, c := range r.Checks {
		if c.State == Faulty && !slices.Contains(before, c) {
			r.Checks[i].State = Unfinished
		}
	}
	r.Add(FileName, Unfinished, "the run wrote during the check")
}

// verify checks the run once. The report is nil if there is no chain to compare with.
func verify(ctx context.Context, dir string) (*Report, error) {
	c, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lost := os.Stat(filepath.Join(dir, rundir.ConfigName)); lost != nil {
			return nil, fmt.Errorf("proof: %s contains no run: %w", dir, lost)
		}
		return nil, fmt.Errorf("proof: %s: %w", dir, ErrNoRecord)
	}
	if err != nil {
		return nil, err
	}
	settings, _, err := rundir.Dir(dir).Config()
	h := newHistory(c, err != nil || settings.Repeats())
	r := &Report{Run: dir, Head: c.Head(), Lines: len(c.Lines), Sessions: len(h.sessions), history: h}
	r.chain(c)
	if len(h.sessions) == 0 {
		return r, nil
	}
	r.Facts = h.sessions[len(h.sessions)-1].Facts
	for _, f := range []func(context.Context) error{
		r.configuration, r.metrics, r.episodes, r.checkpoints, r.unrecorded, r.inputs,
	} {
		if err := f(ctx); err != nil {
			return r, err
		}
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
	}
	return r, nil
}

// chain checks the chained file itself.
func (r *Report) chain(c *Chain) {
	h := r.history
	for _, err := range c.Damage {
		r.Add(FileName, Faulty, "%v", err)
	}
	if len(c.Lines) > 0 && c.Lines[0].Kind != KindStart && c.Lines[0].Kind != KindResume || len(h.sessions) == 0 {
		r.Add(FileName, Faulty, "%v: the first line is not the start of a run", ErrChain)
	} else if first := h.sessions[0]; c.Lines[0].Kind == KindResume {
		r.Add(FileName, Faulty, "the first line is a resume after step %d: what the run did before is in no record",
			first.Step)
	} else if first.Step > 0 {
		r.Add("session", Unchecked, "the run started after step %d, from a checkpoint of another run", first.Step)
	}
	for _, err := range h.faults {
		r.Add(FileName, Faulty, "%v", err)
	}
	if c.Torn {
		r.Add(FileName, Missing, "the last line is incomplete: the process stopped while writing it")
	}
	if len(c.Damage) == 0 {
		r.Add(FileName, Passed, "%d lines are chained; the last has hash %s", len(c.Lines), r.Head)
	}
	if !h.ended {
		r.Add(FileName, Unfinished, "the end of the run is not recorded: the run was stopped or is still training, "+
			"or the record was cut off after step %d", h.reached)
	}
	for _, s := range h.sessions[min(1, len(h.sessions)):] {
		r.Add("session", Passed, "%s", s.resumed())
	}
	if h.undone > 0 {
		r.Add("session", Passed, "%d events were undone by resumes and rollbacks; %d results were computed again and are equal", h.undone, h.repeated)
	}
	for _, text := range h.unequal {
		r.Add("session", Unchecked, "%s", text)
	}
}

func (r *Report) configuration(context.Context) error {
	last := r.history.sessions[len(r.history.sessions)-1]
	r.file(rundir.ConfigName, rundir.ConfigName, last.Files[rundir.ConfigName])
	return nil
}

// file compares a file with its recorded hash, and reports whether it is equal. An equal
// file is not added to the report.
func (r *Report) file(what, name, want string) bool {
	s, err := durable.SumOf(rundir.Dir(r.Run).Path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Add(what, Missing, "%s does not exist any more", name)
	case err != nil:
		r.Add(what, Faulty, "%v", err)
	case s.SHA256 != want:
		r.Add(what, Faulty, "%s has SHA-256 %s, but %s was recorded", name, short(s.SHA256), short(want))
	default:
		if what == name {
			r.Add(what, Passed, "equals the record")
		}
		return true
	}
	return false
}

// metrics compares metrics.jsonl line by line.
func (r *Report) metrics(context.Context) error {
	raw, err := regular.ReadFile(rundir.Dir(r.Run).Path(rundir.MetricsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("proof: %w", err)
	}
	want, faults, n := r.history.events, len(r.Faults()), 0
	for len(raw) > 0 {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		raw = rest
		if !whole {
			break // counted as missing
		}
		n++
		e, err := track.ParseEvent(line)
		switch {
		case n <= r.history.older:
		case n > len(want):
			r.Add(rundir.MetricsName, Faulty, "line %d is not in the chain", n)
		case err != nil:
			r.Add(rundir.MetricsName, Faulty, "line %d: %v", n, err)
		case want[n-1].Metrics == "":
		case e.Kind != want[n-1].Kind || e.Step != want[n-1].Step || metricsHash(e) != want[n-1].Metrics ||
			!bytes.Equal(track.Line(e, nil), line):
			r.Add(rundir.MetricsName, Faulty, "line %d is not the recorded event: %s of step %d",
				n, want[n-1].Kind, want[n-1].Step)
		}
	}
	switch lost := len(want) - n; {
	case lost == 1 && !r.history.ended:
		r.Add(rundir.MetricsName, Missing, "the last event, %s of step %d, was not written: the process stopped before",
			want[n].Kind, want[n].Step)
	case lost > 0:
		r.Add(rundir.MetricsName, Faulty, "%d events are missing at the end, the first is %s of step %d",
			lost, want[n].Kind, want[n].Step)
	}
	if older := r.history.older; older > 0 {
		r.Add(rundir.MetricsName, Unchecked, "the first %d events are older than the chain: "+
			"from the run of the checkpoint, or from another version of vagen", older)
	}
	if len(r.Faults()) == faults {
		r.Add(rundir.MetricsName, Passed,
			"%d events equal the record, except metrics of time and machine, which are not recorded",
			n-min(n, r.history.older))
	}
	return nil
}

// episodes compares files with episodes and scores.
func (r *Report) episodes(ctx context.Context) error {
	equal := 0
	for _, name := range slices.Sorted(maps.Keys(r.history.files)) {
		if ctx.Err() == nil && r.file("episodes", name, r.history.files[name].Files[name]) {
			equal++
		}
	}
	if equal > 0 {
		r.Add("episodes", Passed, "%d files equal the record", equal)
	}
	if len(r.history.files) == 0 {
		r.Add("episodes", Unchecked, "the run stored none (trainer.rollout_data_dir is null)")
	}
	return nil
}

// inputs compares the files that the run read.
func (r *Report) inputs(ctx context.Context) error {
	c, removed, err := rundir.Dir(r.Run).Config()
	if err != nil {
		r.Add("inputs", Unchecked, "%v", err)
		return nil
	}
	for _, key := range removed {
		r.Add(rundir.ConfigName, Unchecked, "%s", key)
	}
	want, equal := r.history.inputs, 0
	now := inputFiles(r.inputPaths(&c))
	for _, name := range slices.Sorted(maps.Keys(want)) {
		path, known := now[name]
		if !known {
			continue // the plugin is compared by the process that loads it
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("proof: %w", err)
		}
		if ctx.Err() == nil && r.file("inputs", path, want[name]) {
			equal++
		}
	}
	if equal > 0 {
		r.Add("inputs", Passed, "%d files that the run read equal the record", equal)
	}
	if len(want) == 0 {
		r.Add("inputs", Unchecked, "their hashes are not recorded: the run ended before they were computed, or its learner does not list its inputs")
	}
	return nil
}

// inputPaths returns the folders of a configuration's models and its data files, by their use.
func inputPaths(c *config.Config) map[string]string {
	paths := dataPaths(c)
	maps.Copy(paths, map[string]string{"model": c.Agent.Model.Path, "critic": c.CriticPath(),
		"reference": c.ReferencePath(), "adapter": c.Agent.Model.Adapter})
	maps.DeleteFunc(paths, func(_, path string) bool { return path == "" })
	return paths
}

// dataPaths returns the files of examples or environments that a run reads, by their use.
func dataPaths(c *config.Config) map[string]string {
	of := map[string][]string{"data.train_files": c.Data.TrainFiles, "data.val_files": c.Data.ValFiles}
	if c.Trainer.Stage == config.StageSFT {
		of = map[string][]string{"sft.train_files": c.SFT.TrainFiles, "sft.val_files": c.SFT.ValFiles}
	}
	paths := map[string]string{}
	for key, files := range of {
		for i, file := range files {
			paths[fmt.Sprintf("%s[%d]", key, i)] = file
		}
	}
	return paths
}
