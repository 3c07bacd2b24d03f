package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vagen/env"
	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// study trains every preset with every seed. Finished runs are stored in files, so
// that a stopped study resumes with the first missing run.
type study struct {
	setting
	out     string
	backend string
	first   uint64 // seed
	envs    *env.Registry
	log     *slog.Logger
	say     io.Writer

	model *vlm.Model // all runs share its compiled programs; nil until it is needed
}

// point is a validation. The accuracies are the mean shares of right words in the statements
// of well-formed responses.
type point struct {
	Step        int     `json:"step"`
	Success     float64 `json:"success"`
	Turns       float64 `json:"turns"`
	Format      float64 `json:"format"`      // share of well-formed responses
	Observation float64 `json:"observation"` // accuracy in first turns, whose states all runs share
	Prediction  float64 `json:"prediction"`  // accuracy in first turns
	All         float64 `json:"all"`         // accuracy of observations in all turns
}

// result is the stored result of a run.
type result struct {
	Preset string  `json:"preset"`
	Seed   uint64  `json:"seed"`
	Points []point `json:"points"`
}

// run returns the results of the given number of seeds.
func (s *study) run(ctx context.Context, seeds int) (all []result, err error) {
	for seed := s.first; seed < s.first+uint64(seeds); seed++ {
		for _, preset := range s.presets {
			begin := time.Now()
			r, err := s.result(ctx, preset, seed)
			if err != nil {
				return all, fmt.Errorf("%s, seed %d: %w", preset, seed, err)
			}
			all = append(all, r)
			fmt.Fprintf(s.say, "%-12s seed %d:", preset, seed)
			for _, p := range r.Points {
				fmt.Fprintf(s.say, "  %.2f (sees %.2f)", p.Success, p.Observation)
			}
			fmt.Fprintf(s.say, "  %.0f s\n", time.Since(begin).Seconds())
		}
	}
	return all, nil
}

// result reads the stored result of a run, or trains if there is none.
func (s *study) result(ctx context.Context, preset string, seed uint64) (result, error) {
	c, err := s.configure(preset, seed, s.backend)
	if err != nil {
		return result{}, err
	}
	dir := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), preset)
	name := filepath.Join(dir, "result.json")
	raw, err := regular.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.train(ctx, c, preset, dir)
	case err != nil:
		return result{}, err
	}
	used := filepath.Join(dir, rundir.ConfigName)
	stored, err := regular.ReadFile(used)
	if err != nil {
		return result{}, err
	}
	lines, err := s.differences(used, stored, c)
	if err != nil {
		return result{}, err
	}
	if len(lines) > 0 {
		return result{}, fmt.Errorf("%s has results of another configuration: choose another -out, or remove it:\n  %s", dir,
			strings.Join(lines, "\n  "))
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// train trains from the warm start of the seed. Files of an incomplete run are removed.
func (s *study) train(ctx context.Context, c config.Config, preset, dir string) (result, error) {
	r := result{Preset: preset, Seed: c.Run.Seed}
	settings, err := s.settings(c)
	if err != nil {
		return r, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.ConfigName), settings, 0o644); err != nil {
		return r, err
	}
	start, err := s.start(ctx, c.Run.Seed)
	if err != nil {
		return r, err
	}
	if err := s.model.Restore(ctx, start); err != nil {
		return r, err
	}
	if err := s.model.Tie(ctx); err != nil { // the warm start is the reference of the KL term
		return r, err
	}
	lines, err := track.NewJSONLines(filepath.Join(dir, rundir.MetricsName))
	if err != nil {
		return r, err
	}
	t := &train.Trainer{Config: c, Learner: s.model, Envs: s.envs, Log: s.log, Handled: handled,
		Sinks: []track.Sink{lines}, Observer: (*recorder)(&r)}
	if err := errors.Join(t.Run(ctx), lines.Close()); err != nil {
		return r, err
	}
	return r, durable.WriteJSON(filepath.Join(dir, "result.json"), r)
}

// recorder adds validations to a result.
type recorder result

// Played implements train.Observer.
func (*recorder) Played(int, []*rollout.Trajectory) error { return nil }

// Estimated implements train.Observer.
func (*recorder) Estimated(int, []store.Scores) error { return nil }

// Validated implements train.Observer.
func (r *recorder) Validated(step int, ts []*rollout.Trajectory) error {
	c := rollout.Count(ts)
	if c.Usable == 0 {
		return fmt.Errorf("step %d: none of %d validation episodes can be used", step, c.Episodes)
	}
	p := point{Step: step, Success: float64(c.Success) / float64(c.Usable), Turns: float64(c.Turns) / float64(c.Usable)}
	var sees, predicts, all, format mean
	for _, t := range ts {
		for k, turn := range t.Turns {
			sees.addIf(k == 0, turn.Metrics, "observation_score")
			predicts.addIf(k == 0, turn.Metrics, "prediction_score")
			all.addIf(true, turn.Metrics, "observation_score")
			format.add(turn.Parsed.FormatCorrect)
		}
	}
	p.Observation, p.Prediction, p.All, p.Format = sees.value(), predicts.value(), all.value(), format.value()
	r.Points = append(r.Points, p)
	return nil
}

// mean is a mean over turns.
type mean struct{ sum, n float64 }

// addIf adds a metric of a turn, if the turn counts and has it.
func (m *mean) addIf(counts bool, of env.Metrics, name string) {
	if x, ok := of[name]; ok && counts {
		m.sum, m.n = m.sum+x, m.n+1
	}
}

func (m *mean) add(yes bool) {
	if m.n++; yes {
		m.sum++
	}
}

// value is 0 without turns.
func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / m.n
}

// handled are the keys from which the study builds its model (run.ModelOptions), and
// those that only name a run in its config.yaml. No episodes are logged.
var handled = []string{
	"model.", "actor_rollout_ref.model.", "actor_rollout_ref.actor.freeze_vision_tower", "critic.zero_head",
	"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.use_dynamic_bsz",
	"actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
	"trainer.project_name", "trainer.experiment_name", "trainer.log_val_generations",
}

func (s *study) close() error {
	if s.model == nil {
		return nil
	}
	return s.model.Close()
}
