package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"vagen/env"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	environments "vagen/train/envs"
	"vagen/train/proof"
	"vagen/train/run"
	"vagen/train/track"
)

// Result is the result of replaying a recorded step.
type Result struct {
	Step, From int // the step, and the step of the checkpoint that the replay starts from; 0 is the start of the run
	Episodes   int
	Tokens     int
	// First is the first difference between the episodes; nil means none.
	First *store.Difference
	// Metrics that differ, as "name: was → is", also those that only the record has, or only the replay. Those of time
	// and machine are not compared.
	Metrics []string
	// Closeness is how much the numbers differ.
	Closeness proof.Closeness
}

// Same reports whether nothing differs.
func (r *Result) Same() bool { return r.First == nil && len(r.Metrics) == 0 }

// Step replays a step of a run from the newest checkpoint before it, and compares all
// episodes, scores and metrics with those that the run recorded in
// trainer.rollout_data_dir and metrics.jsonl. It changes nothing in the run's folder. Responses that
// servers generated cannot be repeated: then the recorded episodes are used, so that what is
// compared is what was computed from them. overrides, of the form
// key=value, set secrets, which files of a run do not contain; they must not change
// other settings. If envs is nil, the environments of the configuration are used.
func Step(
	ctx context.Context, path string, overrides []string, step int, envs *env.Registry, log *slog.Logger,
) (*Result, error) {
	r, err := openRecord(path, overrides, log)
	if err != nil {
		return nil, err
	}
	if envs == nil {
		if envs, err = environments.Open(&r.config, log); err != nil {
			return nil, err
		}
		defer envs.Close()
	}
	was, err := r.step(step)
	if err != nil {
		return nil, err
	}
	r.config.Trainer.RolloutScores = was.scores != nil
	p, err := r.before(ctx, step)
	if err != nil {
		return nil, err
	}
	model, err := vlm.Open(ctx, r.config.Agent.Model.Path, run.ModelOptions(&r.config, log))
	if err != nil {
		return nil, err
	}
	defer model.Close()
	t := r.trainer(model, envs, log)
	collect := t.Collect
	if r.config.UsesEngine() {
		t.Learner = sampled{model}
		collect = func(_ context.Context, step int) (*train.Collected, error) { return r.collect(step) }
	}
	if p != nil {
		if err := r.restore(ctx, t, model, p); err != nil {
			return nil, err
		}
	}
	out := &Result{Step: step, Episodes: len(was.episodes)}
	for _, e := range was.episodes {
		for i := range e.Rows {
			out.Tokens += e.Rows[i].Len()
		}
	}
	if p != nil {
		out.From = p.State.Step
	}
	return out, was.compare(ctx, t, collect, out)
}

// trainer returns a trainer that writes no files.
func (r *record) trainer(model *vlm.Model, envs *env.Registry, log *slog.Logger) *train.Trainer {
	return &train.Trainer{Config: r.config, Learner: model, Envs: envs, Log: log, Handled: train.OuterKeys()}
}

// restore restores a checkpoint.
func (r *record) restore(ctx context.Context, t *train.Trainer, model *vlm.Model, p *run.Checkpoint) error {
	first, err := r.dir.Metrics(p.State.Step + 1)
	if err != nil {
		return err
	}
	// A rollback to the checkpoint is not recorded in it, but changes the steps after it.
	if n := int(first["train/rollbacks"]); n != p.State.Stability.Rollbacks {
		p.State.Stability.Rollbacks, p.State.Prefetched = n, nil
	}
	return errors.Join(model.Restore(ctx, p.Path), t.Restore(p.State))
}

// compare does the steps up to that of out, and adds how it differs from the record.
func (s *recordedStep) compare(
	ctx context.Context, t *train.Trainer, collect func(context.Context, int) (*train.Collected, error), out *Result,
) error {
	var kept scoreKeeper
	t.Observer = &kept
	for n := out.From + 1; n < out.Step; n++ {
		played, err := collect(ctx, n)
		if err != nil {
			return err
		}
		if _, err := t.Step(ctx, played); err != nil {
			return err
		}
	}
	played, err := collect(ctx, out.Step)
	if err != nil {
		return err
	}
	out.Closeness.AddEpisodes(s.episodes, played.Episodes)
	if out.First, err = store.FirstDifference(s.episodes, played.Episodes); err != nil {
		return err
	}
	m, err := t.Step(ctx, played)
	if err != nil {
		return err
	}
	out.Metrics = differing(s.metrics, m)
	out.Closeness.AddMetrics(s.metrics, m)
	if out.First != nil || s.scores == nil {
		return nil
	}
	if d := store.FirstScoresDifference(s.scores, kept.scores); d != nil {
		of := func(t *rollout.Trajectory) bool { return t.Group == d.Group && t.Index == d.Index }
		d.Episode, out.First = slices.IndexFunc(s.episodes, of), d
	}
	return nil
}

// scoreKeeper is an observer that keeps the scores of the newest step.
type scoreKeeper struct{ scores []store.Scores }

var _ train.Observer = (*scoreKeeper)(nil)

func (k *scoreKeeper) Played(int, []*rollout.Trajectory) error { return nil }

func (k *scoreKeeper) Estimated(_ int, scores []store.Scores) error {
	k.scores = scores
	return nil
}

func (k *scoreKeeper) Validated(int, []*rollout.Trajectory) error { return nil }

// differing lists the metrics that differ, except those of time and machine.
func differing(was, is track.Metrics) []string {
	var out []string
	for _, name := range was.Unequal(is) {
		x, ok1 := was[name]
		y, ok2 := is[name]
		switch {
		case !ok1:
			out = append(out, fmt.Sprintf("%s: not recorded → %v", name, y))
		case !ok2:
			out = append(out, fmt.Sprintf("%s: %v → not computed", name, x))
		default:
			out = append(out, fmt.Sprintf("%s: %v → %v", name, x, y))
		}
	}
	return out
}
