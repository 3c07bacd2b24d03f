package credit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/rollout/store"
	"vagen/train/rundir"
)

// PlayedFolder returns the folder, in a run's folder, of the episodes that were played or
// scored for a measurement, with files like those of trainer.rollout_data_dir, so that they can be
// shown with their results.
func PlayedFolder(run string) string { return filepath.Join(run, Folder, "episodes") }

// SavePlayed writes the episodes of a training step with their images, and the numbers of
// their tokens, to PlayedFolder. All episodes of the step are written, since estimators
// compare them. log receives a warning about images that cannot be written; nil discards it.
func (s *Step) SavePlayed(run string, step int, log *slog.Logger) error {
	dir := PlayedFolder(run)
	g, err := store.OpenGallery(dir, store.GalleryOptions{Log: log})
	if err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	// Episodes come last: what lists them finds their numbers.
	if err := store.SaveScores(filepath.Join(dir, rundir.ScoresName(step)), step, s.Scores); err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	if err := g.Save(rundir.EpisodesName(step), step, s.Episodes); err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	return nil
}

// RemovePlayed removes what SavePlayed wrote for a step, except for images, which steps
// share: the run has recorded the step since, and the results are those of its episodes.
func RemovePlayed(run string, step int) error {
	for _, name := range []string{rundir.EpisodesName(step), rundir.ScoresName(step)} {
		if err := os.Remove(filepath.Join(PlayedFolder(run), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("credit: %w", err)
		}
	}
	return nil
}

// keepMade keeps the episodes that were made for the measurement. Without them it removes
// those of an earlier one.
func (m *Measurement) keepMade() error {
	if m.Made {
		return m.Step.SavePlayed(m.Run, m.Played, m.Log)
	}
	return RemovePlayed(m.Run, m.Played)
}
