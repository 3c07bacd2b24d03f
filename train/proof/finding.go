package proof

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/rundir"
	"vagen/train/track"
)

// compareEpisodes compares the stored episodes of a step; nil if they are equal, or not
// stored by both runs.
func (b *Bisection) compareEpisodes(x, y *side, step int) (*Finding, error) {
	name := rundir.EpisodesName(step)
	p, q := x.stored(name), y.stored(name)
	if p == "" || q == "" {
		b.note("episodes are not compared: a run does not store them (trainer.rollout_data_dir)")
		return nil, nil
	}
	if same, err := equalFiles(p, q); err != nil || same {
		if errors.Is(err, fs.ErrNotExist) {
			b.note("episodes of step %d are not compared: %v", step, err)
			return nil, nil
		}
		return nil, err
	}
	was, err := trajectories(p, step)
	if err != nil {
		return nil, err
	}
	is, err := trajectories(q, step)
	if err != nil {
		return nil, err
	}
	d, err := store.FirstDifference(was, is)
	if d == nil {
		return nil, err
	}
	return &Finding{step, track.StageEpisodes, d.String()}, nil
}

// compareScores compares the stored scores of a step: log-probs, values, rewards and
// advantages of tokens. It returns nil if they are equal, or not stored by both runs.
func (b *Bisection) compareScores(x, y *side, step int) (*Finding, error) {
	if !x.config.Trainer.RolloutScores || !y.config.Trainer.RolloutScores {
		b.note("scores of tokens are not compared: a run does not store them (trainer.rollout_data_scores)")
		return nil, nil
	}
	name := rundir.ScoresName(step)
	was, err1 := store.LoadScores(x.stored(name))
	is, err2 := store.LoadScores(y.stored(name))
	switch err := errors.Join(err1, err2); {
	case errors.Is(err, fs.ErrNotExist):
		b.note("scores of step %d are not compared: %v", step, err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("proof: %w", err)
	}
	if d := store.FirstScoresDifference(was, is); d != nil {
		text := fmt.Sprintf("group %d, index %d: %s was %s, is %s", d.Group, d.Index, d.What, d.Was, d.Is)
		return &Finding{step, track.StageAdvantages, text}, nil
	}
	return nil, nil
}

// stored is the file of episodes or scores with this name, "" if the run stores no episodes. Folders in
// the run's folder are found where the folder is now.
func (s *side) stored(name string) string {
	if s.history != nil {
		for file := range s.history.files {
			if (file == name || strings.HasSuffix(file, "/"+name)) && !s.validation(file) {
				return s.dir.Path(file)
			}
		}
	}
	if s.config.Trainer.RolloutDir == nil {
		return ""
	}
	return filepath.Join(*s.config.Trainer.RolloutDir, name)
}

// validation reports whether a file has the episodes of a validation.
func (s *side) validation(file string) bool {
	dir := s.config.Trainer.ValDir
	return dir != nil && filepath.Base(filepath.Dir(s.dir.Path(file))) == filepath.Base(*dir)
}

// equalFiles reports whether two files have the same content.
func equalFiles(p, q string) (bool, error) {
	a, err1 := durable.SumOf(p)
	b, err2 := durable.SumOf(q)
	if err := cmp.Or(err1, err2); err != nil {
		return false, fmt.Errorf("proof: %w", err)
	}
	return a == b, nil
}

// trajectories reads the file of episodes of a step. Images are compared by their names.
func trajectories(path string, step int) ([]*rollout.Trajectory, error) {
	r, err := store.Open(path)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	defer r.Close()
	r.Lenient()
	out, err := r.Step(step)
	if err != nil {
		err = fmt.Errorf("proof: %w", err)
	}
	return out, err
}

// metricsFinding names the metrics in which two events differ, those of the earliest stage.
func metricsFinding(e, f track.Event) *Finding {
	of := map[string][]string{}
	for _, name := range e.Metrics.Unequal(f.Metrics) {
		x, ok := e.Metrics[name]
		y, ok2 := f.Metrics[name]
		stage := track.StageValidation
		switch e.Kind {
		case track.KindStep:
			m, _ := track.MetricOf(name)
			stage = m.Stage
		case track.KindImitate:
			stage = track.StageImitation
		}
		of[stage] = append(of[stage], fmt.Sprintf("%s %v → %v", name, shown(x, ok), shown(y, ok2)))
	}
	for _, stage := range []string{track.StageImitation, track.StageEpisodes, track.StageAdvantages, track.StageUpdate,
		track.StageValidation} {
		if lines := of[stage]; len(lines) > 0 {
			text := "metrics " + strings.Join(lines[:min(4, len(lines))], ", ")
			if more := len(lines) - 4; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			return &Finding{e.Step, stage, text}
		}
	}
	return &Finding{e.Step, track.StageUpdate, "the " + e.Kind + " events differ"}
}

func shown(x float64, ok bool) string {
	if !ok {
		return "(none)"
	}
	return fmt.Sprint(x)
}
