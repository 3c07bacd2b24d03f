package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
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
	environments "vagen/train/envs"
	"vagen/train/proof"
	"vagen/train/rundir"
	"vagen/train/track"
)

// Replayed is the result of replaying a recorded step.
type Replayed struct {
	Step, From int // the step, and the step of the checkpoint that the replay starts from; 0 is the start of the run
	Episodes   int
	Tokens     int
	// First is the first difference between the episodes; nil means none.
	First *rollout.Difference
	// Metrics that differ, as "name: was → is". Those of time and machine are not compared.
	Metrics []string
	// Closeness is how much the numbers differ.
	Closeness proof.Closeness
}

// Same reports whether nothing differs.
func (r *Replayed) Same() bool { return r.First == nil && len(r.Metrics) == 0 }

// errReplayed stops the run after the replayed step.
var errReplayed = errors.New("the step was replayed")

// Replay replays a step of a run from the newest checkpoint before it, and compares all
// episodes, scores and metrics with those that the run recorded in
// trainer.rollout_data_dir and metrics.jsonl. It changes nothing in the run's folder. Responses that
// servers generated cannot be repeated: then the recorded episodes are used, so that what is
// compared is what was computed from them. overrides, of the form
// key=value, set secrets, which files of a run do not contain; they must not change
// other settings. If envs is nil, the environments of the configuration are used.
func Replay(ctx context.Context, path string, overrides []string, step int, envs *env.Registry, log *slog.Logger) (*Replayed, error) {
	c, err := replayed(path, overrides, log)
	if err != nil {
		return nil, err
	}
	if envs == nil {
		if envs, err = environments.Open(&c, log); err != nil {
			return nil, err
		}
	}
	if err := checkPlayedByServers(&c); err != nil {
		return nil, err
	}
	if step < 1 || step > c.Trainer.Steps {
		return nil, fmt.Errorf("run: step is %d, must be in [1, %d]", step, c.Trainer.Steps)
	}
	episodes, err := recorded(&c, path, step)
	if err != nil {
		return nil, err
	}
	scores, err := store.LoadScores(recordOf(&c, rundir.ScoresName(step)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c.Trainer.RolloutScores = scores != nil
	was, err := rundir.Dir(path).Metrics(step)
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
	t := replayTrainer(c, model, envs, log)
	if c.UsesEngine() {
		t = trainerOfRecorded(&c, path, model, envs, log)
	}
	if p != nil {
		out.From = p.State.Step
		first, err := rundir.Dir(path).Metrics(out.From + 1)
		if err != nil {
			return nil, err
		}
		// A rollback to the checkpoint is not recorded in it, but changes the steps after it.
		if n := int(first["train/rollbacks"]); n != p.State.Stability.Rollbacks {
			p.State.Stability.Rollbacks, p.State.Prefetched = n, nil
		}
		p.State.Interrupted = false
		if err := errors.Join(model.Restore(ctx, p.Path), t.Restore(p.State)); err != nil {
			return nil, err
		}
	}
	t.Observer = comparison{
		step: step,
		played: func(ts []*rollout.Trajectory) (err error) {
			out.Closeness.AddEpisodes(episodes, ts)
			if out.First = rollout.FirstDifference(episodes, ts); out.First == nil {
				out.First, err = store.FirstDifference(recordOf(&c, rundir.EpisodesName(step)), step, ts)
			}
			return err
		},
		estimated: func(now []store.Scores) error {
			if out.First != nil || scores == nil {
				return nil
			}
			if d := store.FirstScoresDifference(scores, now); d != nil {
				of := func(t *rollout.Trajectory) bool { return t.Group == d.Group && t.Index == d.Index }
				d.Episode, out.First = slices.IndexFunc(episodes, of), d
			}
			return nil
		},
	}
	t.Sinks = []track.Sink{track.SinkFunc(func(e track.Event) error {
		if e.Kind == track.KindStep && e.Step == step {
			out.Metrics = differing(was, e.Metrics)
			out.Closeness.AddMetrics(was, e.Metrics)
			return errReplayed
		}
		return nil
	})}
	if err := t.Run(ctx); !errors.Is(err, errReplayed) {
		return nil, err
	}
	return out, nil
}

// comparison is an observer that compares the episodes and scores of a step with others.
type comparison struct {
	step      int
	played    func(ts []*rollout.Trajectory) error
	estimated func(scores []store.Scores) error
}

var _ train.Observer = comparison{}

func (c comparison) Played(step int, ts []*rollout.Trajectory) error {
	if step != c.step {
		return nil
	}
	return c.played(ts)
}

func (c comparison) Estimated(step int, scores []store.Scores) error {
	if step != c.step {
		return nil
	}
	return c.estimated(scores)
}

func (c comparison) Validated(int, []*rollout.Trajectory) error { return nil }

// replayTrainer returns a trainer that writes no files and does not validate.
func replayTrainer(c config.Config, learner policy.Learner, envs *env.Registry, log *slog.Logger) *train.Trainer {
	c.Trainer.ValBefore, c.Trainer.TestFreq, c.Trainer.BestActor = false, 0, false
	c.Stability.Early.Metric = "" // there are no validations
	c.Stability.Spike.Action, c.Stability.Alarms.Action = "warn", "warn"
	return &train.Trainer{Config: c, Learner: learner, Envs: envs, Log: log, Handled: train.OuterKeys()}
}

// replayed reads the configuration of a run, with the secrets in overrides. Keys that do not exist any more are
// logged.
func replayed(path string, overrides []string, log *slog.Logger) (config.Config, error) {
	was, removed, err := rundir.Dir(path).Config()
	if err != nil {
		return was, err
	}
	logChanges(log, "keys of the run's configuration do not exist any more", path, removed)
	c := was
	for _, o := range overrides {
		if err := c.Override(o); err != nil {
			return c, err
		}
	}
	if lines := config.Differences(&was, &c); len(lines) > 0 {
		return c, fmt.Errorf("%w: a step is replayed with the configuration of its run, and overrides may only set secrets:\n  %s", ErrOtherConfig, strings.Join(lines, "\n  "))
	}
	if err := (config.Registries{}).Validate(&c); err != nil {
		return c, err
	}
	return c.OneNode(), c.CheckSecrets()
}

// recordOf returns a file with episodes or scores.
func recordOf(c *config.Config, name string) string {
	return filepath.Join(*c.Trainer.RolloutDir, name)
}

// recorded reads the episodes of a step.
func recorded(c *config.Config, path string, step int) ([]*rollout.Trajectory, error) {
	dir := c.Trainer.RolloutDir
	if dir == nil {
		return nil, fmt.Errorf("run: trainer.rollout_data_dir is null: the run in %s recorded no episodes", path)
	}
	r, err := store.Open(recordOf(c, rundir.EpisodesName(step)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	r.Lenient() // images are not compared: with trainer.log_image they may not be stored
	var out []*rollout.Trajectory
	for s, err := range r.All() {
		if err != nil {
			return nil, err
		}
		if s.Step != step {
			return nil, fmt.Errorf("run: %s: episode %d is of step %d, must be of step %d", *dir, len(out), s.Step, step)
		}
		out = append(out, s.Trajectory)
	}
	return out, nil
}

// before finds the newest complete checkpoint before a step; nil means that the replay
// starts at the beginning of the run.
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
		p, err := OpenCheckpoint(ctx, points.path(s))
		if err == nil || !errors.Is(err, ErrTorn) {
			return p, err
		}
	}
	if c.Trainer.ResumeFrom == "" {
		return nil, nil
	}
	p, err := OpenCheckpoint(ctx, c.Trainer.ResumeFrom)
	if err == nil && p.State.Step >= step {
		err = fmt.Errorf("run: step is %d, but the run started from %s, which is not before it: replay the step in the run of that checkpoint", step, c.Trainer.ResumeFrom)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("run: the checkpoint that the run started from does not exist any more: %w", err)
	}
	return p, err
}

// differing lists the metrics that differ, except those of time and machine.
func differing(was, is track.Metrics) []string {
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, ok1 := was[name]
		y, ok2 := is[name]
		if !train.MachineMetric(name) && (ok1 != ok2 || x != y && !(notFinite(x) && notFinite(y))) {
			out = append(out, fmt.Sprintf("%s: %v → %v", name, x, y))
		}
	}
	return out
}

// notFinite reports whether a number is not finite, which metrics.jsonl writes as null.
func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
