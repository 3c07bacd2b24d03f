package vagen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Best is the best validation of a run.
type Best struct {
	Step   int     `json:"step"`
	Metric string  `json:"metric"` // trainer.best_actor_metric
	Value  float64 `json:"value"`
}

// figure is a metric by its name; with a minus in front it is turned around, so
// that more is always better.
func (m Metrics) figure(name string) (value, rank float64, ok bool) {
	plain, minus := strings.CutPrefix(name, "-")
	value, ok = m[plain]
	if !ok || math.IsNaN(value) {
		return 0, 0, false
	}
	if minus {
		return value, -value, true
	}
	return value, value, true
}

// compareBest keeps the policy if a validation was better than all before it.
func (t *Trainer) compareBest(ctx context.Context, step int, m Metrics) error {
	name := t.Config.Trainer.BestMetric
	if !t.Config.Trainer.BestActor || t.KeepBest == nil {
		return nil
	}
	value, rank, ok := m.figure(name)
	if !ok {
		t.Log.Warn("the validation does not have the metric that tells the best policy", "trainer.best_actor_metric", name, "step", step)
		return nil
	}
	if b := t.best; b != nil && b.Metric == name {
		was := b.Value
		if strings.HasPrefix(name, "-") {
			was = -was
		}
		if rank <= was {
			return nil
		}
	}
	b := Best{Step: step, Metric: name, Value: value}
	if err := t.KeepBest(ctx, b); err != nil {
		return err
	}
	t.best = &b
	return nil
}

// SaveBest puts a policy into the folder best_actor, in place of the one before,
// with best.json beside it. save writes the policy to a folder that is empty. The
// folder is never half written, and has nothing to do with checkpoints.
func (f *RunFolder) SaveBest(ctx context.Context, b Best, save func(ctx context.Context, dir string) error) error {
	return f.put(bestFolder, func(dir string) error {
		if err := save(ctx, dir); err != nil {
			return err
		}
		raw, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "best.json"), append(raw, '\n'), 0o644)
	})
}

// SaveExport makes the folder hf/step_<n> with what save writes to an empty one, and
// returns its path.
func (f *RunFolder) SaveExport(step int, save func(dir string) error) (string, error) {
	name := filepath.Join(exportFolder, fmt.Sprint(stepPrefix, step))
	return filepath.Join(f.Path, name), f.put(name, save)
}

// put makes a folder of the run, or replaces it: never by half.
func (f *RunFolder) put(name string, write func(dir string) error) error {
	final := filepath.Join(f.Path, name)
	tmp := final + unfinished
	err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755))
	if err == nil {
		err = write(tmp)
	}
	if err == nil {
		err = syncTree(tmp)
	}
	if err == nil {
		err = replace(tmp, final)
	}
	if err != nil {
		return fmt.Errorf("vagen: %s: %w", name, errors.Join(err, os.RemoveAll(tmp)))
	}
	return nil
}
