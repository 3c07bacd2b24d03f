package vagen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/redact"
	"vagen/internal/settings"
)

// ErrOtherConfig means that a run was begun with another configuration.
var ErrOtherConfig = errors.New("the run was begun with another configuration")

// freeKeys may differ when a run goes on: they change no number.
var freeKeys = []string{
	"run.workers", "trainer.logger", "trainer.prometheus_address", "trainer.resume_mode", "trainer.resume_from_path", "trainer.allow_config_change", "trainer.default_local_dir",
	"trainer.project_name", "trainer.experiment_name", "trainer.remove_previous_ckpt_in_save",
	"trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep", "trainer.save_on_interrupt",
	"trainer.log_val_generations", "trainer.val_log_select", "trainer.val_log_success_ratio", "trainer.log_image.max_pending",
	"huggingface_hub.hf_save_freq", "huggingface_hub.upload_contents", "huggingface_hub.repo_id", "huggingface_hub.private",
}

// Differences lists the keys in which two configurations differ, as lines
// "key: old → new" in the order of the keys. Secrets are neither compared nor shown.
func Differences(old, new *Config) []string {
	var lines []string
	before, after := safeKeys(old), safeKeys(new)
	for i, k := range before {
		was, is := shown(k.Value), shown(after[i].Value)
		if was != is && !slices.Contains(freeKeys, k.Path) {
			lines = append(lines, fmt.Sprintf("%s: %s → %s", k.Path, was, is))
		}
	}
	return lines
}

// safeKeys are the settings of a configuration without their secrets.
func safeKeys(c *Config) []settings.Key {
	keys := settings.Keys(c)
	for i := range keys {
		keys[i].Value = safeValue(keys[i])
	}
	return keys
}

// safeValue is a setting's value without its secrets.
func safeValue(k settings.Key) any {
	return redact.Value(k.Path[strings.LastIndexByte(k.Path, '.')+1:], k.Value)
}

// shown is a setting's value as one line.
func shown(value any) string {
	raw, err := json.Marshal(value)
	if err != nil { // what has no JSON form still has a text
		return fmt.Sprint(value)
	}
	return string(raw)
}

// OpenRun opens the folder of a run to go on with it. A configuration that
// differs from the folder's is an ErrOtherConfig that lists the differences,
// unless allow is true: Changed lists them, and Lock replaces the folder's. Keys
// that change no number, such as run.workers, may always differ, and the number of
// steps may grow. A folder in which another process works is an ErrRunBusy.
func OpenRun(path string, c *Config, allow bool) (*RunFolder, error) {
	name := filepath.Join(path, configName)
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("vagen: there is no run in %s: %w", path, err)
	}
	lines, err := compare(name, raw, c, allow)
	if err != nil {
		return nil, err
	}
	f := &RunFolder{Path: path, Changed: lines, read: raw}
	if len(lines) > 0 {
		if f.pending, err = c.stored(); err != nil {
			return nil, fmt.Errorf("vagen: %w", err)
		}
	}
	unlock, err := LockFolder(path)
	if err != nil {
		return nil, err
	}
	return f, unlock()
}

// compare lists how a configuration differs from the one in a file. A run may be
// made longer without allow.
func compare(name string, raw []byte, c *Config, allow bool) ([]string, error) {
	old := Default()
	if err := settings.Load(&old, raw); err != nil {
		return nil, fmt.Errorf("vagen: %w: %s: %w", ErrConfig, name, err)
	}
	lines := Differences(&old, c)
	other := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return c.Trainer.Steps > old.Trainer.Steps && (strings.HasPrefix(line, "trainer.total_training_steps:") || strings.HasPrefix(line, "trainer.total_epochs:"))
	})
	if len(other) < len(lines) && c.scheduled() {
		lines = append(lines, fmt.Sprintf("schedules: from here on they are those of a run of %d steps", c.Trainer.Steps))
	}
	if len(other) > 0 && !allow {
		return nil, fmt.Errorf("vagen: %w: %s (trainer.allow_config_change=true goes on with this one):\n  %s", ErrOtherConfig, name, strings.Join(other, "\n  "))
	}
	return lines, nil
}

// scheduled reports whether anything depends on the number of steps.
func (c *Config) scheduled() bool {
	for _, o := range []*OptimConfig{&c.Agent.Actor.Optim, &c.Critic.Optim} {
		if o.Style != "constant" || o.WarmupSteps <= 0 && o.WarmupRatio > 0 {
			return true
		}
	}
	return c.Stability.Clip.Style != "constant" || c.Stability.KL.Style != "constant"
}

// Fits holds a configuration against the one that the checkpoint was saved with, as
// OpenRun does with a folder's, and lists the differences.
func (p *Checkpoint) Fits(c *Config, allow bool) ([]string, error) {
	return compare(filepath.Join(p.Path, configName), p.Config, c, allow)
}

// Rewind takes what happened after a checkpoint out of metrics.jsonl, so that a
// run which goes on from there writes the file that it would have written without
// a stop. nil is no checkpoint: nothing is kept. It returns the events that are
// left, with the total number of steps: sinks that hold a run's history, such as a
// Curve, want to see them again. That the checkpoint was saved is not among them:
// the Trainer that goes on from it tells so.
func (f *RunFolder) Rewind(from *State, total int) ([]Event, error) {
	path := filepath.Join(f.Path, metricsName)
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("vagen: metrics: %w", err)
	}
	kept, events, err := keep(raw, func(e Event) bool { return after(e, from) })
	if err != nil {
		return nil, fmt.Errorf("vagen: metrics: %s: %w", path, err)
	}
	if err := writeFile(path, kept); err != nil {
		return nil, fmt.Errorf("vagen: metrics: %w", err)
	}
	for i := range events {
		events[i].Total = total
	}
	return events, nil
}

// LastSave is the latest step at which metrics.jsonl reports a checkpoint; ok is
// false when it reports none.
func (f *RunFolder) LastSave() (step int, ok bool, err error) {
	path := filepath.Join(f.Path, metricsName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("vagen: metrics: %w", err)
	}
	_, events, err := keep(raw, func(Event) bool { return false })
	if err != nil {
		return 0, false, fmt.Errorf("vagen: metrics: %s: %w", path, err)
	}
	for _, e := range events {
		if e.Kind == KindSave {
			step, ok = max(step, e.Step), true
		}
	}
	return step, ok, nil
}

// keep returns the lines before the first event that is over, and what they say. A
// last line without an end was being written when the process died.
func keep(raw []byte, over func(Event) bool) ([]byte, []Event, error) {
	var events []Event
	at := 0
	for line := 1; ; line++ {
		n := bytes.IndexByte(raw[at:], '\n')
		if n < 0 {
			return raw[:at], events, nil
		}
		e, err := parseEvent(raw[at : at+n])
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", line, err)
		}
		if over(e) {
			return raw[:at], events, nil
		}
		events = append(events, e)
		at += n + 1
	}
}

// after reports whether an event came after a checkpoint. Imitation comes before
// all steps; step 0 is saved after it, before the first validation. A run that was
// interrupted has yet to do what is due after the step.
func after(e Event, from *State) bool {
	switch {
	case from == nil:
		return true
	case e.Kind == KindImitate:
		return false
	case from.Step == 0:
		return e.Kind != KindSave || e.Step > 0
	case e.Step == from.Step:
		return e.Kind == KindSave || from.Interrupted && e.Kind != KindStep
	default:
		return e.Step > from.Step
	}
}

// parseEvent reads a line of metrics.jsonl; numbers that were not finite are left out.
func parseEvent(line []byte) (Event, error) {
	var all map[string]any
	if err := json.Unmarshal(line, &all); err != nil {
		return Event{}, err
	}
	kind, ok := all["kind"].(string)
	step, ok2 := all["step"].(float64)
	if !ok || !ok2 {
		return Event{}, errors.New("no kind, or no step")
	}
	e := Event{Kind: kind, Step: int(step), Metrics: Metrics{}}
	delete(all, "kind")
	delete(all, "step")
	for name, x := range all {
		if x, ok := x.(float64); ok {
			e.Metrics[name] = x
		}
	}
	return e, nil
}
