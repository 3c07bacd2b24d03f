package run

import (
	"errors"
	"fmt"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/run/internal/owner"
	"vagen/train/rundir"
)

// archive writes episodes to a folder while training continues. One goroutine writes
// them in the order of the steps, so the files do not depend on timing.
type archive struct {
	dir     string
	release func() error // unlocks the folder
	gallery *store.Gallery
	jobs    chan func() error // each writes a file
	done    chan struct{}
	// wrote, if not nil, is called with every file that was written.
	wrote func(step int, path string) error
	open  sync.WaitGroup // jobs that are not done

	mu  sync.Mutex
	err error // first error
}

// claim records the run as the owner of a folder and locks the folder until release.
// A folder with the episodes of another run, or that another process has locked, is
// refused and not changed.
func claim(dir string, run owner.Run) (release func() error, err error) {
	if err := run.Check(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if release, err = rundir.Dir(dir).Lock(); err != nil {
		return nil, err
	}
	if err = run.Check(dir); err == nil { // another process may have claimed it meanwhile
		err = run.Write(dir)
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

// newArchive writes to a folder that the run has claimed, starting with the step after
// done. It removes files of later steps, which the run wrote before it was stopped.
// done is -1 for a new run.
func newArchive(dir string, release func() error, c *config.Config, done int, log *slog.Logger) (*archive, error) {
	o := &c.Trainer.LogImage
	g, err := store.OpenGallery(dir, store.GalleryOptions{NamesOnly: !o.Enable, Level: level(o.Level),
		Quota: int64(o.Quota) << 20, Log: log})
	if err != nil {
		return nil, err
	}
	if err := removeStepsAfter(dir, done); err != nil {
		return nil, err
	}
	pending := o.MaxPending // in files
	if c.Trainer.RolloutScores {
		pending *= 2
	}
	a := &archive{dir: dir, release: release, gallery: g, jobs: make(chan func() error, pending-1),
		done: make(chan struct{})}
	go a.work()
	return a, nil
}

// level maps a compression level of zlib to one of the four levels of image/png.
func level(n int) png.CompressionLevel {
	switch {
	case n == 0:
		return png.NoCompression
	case n == 1:
		return png.BestSpeed
	case n < 9:
		return png.DefaultCompression
	}
	return png.BestCompression
}

// removeStepsAfter removes the episodes and scores of the steps after done.
func removeStepsAfter(dir string, done int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if step, _, ok := rundir.StepOf(e.Name()); ok && step > done && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *archive) work() {
	defer close(a.done)
	for write := range a.jobs {
		if a.failure() == nil {
			if err := write(); err != nil {
				a.mu.Lock()
				a.err = err
				a.mu.Unlock()
			}
		}
		a.open.Done()
	}
}

// written reports a file to wrote.
func (a *archive) written(step int, name string) error {
	if a.wrote == nil {
		return nil
	}
	return a.wrote(step, filepath.Join(a.dir, name))
}

func (a *archive) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// add queues a step for writing. It blocks while the queue is full, and returns the
// first error of earlier writes.
func (a *archive) add(step int, ts []*rollout.Trajectory) error {
	return a.queue(func() error {
		if err := a.gallery.Save(rundir.EpisodesName(step), step, ts); err != nil {
			return err
		}
		return a.written(step, rundir.EpisodesName(step))
	})
}

// addScores queues the scores of a step for writing, as add does with episodes.
func (a *archive) addScores(step int, scores []store.Scores) error {
	return a.queue(func() error {
		if err := store.SaveScores(filepath.Join(a.dir, rundir.ScoresName(step)), step, scores); err != nil {
			return err
		}
		return a.written(step, rundir.ScoresName(step))
	})
}

func (a *archive) queue(write func() error) error {
	a.open.Add(1)
	a.jobs <- write
	return a.failure()
}

// flush waits until all queued steps and their images are on the disk.
func (a *archive) flush() error {
	_ = a.queue(func() error { a.gallery.Sync(); return nil }) // failure returns its error
	a.open.Wait()
	return a.failure()
}

// rewind removes the steps after done, which a rollback undid.
func (a *archive) rewind(done int) error {
	if err := a.flush(); err != nil {
		return err
	}
	return removeStepsAfter(a.dir, done)
}

// close writes the queued steps, ends the goroutine and unlocks the folder.
func (a *archive) close() error {
	close(a.jobs)
	<-a.done
	return errors.Join(a.failure(), a.release())
}

// archives are the archives of a run.
type archives struct {
	of     [2]*archive     // of rollouts and validations; nil if episodes of that kind are not written
	claims [2]func() error // release the claims of folders without an archive yet
}

// The archives of a run.
const (
	rollouts = iota
	validations
)

// eachFolder calls f for the folders for episodes in a configuration, with the numbers of their archives.
func eachFolder(c *config.Config, f func(i int, dir string) error) error {
	for i, d := range []struct {
		key string
		dir *string
	}{{"trainer.rollout_data_dir", c.Trainer.RolloutDir}, {"trainer.validation_data_dir", c.Trainer.ValDir}} {
		if d.dir == nil {
			continue
		}
		if err := f(i, *d.dir); err != nil {
			return fmt.Errorf("%s: %w", d.key, err)
		}
	}
	return nil
}

// checkArchives refuses folders for episodes that belong to another run than the one in
// path, which need not exist yet. It changes nothing.
func checkArchives(path string, c *config.Config) error {
	run, err := owner.Of(path)
	if err != nil {
		return err
	}
	if err := eachFolder(c, func(_ int, dir string) error { return run.Check(dir) }); err != nil {
		return fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	return nil
}

// claimArchives claims the folders for episodes for the run.
func (r *Run) claimArchives() error {
	return eachFolder(&r.Config, func(i int, dir string) error {
		_, err := r.Folder.ID()
		if err != nil {
			return err
		}
		run, err := owner.Of(r.Folder.Path)
		if err == nil {
			r.archives.claims[i], err = claim(dir, run)
		}
		return err
	})
}

// archive opens the claimed folders.
func (r *Run) archive() error {
	done := -1
	if r.from != nil {
		done = r.from.State.Step
	}
	return eachFolder(&r.Config, func(i int, dir string) error {
		a, err := newArchive(dir, r.archives.claims[i], &r.Config, done, r.log)
		if err != nil {
			return err
		}
		a.wrote = r.proof.AddFile
		r.archives.of[i], r.archives.claims[i] = a, nil
		return nil
	})
}

// close closes the archives, and unlocks folders whose archive was not opened.
func (s *archives) close() error {
	errs := []error{s.each((*archive).close)}
	for _, release := range s.claims {
		if release != nil {
			errs = append(errs, release())
		}
	}
	return errors.Join(errs...)
}

// each calls f for every archive that is not nil.
func (s *archives) each(f func(*archive) error) error {
	var errs []error
	for _, a := range s.of {
		if a != nil {
			errs = append(errs, f(a))
		}
	}
	return errors.Join(errs...)
}
