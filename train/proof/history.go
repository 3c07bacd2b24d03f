package proof

import (
	"fmt"
	"slices"
	"strings"

	"vagen/train/rundir"
	"vagen/train/track"
)

// history is a chain without what was undone by resumes and rollbacks.
type history struct {
	sessions []Line          // starts and resumes
	events   []Line          // that metrics.jsonl must have, in order
	older    int             // events at the start that were written before the chain, or copied from another run
	files    map[string]Line // of episodes and scores, by name
	saves    map[int]Line
	inputs   map[string]string // hashes
	paths    map[string]string // of inputs that the configuration does not name
	ended    bool              // the run has ended: no step, session or rollback comes after its end
	named    map[string]bool   // every file that a line names, also those of undone steps
	reached  int               // the last step that the chain accounts for

	repeats  bool    // on the same machine the same bits are computed again
	undone   int     // events that a resume or a rollback removed
	repeated int     // lines that repeat one before a resume, with the same result
	faults   []error // lines with another result, and events without a line
	unequal  []string
}

// result identifies what must be equal when it is computed again.
type result struct {
	kind, name      string
	step, rollbacks int
}

// seen is a result, with the session that computed it.
type seen struct {
	hash    string
	session *Facts
}

// newHistory reads a chain. repeats says that the run's configuration promises the same bits again.
func newHistory(c *Chain, repeats bool) *history {
	h := &history{
		repeats: repeats,
		files:   map[string]Line{}, saves: map[int]Line{}, inputs: map[string]string{}, paths: map[string]string{},
		named: map[string]bool{},
	}
	before := map[result]seen{}
	for _, l := range c.Lines {
		if l.Kind != KindInputs && l.Kind != KindFile { // these are written in the background
			h.ended = l.Kind == KindEnd
		}
		for name := range l.Files {
			h.named[name] = true
		}
		switch l.Kind {
		case KindStart, KindResume:
			h.begin(l)
			h.reached = l.Step
		case KindInputs:
			h.addInputs(l)
		case KindEnd:
		case KindFile:
			for name, hash := range l.Files {
				h.repeat(before, result{l.Kind, name, l.Step, l.Rollbacks}, hash)
				h.files[name] = l
			}
		case track.KindRollback:
			h.cut(slices.IndexFunc(h.events, func(e Line) bool { return e.Kind != track.KindImitate && e.Step > l.Step }))
			h.drop(l.Step)
			h.reached = l.Step
		default:
			h.reached = max(h.reached, l.Step)
			h.repeat(before, result{l.Kind, "metrics", l.Step, l.Rollbacks}, l.Metrics)
			h.events = append(h.events, l)
			if l.Kind == track.KindSave && l.Checkpoint != "" {
				h.repeat(before, result{l.Kind, "checkpoint", l.Step, l.Rollbacks}, l.Checkpoint)
				h.saves[l.Step] = l
			}
		}
	}
	return h
}

// begin starts a session: events after its checkpoint are undone.
func (h *history) begin(l Line) {
	if len(h.sessions) == 0 {
		h.older = max(l.Kept, 0)
		h.events = make([]Line, min(h.older, maxEvents))
	} else if l.Step > h.reached {
		h.faults = append(h.faults, fmt.Errorf("%w: the run was resumed after step %d, but the record ends with step %d",
			ErrChain, l.Step, h.reached))
	}
	if was := h.saves[l.Step].Checkpoint; was != "" && l.Checkpoint != was {
		h.faults = append(h.faults, fmt.Errorf(
			"the run was resumed from a checkpoint of step %d whose %s has SHA-256 %s, but %s was saved",
			l.Step, rundir.ManifestName, short(l.Checkpoint), short(was)))
	}
	h.sessions = append(h.sessions, l)
	if l.Kept > len(h.events) {
		h.faults = append(h.faults, fmt.Errorf(
			"%w: metrics.jsonl had %d events when the run was resumed after step %d, but the chain has %d", ErrChain, l.Kept,
			l.Step, len(h.events)))
		h.events = append(h.events, make([]Line, max(0, min(l.Kept, maxEvents)-len(h.events)))...)
	}
	h.cut(max(l.Kept, 0))
	h.drop(l.Step)
}

// maxEvents limits what a damaged line can allocate.
const maxEvents = 1 << 20

// cut removes the events from a position; -1 removes none.
func (h *history) cut(at int) {
	if at >= 0 && at < len(h.events) {
		h.undone += len(h.events) - at
		h.events = h.events[:at]
	}
}

// drop removes files and checkpoints of later steps.
func (h *history) drop(step int) {
	for name, l := range h.files {
		if l.Step > step {
			delete(h.files, name)
		}
	}
	for saved := range h.saves {
		if saved > step {
			delete(h.saves, saved)
		}
	}
}

// repeat compares a result with that of an earlier session of the same facts.
func (h *history) repeat(before map[result]seen, of result, hash string) {
	var now *Facts
	if n := len(h.sessions); n > 0 {
		now = h.sessions[n-1].Facts
	}
	was, again := before[of]
	before[of] = seen{hash, now}
	switch {
	case !again || was.session == now:
	case was.hash == hash:
		h.repeated++
	case was.session == nil || now == nil || was.session.Config != now.Config || !was.session.SameMachine(now) ||
		len(was.session.CodeDifferences(now)) > 0:
		h.unequal = append(h.unequal, fmt.Sprintf(
			"%s of step %d was repeated after a resume with another configuration, machine or version, and differs", of.text(),
			of.step))
	case !h.repeats || strings.HasPrefix(now.Backend, "xla:cuda"):
		h.unequal = append(h.unequal, fmt.Sprintf(
			"%s of step %d was repeated after a resume, and differs, as runs on a GPU, with servers, run.continuous or run.patience may",
			of.text(), of.step))
	default:
		h.faults = append(h.faults, fmt.Errorf("%s of step %d was repeated after a resume, and differs: %s → %s", of.text(),
			of.step, short(was.hash), short(hash)))
	}
}

// text names the result.
func (r result) text() string {
	if r.kind == KindFile {
		return r.name
	}
	return r.kind + " (" + r.name + ")"
}
