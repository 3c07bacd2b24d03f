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
	"vagen/train"
)

const (
	actorFolder = "actor"       // the policy in a checkpoint
	actorPrefix = "actor_step_" // a policy that is left of one
	leaving     = ".gone"       // ends the name of a checkpoint that is being removed but for its policy
)

// Tidy removes what the numbers of kept checkpoints do not cover, counted back from
// the checkpoint that a run goes on from, and what stopped saves and removals left.
// Later folders, which nothing can go on from, stay until they are saved anew.
func (c *Checkpoints) Tidy(from int) error {
	if err := c.prune(from); err != nil {
		return fmt.Errorf("run: checkpoints: %w", err)
	}
	return nil
}

// prune is Tidy after a save. The checkpoints of interruptions go once the run has
// saved another.
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
		over := step != newest && passing(c.path(step))
		if !over && (c.Keep < 1 || whole < c.Keep) {
			whole++
			continue
		}
		if info, err := os.Lstat(c.path(step)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			continue // the user keeps it elsewhere
		}
		// The name goes first, so that a folder with a checkpoint's name is never half
		// removed. It says, too, whether the policy stays: half removed, the rest could not.
		keep := !over && c.KeepActors > 0
		gone := c.path(step) + durable.Discarded
		if keep {
			gone = c.path(step) + leaving
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

// passing reports whether a checkpoint was made by an interruption.
func passing(dir string) bool {
	var s train.State
	raw, err := os.ReadFile(filepath.Join(dir, stateName))
	return err == nil && json.Unmarshal(raw, &s) == nil && s.Interrupted
}

// sweep ends what was stopped halfway: removals, and saves.
func (c *Checkpoints) sweep() error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, is := strings.CutPrefix(e.Name(), stepPrefix)
		if !is || !e.IsDir() {
			continue
		}
		path := filepath.Join(c.Dir, e.Name())
		if digits, gone := strings.CutSuffix(name, leaving); gone {
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

// strip removes a checkpoint, with keep all but its policy. It may have been stopped
// before at any place: a policy that has been moved already stays.
func (c *Checkpoints) strip(step int, dir string, keep bool) error {
	from, to := filepath.Join(dir, actorFolder), filepath.Join(c.Dir, actorPrefix+strconv.Itoa(step))
	_, err := os.Stat(from)
	if keep && err == nil {
		if err = os.RemoveAll(to); err == nil {
			err = os.Rename(from, to)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // some learners have no such folder
		return err
	}
	return os.RemoveAll(dir)
}

// dropActors removes the oldest policies that stand apart, beside so many whole
// checkpoints.
func (c *Checkpoints) dropActors(whole int) error {
	steps, err := c.numbers(actorPrefix, "")
	if err != nil || c.Keep < 1 {
		return err
	}
	for _, step := range steps[min(len(steps), max(0, c.KeepActors-whole)):] {
		if err := os.RemoveAll(filepath.Join(c.Dir, actorPrefix+strconv.Itoa(step))); err != nil {
			return err
		}
	}
	return nil
}
