package proof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// StageWeights is the stage, after those of package track, at which the weights of a checkpoint are.
const StageWeights = "weights"

// Finding is the first difference between two runs.
type Finding struct {
	Step  int    `json:"step"`
	Stage string `json:"stage"` // of the step
	What  string `json:"what"`  // the episode and token, the metrics, or the tensor, with both values
}

// Bisection is the result of Bisect.
type Bisection struct {
	A     string       `json:"a"`
	B     string       `json:"b"`
	Facts []Difference `json:"facts"` // machine, backend, code and inputs that differ
	// settings that differ, as "key: a → b"; those that change no result are left out
	Config   []string `json:"config"`
	Sessions []string `json:"sessions"`
	Compared int      `json:"compared"` // number of steps that both runs have and that are equal
	First    *Finding `json:"first"`    // nil if nothing differs
	// first tensor of the first checkpoint that both have and that differs; nil for none
	Weights *Finding `json:"weights"`
	Cause   string   `json:"cause"` // likely cause; "" if nothing differs
	Notes   []string `json:"notes"` // what could not be compared
}

// side is one of the two runs.
type side struct {
	dir     rundir.Dir
	config  config.Config
	history *history // nil without a chain
	events  []track.Event
}

// Bisect finds the first difference between two runs, and names the likely cause: a setting,
// the seed, the model, the plugin, the processor, or the code. Runs without a chain are
// compared by their configurations, metrics, stored episodes and checkpoints. It changes
// nothing.
func Bisect(ctx context.Context, a, b string) (*Bisection, error) {
	out := &Bisection{A: a, B: b}
	var runs [2]*side
	var err error
	for i, path := range []string{a, b} {
		if runs[i], err = out.openSide(path); err != nil {
			return nil, err
		}
	}
	out.compareFacts(runs[0], runs[1])
	if err := out.walk(ctx, runs[0], runs[1]); err != nil {
		return nil, err
	}
	if out.Weights, err = out.compareWeights(ctx, runs[0], runs[1]); err != nil {
		return nil, err
	}
	if w := out.Weights; w != nil &&
		(out.First == nil || w.Step < out.First.Step && out.First.Stage != track.StageImitation) {
		out.First = w
	}
	out.explain()
	return out, nil
}

func (b *Bisection) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.Notes, text) {
		b.Notes = append(b.Notes, text)
	}
}

// openSide reads a run. What is not compared is noted.
func (b *Bisection) openSide(path string) (*side, error) {
	s := &side{dir: rundir.Dir(path)}
	var removed []string
	var err error
	if s.config, removed, err = s.dir.Config(); err != nil {
		return nil, fmt.Errorf("proof: %s: %w", path, err)
	}
	for _, key := range removed {
		b.note("a key of %s does not exist any more: %s", path, key)
	}
	c, err := Read(path)
	switch {
	case err == nil:
		s.history = newHistory(c, s.config.Repeats())
	case errors.Is(err, fs.ErrNotExist):
		b.note("%s has no %s: its machine, code and inputs are unknown", path, FileName)
	default:
		return nil, err
	}
	for e, err := range s.dir.Events {
		switch {
		case errors.Is(err, rundir.ErrTorn):
			b.note("%v: the process stopped while writing it", err)
		case err != nil:
			return nil, fmt.Errorf("proof: %w", err)
		default:
			s.events = append(s.events, e)
		}
	}
	return s, nil
}

// facts returns the facts of the last session, nil if unknown.
func (s *side) facts() *Facts {
	if s.history == nil || len(s.history.sessions) == 0 {
		return nil
	}
	return s.history.sessions[len(s.history.sessions)-1].Facts
}

// compareFacts compares everything that is known of the runs before their steps.
func (b *Bisection) compareFacts(x, y *side) {
	left := results
	if x.hashed() && y.hashed() {
		left = slices.Concat(results, inputs)
	}
	b.Config = slices.DeleteFunc(config.Differences(&x.config, &y.config), func(line string) bool {
		return len(settings([]string{line}, left...)) > 0
	})
	if f, g := x.facts(), y.facts(); f != nil && g != nil {
		b.Facts = append(f.MachineDifferences(g), f.CodeDifferences(g)...)
	}
	if x.history == nil || y.history == nil {
		return
	}
	if !x.hashed() || !y.hashed() {
		b.note("the hashes of model, data files and plugin are not recorded by both runs")
	} else {
		b.Facts = append(b.Facts, inputDifferences(x.history.inputs, y.history.inputs)...)
	}
	for _, s := range []*side{x, y} {
		for _, l := range s.history.sessions {
			if l.Kind == KindResume || len(l.Changed) > 0 {
				b.Sessions = append(b.Sessions, fmt.Sprintf("%s: %s", s.dir, l.resumed()))
			}
		}
	}
}

// hashed reports whether the hashes of the run's inputs are recorded.
func (s *side) hashed() bool { return s.history != nil && len(s.history.inputs) > 0 }

var (
	// results are settings that name places for results: they differ between runs, and change no result.
	results = []string{"trainer.rollout_data_dir", "trainer.validation_data_dir"}
	// inputs are settings that name files, which are compared by their hashes instead, where both runs recorded them.
	inputs = []string{"actor_rollout_ref.model.path", "actor_rollout_ref.model.lora_adapter_path",
		"actor_rollout_ref.ref.model.path", "critic.model.path", "data.train_files", "data.val_files", "sft.train_files",
		"sft.val_files"}
)

// inputDifferences compares the hashes of inputs.
func inputDifferences(a, b map[string]string) []Difference {
	var all []Difference
	for name, hash := range a {
		all = append(all, Difference{name, short(hash), short(b[name])})
	}
	for name, hash := range b {
		if _, both := a[name]; !both {
			all = append(all, Difference{name, short(""), short(hash)})
		}
	}
	all = unequal(all)
	slices.SortFunc(all, func(x, y Difference) int { return strings.Compare(x.What, y.What) })
	return all
}

// walk compares the runs step by step up to the first difference.
func (b *Bisection) walk(ctx context.Context, x, y *side) error {
	for i := 0; i < max(len(x.events), len(y.events)); i++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if i >= len(x.events) || i >= len(y.events) {
			b.note("one run is shorter: %d and %d events", len(x.events), len(y.events))
			return nil
		}
		e, f := x.events[i], y.events[i]
		if e.Kind != f.Kind || e.Step != f.Step {
			if e.Kind == track.KindStep || f.Kind == track.KindStep || e.Kind == f.Kind {
				b.note("the runs validate or save at different steps; compared up to %s of step %d and %s of step %d", e.Kind,
					e.Step, f.Kind, f.Step)
			}
			return b.stepsOnly(x, y, i)
		}
		if err := b.event(x, y, e, f); err != nil || b.First != nil {
			return err
		}
	}
	return nil
}

// stepsOnly compares the remaining training steps of runs whose other events differ.
func (b *Bisection) stepsOnly(x, y *side, from int) error {
	steps := func(all []track.Event) []track.Event {
		return slices.DeleteFunc(slices.Clone(all[from:]), func(e track.Event) bool { return e.Kind != track.KindStep })
	}
	left, right := steps(x.events), steps(y.events)
	for i := range min(len(left), len(right)) {
		if left[i].Step != right[i].Step {
			return nil
		}
		if err := b.event(x, y, left[i], right[i]); err != nil || b.First != nil {
			return err
		}
	}
	return nil
}

// event compares an event of both runs.
func (b *Bisection) event(x, y *side, e, f track.Event) (err error) {
	differs := string(track.Line(e, track.MachineMetric)) != string(track.Line(f, track.MachineMetric))
	if e.Kind == track.KindStep {
		if b.First, err = b.compareEpisodes(x, y, e.Step); err != nil || b.First != nil {
			return err
		}
		if b.First, err = b.compareScores(x, y, e.Step); err != nil || b.First != nil {
			return err
		}
	}
	if !differs {
		if e.Kind == track.KindStep {
			b.Compared++
		}
		return nil
	}
	b.First = metricsFinding(e, f)
	return nil
}
