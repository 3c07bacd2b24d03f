package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// Replayed is what came of playing a recorded step again.
type Replayed struct {
	Step, From int // the step, and that of the checkpoint it was reached from; 0 is the beginning
	Episodes   int
	Tokens     int
	// First is where the episodes begin to differ; nil means nowhere.
	First *rollout.Difference
	// Metrics that differ, as "name: was → is"; those of time are not compared.
	Metrics []string
}

// Same reports whether nothing differs.
func (r *Replayed) Same() bool { return r.First == nil && len(r.Metrics) == 0 }

// errReplayed ends a run that has reached the step.
var errReplayed = errors.New("the step was replayed")

// Replay plays a step of a run again, from the newest checkpoint before it, and
// compares it with what the run recorded in trainer.rollout_data_dir and
// metrics.jsonl: everything that is stored of them. It changes nothing in the run's
// folder. overrides, of the form key=value, give secrets anew, which no file of a run
// holds; they must not change anything else. nil envs are those of the configuration.
func Replay(ctx context.Context, path string, overrides []string, step int, envs *env.Registry, log *slog.Logger) (*Replayed, error) {
	c, err := replayed(filepath.Join(path, "config.yaml"), overrides)
	if err != nil {
		return nil, err
	}
	if envs == nil {
		if envs, err = Envs(&c, log); err != nil {
			return nil, err
		}
	}
	if step < 1 || step > c.Trainer.Steps {
		return nil, fmt.Errorf("step is %d, must be in [1, %d]", step, c.Trainer.Steps)
	}
	episodes, err := recorded(&c, path, step)
	if err != nil {
		return nil, err
	}
	was, err := metricsOf(path, step)
	if err != nil {
		return nil, err
	}
	p, err := before(ctx, &c, path, step)
	if err != nil {
		return nil, err
	}
	model, err := vlm.Open(ctx, c.Agent.Model.Path, ModelOptions(&c, log))
	if err != nil {
		return nil, err
	}
	defer model.Close()
	out := &Replayed{Step: step, Episodes: len(episodes)}
	for _, t := range episodes {
		for r := range t.Rows {
			out.Tokens += t.Rows[r].Len()
		}
	}
	t := rehearsal(c, model, envs, log)
	if p != nil {
		out.From = p.State.Step
		first, err := metricsOf(path, out.From+1)
		if err != nil {
			return nil, err
		}
		// A rollback to the checkpoint is not in it, but led to another way from there.
		if n := int(first["train/rollbacks"]); n != p.State.Stability.Rollbacks {
			p.State.Stability.Rollbacks, p.State.Prefetched = n, nil
		}
		p.State.Interrupted = false
		if err := errors.Join(model.Restore(ctx, p.Path), t.Restore(p.State)); err != nil {
			return nil, err
		}
	}
	t.Observer = comparison(func(now int, ts []*rollout.Trajectory) error {
		if now != step {
			return nil
		}
		if out.First = rollout.FirstDifference(episodes, ts); out.First != nil {
			return nil
		}
		var err error
		out.First, err = store.FirstDifference(recordOf(&c, step), step, ts)
		return err
	})
	t.Sinks = []track.Sink{track.SinkFunc(func(e track.Event) error {
		if e.Kind == track.KindStep && e.Step == step {
			out.Metrics = differing(was, e.Metrics)
			return errReplayed
		}
		return nil
	})}
	if err := t.Run(ctx); !errors.Is(err, errReplayed) {
		return nil, err
	}
	return out, nil
}

// comparison is an observer that compares the episodes of steps with others.
type comparison func(step int, ts []*rollout.Trajectory) error

var _ train.Observer = comparison(nil)

func (c comparison) Played(step int, ts []*rollout.Trajectory) error { return c(step, ts) }
func (c comparison) Validated(int, []*rollout.Trajectory) error      { return nil }

// rehearsal is a run that leaves nothing behind.
func rehearsal(c config.Config, learner policy.Learner, envs *env.Registry, log *slog.Logger) *train.Trainer {
	c.Trainer.ValBefore, c.Trainer.TestFreq, c.Trainer.BestActor = false, 0, false
	c.Stability.Early.Metric = "" // nothing is validated
	c.Stability.Spike.Action, c.Stability.Alarms.Action = "warn", "warn"
	return &train.Trainer{Config: c, Learner: learner, Envs: envs, Log: log, Handled: handledKeys}
}

// replayed reads the configuration of a run, with the secrets that overrides give.
func replayed(path string, overrides []string) (config.Config, error) {
	c, err := config.Load(path, overrides...)
	if err != nil {
		return c, err
	}
	was, err := config.Load(path)
	if err != nil {
		return c, err
	}
	if lines := config.Differences(&was, &c); len(lines) > 0 {
		return c, fmt.Errorf("%w: a step is replayed with the configuration of its run, and only secrets may be given anew:\n  %s", ErrOtherConfig, strings.Join(lines, "\n  "))
	}
	return c, c.CheckSecrets()
}

// recordOf is the file with the episodes of a step.
func recordOf(c *config.Config, step int) string {
	return filepath.Join(*c.Trainer.RolloutDir, fmt.Sprintf(stepFile, step))
}

// recorded reads the episodes of a step.
func recorded(c *config.Config, path string, step int) ([]*rollout.Trajectory, error) {
	dir := c.Trainer.RolloutDir
	if dir == nil {
		return nil, fmt.Errorf("the run in %s recorded no episodes: trainer.rollout_data_dir is null", path)
	}
	r, err := store.Open(recordOf(c, step))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	r.Lenient() // pictures are not compared: trainer.log_image may have left them out
	var out []*rollout.Trajectory
	for s, err := range r.All() {
		if err != nil {
			return nil, err
		}
		if s.Step != step {
			return nil, fmt.Errorf("%s: episode %d is of step %d, not %d", *dir, len(out), s.Step, step)
		}
		out = append(out, s.Trajectory)
	}
	return out, nil
}

// metricsOf reads what a run told of a step.
func metricsOf(path string, step int) (track.Metrics, error) {
	name := filepath.Join(path, "metrics.jsonl")
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		var all map[string]any
		if json.Unmarshal([]byte(line), &all) != nil || all["kind"] != track.KindStep || all["step"] != float64(step) {
			continue
		}
		m := track.Metrics{}
		for key, x := range all {
			switch x := x.(type) {
			case float64:
				m[key] = x
			case nil:
				m[key] = math.NaN()
			}
		}
		delete(m, "step")
		return m, nil
	}
	return nil, fmt.Errorf("%s tells of no step %d", name, step)
}

// before finds the newest whole checkpoint before a step; nil is the beginning.
func before(ctx context.Context, c *config.Config, path string, step int) (*Checkpoint, error) {
	points := (&Folder{Path: path}).Checkpoints(c, nil)
	steps, err := points.Steps()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if s >= step {
			continue
		}
		p, err := OpenCheckpoint(ctx, filepath.Join(points.Dir, fmt.Sprint("step_", s)))
		if err == nil || !errors.Is(err, ErrTorn) {
			return p, err
		}
	}
	if c.Trainer.ResumeFrom == "" {
		return nil, nil
	}
	p, err := OpenCheckpoint(ctx, c.Trainer.ResumeFrom)
	if err == nil && p.State.Step >= step {
		err = fmt.Errorf("step %d was done by the run that %s is of: replay it there", step, c.Trainer.ResumeFrom)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the checkpoint that the run branched off from is gone: %w", err)
	}
	return p, err
}

// differing lists the metrics that differ, those of the machine left out.
func differing(was, is track.Metrics) []string {
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, ok1 := was[name]
		y, ok2 := is[name]
		if !train.MachineMetric(name) && (ok1 != ok2 || x != y && !(unfit(x) && unfit(y))) {
			out = append(out, fmt.Sprintf("%s: %v → %v", name, x, y))
		}
	}
	return out
}

// unfit reports whether a number has no form in metrics.jsonl.
func unfit(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
