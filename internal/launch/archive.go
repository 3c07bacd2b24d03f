package launch

import (
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"vagen"
	"vagen/rollout"
	"vagen/rollout/store"
)

// archive writes episodes to a folder while training goes on: one goroutine, in
// the order of the steps, so that what it leaves depends on nothing else.
type archive struct {
	dir     string
	gallery *store.Gallery
	jobs    chan job
	done    chan struct{}
	open    sync.WaitGroup // jobs that are not done

	mu  sync.Mutex
	err error // the first
}

// job is a step to write.
type job struct {
	step int
	ts   []*rollout.Trajectory
}

const stepFile = "step_%d.parquet"

// ownerName names the run that a folder belongs to.
const ownerName = "run.txt"

// newArchive writes to dir, from the step after done on: files of later steps are
// what the run left when it was stopped, and go. done is -1 for a run that begins.
// A folder of another run is refused.
func newArchive(dir string, c *vagen.Config, done int, log *slog.Logger) (*archive, error) {
	o := &c.Trainer.LogImage
	g, err := store.OpenGallery(dir, store.GalleryOptions{NamesOnly: !o.Enable, Level: level(o.Level), Quota: int64(o.Quota) << 20, Log: log})
	if err != nil {
		return nil, err
	}
	if err := own(dir, c.Trainer.Project+"/"+c.Trainer.Experiment+"\n"); err != nil {
		return nil, err
	}
	if err := forget(dir, done); err != nil {
		return nil, err
	}
	a := &archive{dir: dir, gallery: g, jobs: make(chan job, o.MaxPending-1), done: make(chan struct{})}
	go a.work()
	return a, nil
}

// own holds a folder's owner against a run, or makes the run its owner.
func own(dir, name string) error {
	path := filepath.Join(dir, ownerName)
	raw, err := os.ReadFile(path)
	switch {
	case err == nil && string(raw) == name:
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s holds the episodes of %q, and this run is %q", vagen.ErrRunExists, dir, strings.TrimSpace(string(raw)), strings.TrimSpace(name))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "step_*.parquet"))
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s holds episodes, and no %s that says whose", vagen.ErrRunExists, dir, ownerName)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(name), 0o644)
}

// level is a compression level of zlib in the terms of image/png, which has four.
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

// forget removes the files of steps after a step.
func forget(dir string, done int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits, is := strings.CutPrefix(e.Name(), "step_")
		digits, is2 := strings.CutSuffix(digits, ".parquet")
		if step, err := strconv.Atoi(digits); is && is2 && err == nil && step > done && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *archive) work() {
	defer close(a.done)
	for j := range a.jobs {
		if a.failure() == nil {
			if err := a.gallery.Save(fmt.Sprintf(stepFile, j.step), j.step, j.ts); err != nil {
				a.mu.Lock()
				a.err = err
				a.mu.Unlock()
			}
		}
		a.open.Done()
	}
}

func (a *archive) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// add has a step written. It waits while too many are waiting, and returns the
// error of one before.
func (a *archive) add(step int, ts []*rollout.Trajectory) error {
	a.open.Add(1)
	a.jobs <- job{step, ts}
	return a.failure()
}

// flush waits until all is written.
func (a *archive) flush() error {
	a.open.Wait()
	return a.failure()
}

// close writes what is left and ends the goroutine.
func (a *archive) close() error {
	close(a.jobs)
	<-a.done
	return a.failure()
}

// archives are those of a run, by what they hold; nil ones hold nothing.
type archives struct{ rollouts, validations *archive }

// archive opens the folders that a configuration names.
func (r *Run) archive() error {
	t := &r.Config.Trainer
	done := -1
	if r.from != nil {
		done = r.from.State.Step
	}
	for _, d := range []struct {
		key string
		dir *string
		a   **archive
	}{{"rollout_data_dir", t.RolloutDir, &r.archives.rollouts}, {"validation_data_dir", t.ValDir, &r.archives.validations}} {
		if d.dir == nil {
			continue
		}
		var err error
		if *d.a, err = newArchive(*d.dir, &r.Config, done, r.log); err != nil {
			return fmt.Errorf("trainer.%s: %w", d.key, err)
		}
	}
	return nil
}

// each calls f for the folders that there are.
func (s *archives) each(f func(*archive) error) error {
	var errs []error
	for _, a := range []*archive{s.rollouts, s.validations} {
		if a != nil {
			errs = append(errs, f(a))
		}
	}
	return errors.Join(errs...)
}
