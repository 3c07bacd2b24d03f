package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"vagen/internal/durable"
	"vagen/internal/regular"
	"vagen/internal/silent"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/rundir"
)

var (
	// ErrNoCheckpoint means that there is no checkpoint to resume from.
	ErrNoCheckpoint = errors.New("no checkpoint")
	// ErrTorn is wrapped by errors about incomplete or damaged checkpoints.
	ErrTorn = errors.New("checkpoint is incomplete or damaged")
)

// stateName is the file of a checkpoint with its State.
const stateName = "state.json"

// Checkpoints are the checkpoints of a run: one folder step_<n> each, with the files of
// the learner, the run's State, its configuration, and a manifest of sizes and SHA-256
// sums. All fields except Dir are optional.
//
// A checkpoint is written under another name, synced, and renamed: whenever the machine
// stops, a folder step_<n> is complete, and older ones are removed only after the new
// one exists. Only one process at a time may write to Dir.
type Checkpoints struct {
	Dir  string
	Keep int // number of newest checkpoints to keep; 0 keeps all
	// KeepActors is the number of newest checkpoints of which the policy is kept: when a
	// checkpoint is removed because of Keep, its folder actor becomes actor_step_<n>.
	// 0 keeps all policies if Keep is 0, else none besides those of complete checkpoints.
	KeepActors int
	// Export, if not nil, is called with the folder of every checkpoint before the folder
	// gets its final name: if a checkpoint exists, so does its export.
	Export func(ctx context.Context, dir string, s train.State) error
	// Log receives a warning for each skipped folder; nil discards them.
	Log *slog.Logger
}

// Save writes the learner, the state and the configuration to step_<state.Step>,
// replacing an existing one, and removes checkpoints beyond Keep. If it fails, the
// existing checkpoints are kept.
func (c *Checkpoints) Save(ctx context.Context, l policy.Learner, s train.State, cfg *config.Config) error {
	settings, err := cfg.Stored()
	if err == nil && l == nil {
		err = errors.New("the learner is nil")
	}
	if err != nil {
		return fmt.Errorf("run: checkpoint: %w", err)
	}
	return c.put(ctx, l.Save, s, settings)
}

// put writes a checkpoint with the files that save writes.
func (c *Checkpoints) put(
	ctx context.Context, save func(context.Context, string) error, s train.State, settings []byte,
) error {
	var exported error
	err := durable.WriteFolder(c.path(s.Step), func(dir string) error {
		err := write(ctx, dir, save, s, settings)
		if err == nil && c.Export != nil {
			exported = c.Export(ctx, dir, s)
		}
		return errors.Join(err, exported)
	})
	if err == nil {
		err = c.prune(s.Step)
	}
	if err != nil && exported == nil {
		err = fmt.Errorf("run: checkpoint: %w", err)
	}
	return err
}

func (c *Checkpoints) path(step int) string {
	return filepath.Join(c.Dir, rundir.StepPrefix+strconv.Itoa(step))
}

// write writes the files of a checkpoint.
func write(
	ctx context.Context, dir string, save func(context.Context, string) error, s train.State, settings []byte,
) error {
	if err := save(ctx, dir); err != nil {
		return err
	}
	if err := errors.Join(
		durable.WriteJSON(filepath.Join(dir, stateName), s),
		os.WriteFile(filepath.Join(dir, rundir.ConfigName), settings, 0o644),
		savePrefetched(dir, s.Prefetched),
	); err != nil {
		return err
	}
	m, err := durable.Sums(ctx, dir, rundir.ManifestName)
	if err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(dir, rundir.ManifestName), m)
}

// verify compares the files of a checkpoint with its manifest, which must list the run's
// state, its configuration and at least one file of the learner. Links are followed.
func verify(ctx context.Context, dir string, want map[string]durable.Sum) error {
	learner := slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool {
		return name != stateName && name != rundir.ConfigName
	})
	_, state := want[stateName]
	if _, cfg := want[rundir.ConfigName]; !state || !cfg || !learner {
		return fmt.Errorf("run: %w: %s of %s must list %s, %s and the files of the learner; it lists %d files",
			ErrTorn, rundir.ManifestName, dir, stateName, rundir.ConfigName, len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("run: checkpoint: %w", err)
		}
		sum := want[name]
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("run: %w: %s of %s lists %q, which is outside the folder",
				ErrTorn, rundir.ManifestName, dir, name)
		}
		switch got, err := durable.SumOf(filepath.Join(dir, local)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("run: %w: %s is missing in %s", ErrTorn, name, dir)
		case errors.Is(err, regular.ErrNotRegular), errors.Is(err, syscall.ENOTDIR):
			return fmt.Errorf("run: %w: %w", ErrTorn, err)
		case err != nil:
			return fmt.Errorf("run: checkpoint: %w", err)
		case got != sum:
			return fmt.Errorf("run: %w: %s in %s has %d bytes with SHA-256 %s, but was saved with %d and %s", ErrTorn, name, dir,
				got.Size, got.SHA256, sum.Size, sum.SHA256)
		}
	}
	return nil
}

// Steps lists the steps that have a checkpoint folder, the newest first. Folders of
// interrupted saves are not included.
func (c *Checkpoints) Steps() ([]int, error) { return rundir.Numbered(c.Dir, rundir.StepPrefix, "") }

// Checkpoint is a verified checkpoint.
type Checkpoint struct {
	Path   string // its folder, from which the learner restores
	State  train.State
	Config []byte // the run's configuration as YAML, when it was saved
}

// Latest finds the newest complete checkpoint. Incomplete ones are skipped with a
// warning. If there is no other, a checkpoint that was being replaced when its process
// stopped is restored to its name. If there is none, the error wraps ErrNoCheckpoint,
// and if some were skipped, ErrTorn and the reasons.
func (c *Checkpoints) Latest(ctx context.Context) (*Checkpoint, error) {
	steps, err := c.Steps()
	if err != nil {
		return nil, err
	}
	var torn []error
	for _, step := range steps {
		p, err := OpenCheckpoint(ctx, c.path(step))
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, ErrTorn) {
			return nil, err
		}
		torn = append(torn, err)
		silent.Log(c.Log).Warn("skipping a checkpoint", "err", err)
	}
	p, err := c.displaced(ctx)
	if errors.Is(err, ErrNoCheckpoint) && len(torn) > 0 {
		err = fmt.Errorf("%w:\n%w", err, errors.Join(torn...))
	}
	return p, err
}

// displaced restores the newest complete checkpoint that was moved away but not replaced.
func (c *Checkpoints) displaced(ctx context.Context) (*Checkpoint, error) {
	steps, err := rundir.Numbered(c.Dir, rundir.StepPrefix, durable.Discarded)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		final := c.path(step)
		if _, err := os.Stat(final); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		p, err := OpenCheckpoint(ctx, final+durable.Discarded)
		if errors.Is(err, ErrTorn) {
			continue
		}
		if err == nil {
			p.Path = final
			err = os.Rename(final+durable.Discarded, final)
		}
		if err != nil {
			return nil, fmt.Errorf("run: checkpoints: %w", err)
		}
		return p, nil
	}
	return nil, fmt.Errorf("run: %w in %s", ErrNoCheckpoint, c.Dir)
}

// OpenCheckpoint checks a checkpoint's files against its manifest and reads its
// state. Errors about a missing or changed file wrap ErrTorn and name the file.
func OpenCheckpoint(ctx context.Context, dir string) (*Checkpoint, error) {
	want, err := rundir.ReadManifest(dir)
	switch _, unread := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("run: %w: %s has no %s", ErrTorn, dir, rundir.ManifestName)
	case unread:
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	case err != nil:
		return nil, fmt.Errorf("run: %w: %w", ErrTorn, err)
	}
	if err := verify(ctx, dir, want); err != nil {
		return nil, err
	}
	p := &Checkpoint{Path: dir}
	state, err := regular.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	if err := json.Unmarshal(state, &p.State); err != nil {
		return nil, fmt.Errorf("run: %w: %s of %s: %w", ErrTorn, stateName, dir, err)
	}
	if err := loadPrefetched(dir, p.State.Prefetched); err != nil {
		return nil, fmt.Errorf("run: %w: %s of %s: %w", ErrTorn, prefetchedFolder, dir, err)
	}
	if p.Config, err = regular.ReadFile(filepath.Join(dir, rundir.ConfigName)); err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	return p, nil
}
