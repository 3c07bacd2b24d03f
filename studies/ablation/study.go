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
	"slices"
	"time"

	"vagen/env"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// study trains every preset with every seed. Finished runs are stored in files, so
// that a stopped study resumes with the first missing run.
type study struct {
	setting
	out     string
	backend string
	envs    *env.Registry
	log     *slog.Logger
	say     io.Writer

	model *vlm.Model // all runs share its compiled programs; nil until it is needed
}

// point is a validation.
type point struct {
	Step    int     `json:"step"`
	Success float64 `json:"success"`
	Score   float64 `json:"score"` // mean return
	Turns   float64 `json:"turns"`
}

// result is the stored result of a run.
type result struct {
	Preset  string  `json:"preset"`
	Seed    uint64  `json:"seed"`
	Points  []point `json:"points"`
	Seconds float64 `json:"seconds"` // of wall time
	Warm    float64 `json:"warm"`    // seconds of the seed's warm start, if this run made it
}

// errWarmStart means that a seed's warm start does not reach the required success rate.
var errWarmStart = errors.New("the warm start does not reach the required success rate")

// run returns the results of the given number of seeds, and the seeds that were excluded
// because their warm start failed.
func (s *study) run(ctx context.Context, seeds int) (all []result, excluded []uint64, err error) {
	for seed := uint64(0); len(all) < seeds*len(presets); seed++ {
		if len(excluded) > seeds {
			return all, excluded, fmt.Errorf("seeds %d: %w", excluded, errWarmStart)
		}
		of, err := s.seed(ctx, seed)
		switch {
		case errors.Is(err, errWarmStart):
			fmt.Fprintf(s.say, "seed %d is excluded: %v\n", seed, err)
			excluded = append(excluded, seed)
		case err != nil:
			return all, excluded, err
		}
		all = append(all, of...)
	}
	return all, excluded, nil
}

// seed returns the results of one seed.
func (s *study) seed(ctx context.Context, seed uint64) (all []result, err error) {
	failed := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), "failed")
	if _, err := os.Stat(failed); err == nil {
		return nil, errWarmStart
	}
	for _, preset := range presets {
		r, err := s.result(ctx, preset, seed)
		if errors.Is(err, errWarmStart) {
			return nil, errors.Join(err, os.WriteFile(failed, nil, 0o644))
		}
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", preset, seed, err)
		}
		all = append(all, r)
		fmt.Fprintf(s.say, "%-12s seed %d:", preset, seed)
		for _, p := range r.Points {
			fmt.Fprintf(s.say, " %.2f", p.Success)
		}
		fmt.Fprintf(s.say, "  %.0f s\n", r.Seconds)
	}
	return all, nil
}

// result reads the stored result of a run, or trains if there is none.
func (s *study) result(ctx context.Context, preset string, seed uint64) (result, error) {
	c, err := s.configure(preset, seed, s.backend)
	if err != nil {
		return result{}, err
	}
	settings, err := c.YAML()
	if err != nil {
		return result{}, err
	}
	dir := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), preset)
	name := filepath.Join(dir, "result.json")
	raw, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.train(ctx, c, preset, dir, settings)
	case err != nil:
		return result{}, err
	}
	stored, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return result{}, err
	}
	if !slices.Equal(stored, settings) {
		return result{}, fmt.Errorf("%s has results of another configuration: choose another -out, or remove it", dir)
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// train trains from the warm start of the seed. Files of an incomplete run are removed.
func (s *study) train(ctx context.Context, c config.Config, preset, dir string, settings []byte) (result, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), settings, 0o644); err != nil {
		return result{}, err
	}
	start, warm, err := s.start(ctx, c)
	if err != nil {
		return result{}, err
	}
	if err := s.model.Restore(ctx, start); err != nil {
		return result{}, err
	}
	lines, err := track.NewJSONLines(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return result{}, err
	}
	r := result{Preset: preset, Seed: c.Run.Seed, Warm: warm}
	t := &train.Trainer{Config: c, Learner: s.model, Envs: s.envs, Log: s.log, Handled: handled, Sinks: []track.Sink{lines, track.SinkFunc(func(e track.Event) error {
		if m := e.Metrics; e.Kind == track.KindValidate {
			r.Points = append(r.Points, point{e.Step, m["val/success"], m["val/score"], m["val/turns"]})
		}
		return nil
	})}}
	begin := time.Now()
	if err := errors.Join(t.Run(ctx), lines.Close()); err != nil {
		return r, err
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, writeJSON(filepath.Join(dir, "result.json"), r)
}

// handled are the keys from which the study builds its model (run.ModelOptions), and
// those that only name a run in its config.yaml. No episodes are logged.
var handled = []string{
	"model.", "actor_rollout_ref.model.", "actor_rollout_ref.actor.freeze_vision_tower", "critic.zero_head",
	"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.use_dynamic_bsz",
	"actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
	"trainer.project_name", "trainer.experiment_name", "trainer.log_val_generations",
}

// start returns the folder with a seed's warm start, which it creates if it does not
// exist, and the seconds this took. It opens the model if it is not open.
func (s *study) start(ctx context.Context, c config.Config) (dir string, seconds float64, err error) {
	dir = filepath.Join(s.out, fmt.Sprintf("seed%d", c.Run.Seed), "start")
	begin := time.Now()
	if s.model == nil {
		if s.model, err = s.open(ctx, c); err != nil {
			return dir, 0, err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "actor")); err == nil {
		return dir, 0, nil
	}
	if err := s.fresh(ctx, c.Run.Seed); err != nil {
		return dir, 0, err
	}
	if err := s.teach(ctx, c); err != nil {
		return dir, 0, err
	}
	tmp := dir + ".tmp"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir)); err != nil {
		return dir, 0, err
	}
	if err := s.model.Save(ctx, tmp); err != nil {
		return dir, 0, err
	}
	// The optimiser state of the warm start is dropped: reinforcement learning starts with
	// a new one.
	err = errors.Join(os.RemoveAll(filepath.Join(tmp, "optimizer")), os.Rename(tmp, dir))
	return dir, time.Since(begin).Seconds(), err
}

// open creates a model and opens it with a value head, which GRPO does not train.
func (s *study) open(ctx context.Context, c config.Config) (*vlm.Model, error) {
	dir, err := s.create(c.Run.Seed)
	if err != nil {
		return nil, err
	}
	o := run.ModelOptions(&c, s.log)
	o.Critic, o.ZeroValueHead, o.Reference = vlm.SharedCritic, true, false
	return vlm.Open(ctx, dir, o)
}

// create writes a new model with the weights of a seed.
func (s *study) create(seed uint64) (string, error) {
	dir := filepath.Join(s.out, fmt.Sprintf("seed%d", seed), "new")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, vlm.Create(dir, shape(), words, seed)
}

// fresh gives the open model the new weights of a seed and a value head of zeros.
func (s *study) fresh(ctx context.Context, seed uint64) error {
	dir, err := s.create(seed)
	if err != nil {
		return err
	}
	c, err := s.configure(presets[0], seed, s.backend)
	if err != nil {
		return err
	}
	// Compiled programs belong to an open model. To keep them, the weights are loaded
	// from a checkpoint of another model.
	o := run.ModelOptions(&c, s.log)
	o.Critic, o.ZeroValueHead, o.Reference = vlm.SharedCritic, true, false
	other, err := vlm.Open(ctx, dir, o)
	if err != nil {
		return err
	}
	saved := filepath.Join(filepath.Dir(dir), "zero")
	if err := os.RemoveAll(saved); err != nil {
		return errors.Join(err, other.Close())
	}
	if err := errors.Join(other.Save(ctx, saved), other.Close()); err != nil {
		return err
	}
	return s.model.Restore(ctx, saved)
}

// teach imitates scripted turns in rounds until the required success rate is
// reached. How many rounds this takes depends on the initial weights, and twelve training
// steps are too few to compensate for a failed warm start.
func (s *study) teach(ctx context.Context, c config.Config) error {
	// The rounds use the seeds before the training maps, the evaluations those before them.
	first := c.Env.Seed - int64(s.rounds*s.roundTurns)
	evaluated := c
	evaluated.Env.ValSeed = first - int64(s.maps)
	for n := range s.rounds {
		ts, err := s.demonstrate(ctx, c, first+int64(n*s.roundTurns))
		if err != nil {
			return err
		}
		o := s.imitation
		o.Seed = rng.Derive(c.Run.Seed, rng.Shuffle, uint64(n))
		if err := train.Imitate(ctx, s.model, ts, o); err != nil {
			return err
		}
		t := &train.Trainer{Config: evaluated, Learner: s.model, Envs: s.envs, Log: s.log, Handled: handled}
		share, _, err := t.Evaluate(ctx, policy.Sampling{Temperature: 1, MaxTokens: c.Data.MaxResponse})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.say, "seed %d, warm-start round %d: success %v\n", c.Run.Seed, n+1, share)
		if share.Rate >= s.requiredRate {
			return nil
		}
	}
	return errWarmStart
}

// demonstrate records the turns of a round: the first turns of episodes on maps with consecutive
// seeds, starting with first.
func (s *study) demonstrate(ctx context.Context, c config.Config, first int64) ([]*rollout.Trajectory, error) {
	episodes := make([]rollout.Episode, s.roundTurns)
	for i := range episodes {
		episodes[i] = rollout.Episode{Env: c.Env.Name, Config: c.Env.Config, Seed: first + int64(i), Group: i, MaxTurns: 1}
	}
	return rollout.Demonstrate(ctx, s.model, s.envs, episodes, func(e env.Env, ep rollout.Episode, _ int) (string, error) {
		t, ok := e.(*hintedLake)
		if !ok {
			return "", fmt.Errorf("environment is a %T, must be %s", e, worldName)
		}
		return t.scriptedResponse(rng.New(c.Run.Seed, rng.Script, uint64(ep.Seed)), s.noise), nil
	})
}

func (s *study) close() error {
	if s.model == nil {
		return nil
	}
	return s.model.Close()
}

// writeJSON writes a file atomically.
func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
