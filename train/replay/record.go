package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vagen/advantage"
	"vagen/internal/silent"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/run"
	"vagen/train/rundir"
	"vagen/train/track"
)

// record is what a run recorded of itself.
type record struct {
	dir    rundir.Dir
	config config.Config
}

// openRecord reads the configuration of a run, with the secrets in overrides. Keys that do not exist
// any more are logged.
func openRecord(path string, overrides []string, log *slog.Logger) (*record, error) {
	r := &record{dir: rundir.Dir(path)}
	was, removed, err := r.dir.Config()
	if err != nil {
		return nil, err
	}
	log = silent.Log(log)
	for _, key := range removed {
		log.Warn("keys of the run's configuration do not exist any more", "in", path, "key", key)
	}
	r.warnOfOtherPrograms(log)
	c := was
	for _, o := range overrides {
		if err := c.Override(o); err != nil {
			return nil, err
		}
	}
	if lines := config.Differences(&was, &c); len(lines) > 0 {
		return nil, fmt.Errorf("%w: a step is replayed with the configuration of its run, and overrides may only set secrets:\n  %s", run.ErrOtherConfig, strings.Join(lines, "\n  "))
	}
	if err := (config.Registries{}).Validate(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", r.dir.Path(rundir.ConfigName), err)
	}
	r.config = c.OneNode()
	return r, c.CheckSecrets()
}

// warnOfOtherPrograms logs in what the program that trained the run differs from this one, if the run has a proof.
func (r *record) warnOfOtherPrograms(log *slog.Logger) {
	chain, err := proof.Read(string(r.dir))
	if err != nil {
		return
	}
	for _, l := range slices.Backward(chain.Lines) {
		if l.Facts == nil {
			continue
		}
		for _, d := range l.Facts.CodeDifferences(proof.NewFacts(nil, 0, "")) {
			log.Warn("the run was trained by another program: differences can come from it, and what only one of the two "+
				"computes is not comparable", "difference", d.String())
		}
		return
	}
}

// recordedStep is what a run recorded of a step.
type recordedStep struct {
	episodes []*rollout.Trajectory
	scores   []store.Scores // nil if they were not recorded
	metrics  track.Metrics
}

// ErrStep means that a run has no such step.
var ErrStep = errors.New("bad step")

// step reads what was recorded of a step that is to be replayed.
func (r *record) step(step int) (*recordedStep, error) {
	if err := r.checkServers(); err != nil {
		return nil, err
	}
	if step < 1 || step > r.config.Trainer.Steps {
		return nil, fmt.Errorf("replay: %w: it is %d, must be in [1, %d]", ErrStep, step, r.config.Trainer.Steps)
	}
	out := &recordedStep{}
	var err error
	if out.episodes, err = r.episodes(step); err != nil {
		return nil, err
	}
	if out.scores, err = r.scores(step); err != nil {
		return nil, err
	}
	out.metrics, err = r.dir.Metrics(step)
	return out, err
}

// path returns a file with episodes or scores.
func (r *record) path(name string) string { return filepath.Join(*r.config.Trainer.RolloutDir, name) }

// episodes reads the episodes of a step.
func (r *record) episodes(step int) ([]*rollout.Trajectory, error) {
	dir := r.config.Trainer.RolloutDir
	if dir == nil {
		return nil, fmt.Errorf("replay: trainer.rollout_data_dir is null: the run in %s recorded no episodes", r.dir)
	}
	f, err := store.Open(r.path(rundir.EpisodesName(step)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	f.Lenient() // images are not compared: with trainer.log_image they may not be stored
	return f.Step(step)
}

// scores reads the scores of a step; nil if they were not recorded.
func (r *record) scores(step int) ([]store.Scores, error) {
	scores, err := store.LoadScores(r.path(rundir.ScoresName(step)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return scores, err
}

// checkpoint opens the checkpoint of a step.
func (r *record) checkpoint(ctx context.Context, step int) (*run.Checkpoint, error) {
	return run.OpenCheckpoint(ctx, r.dir.Path(rundir.Checkpoint(step)))
}

// before finds the newest complete checkpoint before a step; nil means that the replay
// starts at the beginning of the run.
func (r *record) before(ctx context.Context, step int) (*run.Checkpoint, error) {
	steps, err := r.dir.Steps()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if s >= step {
			continue
		}
		p, err := r.checkpoint(ctx, s)
		if err == nil || !errors.Is(err, run.ErrTorn) {
			return p, err
		}
	}
	from := r.config.Trainer.ResumeFrom
	if from == "" {
		return nil, nil
	}
	p, err := run.OpenCheckpoint(ctx, from)
	if err == nil && p.State.Step >= step {
		err = fmt.Errorf("replay: step is %d, but the run started from %s, which is not before it: replay the step in the run of that checkpoint", step, from)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("replay: the checkpoint that the run started from does not exist any more: %w", err)
	}
	return p, err
}

// checkServers refuses to replay a run on servers whose records do not have all that its
// updates depended on.
func (r *record) checkServers() error {
	if !r.config.UsesEngine() {
		return nil
	}
	spec, err := advantage.Describe(r.config.Algorithm.Estimator)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if spec.Baselines {
		return fmt.Errorf("replay: %w: servers generated the responses of this run, so that its recorded episodes are replayed, but the greedy episodes of {algorithm.adv_estimator} %s are not recorded", config.ErrConfig, spec.Name)
	}
	return nil
}

// sampled is a model whose responses servers generated.
type sampled struct{ *vlm.Model }

// SampledByEngine implements policy.EngineSampler.
func (sampled) SampledByEngine() {}

// collect returns the recorded episodes of a step, which cannot be played again.
func (r *record) collect(step int) (*train.Collected, error) {
	ts, err := r.episodes(step)
	if err != nil {
		return nil, err
	}
	if !withImages(ts) {
		return nil, fmt.Errorf("replay: %w: the recorded episodes of step %d lack images, which the update needs (trainer.log_image)", config.ErrConfig, step)
	}
	was, err := r.dir.Metrics(step)
	if err != nil {
		return nil, err
	}
	// What playing measured is taken from the record.
	maps.DeleteFunc(was, func(name string, _ float64) bool {
		m, _ := track.MetricOf(name)
		return !m.Playing
	})
	out := train.NewCollected(step, ts)
	maps.Copy(out.Metrics, was)
	return out, nil
}

// withImages reports whether recorded episodes have all images of their rows.
func withImages(episodes []*rollout.Trajectory) bool {
	for _, t := range episodes {
		for i := range t.Rows {
			for _, im := range t.Rows[i].Images {
				if _, absent := im.Image.(store.Absent); absent || im.Image == nil {
					return false
				}
			}
		}
	}
	return true
}
