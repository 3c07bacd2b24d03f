package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/train"
	"vagen/train/rundir"
)

// removing is the suffix of a checkpoint that is being removed except for its policy.
const removing = ".gone"

// Tidy removes checkpoints beyond the numbers to keep, counted back from the checkpoint
// that a run resumes from, and the remains of interrupted saves and removals. Folders of
// later steps, from which no run can resume, stay until they are saved again.
func (c *Checkpoints) Tidy(from int) error {
	if err := c.prune(from); err != nil {
		return fmt.Errorf("run: checkpoints: %w", err)
	}
	return nil
}

// prune is Tidy after a save. A checkpoint of an interruption is removed once the run
// has saved another one.
func (c *Checkpoints) prune(newest int) error {
	if err := c.sweep(); err != nil {
		return err
	}
	steps, err := c.Steps()
	if err != nil {
		return err
	}
	whole := 0
	for _, step := range steps {
		if step > newest {
			continue
		}
		over := step != newest && madeByInterrupt(c.path(step))
		if !over && (c.Keep < 1 || whole < c.Keep) {
			whole++
			continue
		}
		if info, err := os.Lstat(c.path(step)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			continue // stored elsewhere by the user
		}
		// The folder is renamed first, so that a folder with a checkpoint's name is never
		// partly removed. The new name also records whether to keep the policy.
		keep := !over && c.KeepActors > 0
		gone := c.path(step) + durable.Discarded
		if keep {
			gone = c.path(step) + removing
		}
		if err := os.Rename(c.path(step), gone); err != nil {
			return err
		}
		if err := c.strip(step, gone, keep); err != nil {
			return err
		}
	}
	return c.dropActors(whole)
}

// madeByInterrupt reports whether a checkpoint was saved because of an interruption.
func madeByInterrupt(dir string) bool {
	var s train.State
	raw, err := regular.ReadFile(filepath.Join(dir, stateName))
	return err == nil && json.Unmarshal(raw, &s) == nil && s.Interrupted
}

// sweep completes interrupted removals and removes the remains of interrupted saves.
func (c *Checkpoints) sweep() error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, is := strings.CutPrefix(e.Name(), rundir.StepPrefix)
		if !is || !e.IsDir() {
			continue
		}
		path := filepath.Join(c.Dir, e.Name())
		if digits, gone := strings.CutSuffix(name, removing); gone {
			if step, err := strconv.Atoi(digits); err == nil {
				if err := c.strip(step, path, c.KeepActors > 0); err != nil {
					return err
				}
			}
		}
		if strings.HasSuffix(name, durable.Unfinished) || strings.HasSuffix(name, durable.Discarded) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// strip removes a checkpoint, with keep everything except its policy. An earlier strip
// may have been interrupted at any point: a policy that was already moved is kept.
func (c *Checkpoints) strip(step int, dir string, keep bool) error {
	from, to := filepath.Join(dir, rundir.ActorName), filepath.Join(c.Dir, rundir.ActorPrefix+strconv.Itoa(step))
	_, err := os.Stat(from)
	if keep && err == nil {
		if err = os.RemoveAll(to); err == nil {
			err = os.Rename(from, to)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // some learners write no such folder
		return err
	}
	return os.RemoveAll(dir)
}

// dropActors removes the oldest policies without a checkpoint, so that at most KeepActors
// remain, those in the whole complete checkpoints included.
func (c *Checkpoints) dropActors(whole int) error {
	steps, err := rundir.Numbered(c.Dir, rundir.ActorPrefix, "")
	if err != nil || c.Keep < 1 {
		return err
	}
	for _, step := range steps[min(len(steps), max(0, c.KeepActors-whole)):] {
		if err := os.RemoveAll(filepath.Join(c.Dir, rundir.ActorPrefix+strconv.Itoa(step))); err != nil {
			return err
		}
	}
	return nil
}
