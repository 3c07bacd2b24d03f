package proof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/train/rundir"
)

// checkpoints compares the checkpoints that exist, and the policies that were kept of
// others.
func (r *Report) checkpoints(ctx context.Context) error {
	h, equal, removed, kept := r.history, 0, 0, 0
	found, err := rundir.Dir(r.Run).Steps()
	if err != nil {
		return err
	}
	newest := 0
	for step := range h.saves {
		newest = max(newest, step)
	}
	for _, step := range slices.Backward(found) {
		ok, err := r.checkpoint(ctx, step)
		if err != nil {
			return err
		}
		if ok {
			equal++
		}
	}
	for _, step := range slices.Sorted(maps.Keys(h.saves)) {
		if slices.Contains(found, step) {
			continue
		}
		if step == newest {
			r.Add("checkpoints", Faulty, "the newest one, of step %d, is missing", step)
			continue
		}
		removed++
		kept += r.policy(step)
	}
	if equal > 0 {
		r.Add("checkpoints", Passed, "%d complete ones equal the record", equal)
	}
	if removed > 0 {
		r.Add("checkpoints", Missing, "%d were removed (trainer.max_actor_ckpt_to_keep); of these, %d policies were kept and equal the record", removed, kept)
	}
	return nil
}

// checkpoint compares a checkpoint's manifest with the chain, and its files with the
// manifest.
func (r *Report) checkpoint(ctx context.Context, step int) (ok bool, err error) {
	folder := rundir.Dir(r.Run).Path(rundir.Checkpoint(step))
	manifest, err := ManifestSum(folder)
	if err != nil {
		return false, err
	}
	known := []string{r.history.saves[step].Checkpoint}
	for _, s := range r.history.sessions {
		if s.Step == step {
			known = append(known, s.Checkpoint)
		}
	}
	switch {
	case manifest == "":
		r.Add("checkpoints", Faulty, "step %d has no %s", step, rundir.ManifestName)
		return false, nil
	case slices.Contains(known, manifest):
	case strings.Join(known, "") != "":
		r.Add("checkpoints", Faulty, "%s of step %d has SHA-256 %s, but %s was recorded",
			rundir.ManifestName, step, short(manifest), short(known[0]))
		return false, nil
	case r.history.ended || step < r.last():
		r.Add("checkpoints", Faulty, "step %d is not in the chain", step)
		return false, nil
	default:
		r.Add("checkpoints", Unfinished,
			"step %d is in no record: it was saved when the run was stopped, and is recorded when it resumes, or it is not the run's",
			step)
		return false, nil
	}
	sums, err := rundir.ReadManifest(folder)
	if err != nil {
		return false, err
	}
	ok = true
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			r.Add("checkpoints", Faulty, "%s of step %d lists %q, which is outside the folder",
				rundir.ManifestName, step, name)
			ok = false
			continue
		}
		file := rundir.Checkpoint(step) + "/" + name
		if _, err := os.Stat(rundir.Dir(r.Run).Path(file)); errors.Is(err, fs.ErrNotExist) {
			r.Add("checkpoints", Faulty, "%s is missing", file)
			ok = false
			continue
		}
		ok = r.file("checkpoints", file, sums[name].SHA256) && ok
	}
	listed := func(name string) bool { _, is := sums[name]; return is || name == rundir.ManifestName }
	others, err := r.others(rundir.Checkpoint(step), listed)
	return ok && !others, err
}

// last returns the last recorded step.
func (r *Report) last() int {
	last := 0
	for _, e := range r.history.events {
		last = max(last, e.Step)
	}
	return last
}

// policy compares a policy that was kept of a removed checkpoint. It returns the number of
// such policies, 0 or 1.
func (r *Report) policy(step int) int {
	prefix := rundir.Checkpoint(step) + "/" + rundir.ActorName + "/"
	equal, found := 0, false
	for _, name := range slices.Sorted(maps.Keys(r.history.saves[step].Files)) {
		rest, is := strings.CutPrefix(name, prefix)
		if !is {
			continue
		}
		file := fmt.Sprint(rundir.Checkpoints, "/", rundir.ActorPrefix, step)
		if _, err := os.Stat(rundir.Dir(r.Run).Path(file)); err != nil {
			return 0
		}
		found = true
		if !r.file("checkpoints", file+"/"+rest, r.history.saves[step].Files[name]) {
			equal--
		}
	}
	if found && equal == 0 {
		return 1
	}
	return 0
}
