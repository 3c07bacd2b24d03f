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
	"strings"

	"vagen/internal/durable"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

var (
	// ErrNoCheckpoint means that there is no checkpoint to go on from.
	ErrNoCheckpoint = errors.New("no checkpoint")
	// ErrTorn is wrapped by errors about checkpoints that are not whole.
	ErrTorn = errors.New("checkpoint is not whole")
)

// Names in a checkpoint's folder, beside what the learner writes.
const (
	stateName    = "state.json"    // State
	manifestName = "manifest.json" // size and SHA-256 of every other file
	stepPrefix   = "step_"
)

// Checkpoints are the checkpoints of a run: one folder step_<n> each, with what
// the learner saves, the run's State, its configuration, and a manifest of sizes
// and SHA-256 sums. The zero value of everything but Dir is useful.
//
// A checkpoint is written under another name, synced, and renamed: at whatever
// moment the machine stops, a folder step_<n> is whole, and older ones are
// removed only after it. One process at a time may write to a Dir.
type Checkpoints struct {
	Dir  string
	Keep int // newest ones to keep; 0 keeps all
	// KeepActors is of how many of the newest the policy is kept: those that Keep
	// leaves out become folders actor_step_<n> with what was in their folder actor.
	// 0 keeps all if Keep does, else none.
	KeepActors int
	// Export is called, where it is set, with the folder of every checkpoint that is
	// written, before it takes its name: once there is a checkpoint, what Export made
	// of it is there, too.
	Export func(ctx context.Context, dir string, s train.State) error
	// Log receives a warning for each folder that is passed over; nil discards them.
	Log *slog.Logger
}

// Save writes the learner, the state and the configuration to step_<state.Step>,
// in place of what may be there, and removes what Keep does not cover. When it
// fails, checkpoints that were there before are still there.
func (c *Checkpoints) Save(ctx context.Context, l policy.Learner, s train.State, cfg *config.Config) error {
	settings, err := cfg.Stored()
	if err != nil {
		return fmt.Errorf("run: checkpoint: %w", err)
	}
	return c.put(ctx, l.Save, s, settings)
}

// put writes a checkpoint with what save puts into a folder.
func (c *Checkpoints) put(ctx context.Context, save func(context.Context, string) error, s train.State, settings []byte) error {
	final := c.path(s.Step)
	if err := c.write(ctx, final+durable.Unfinished, save, s, settings); err != nil {
		return fmt.Errorf("run: checkpoint: %w", errors.Join(err, os.RemoveAll(final+durable.Unfinished)))
	}
	if c.Export != nil {
		if err := c.Export(ctx, final+durable.Unfinished, s); err != nil {
			return errors.Join(err, os.RemoveAll(final+durable.Unfinished))
		}
	}
	if err := durable.Replace(final+durable.Unfinished, final); err != nil {
		return fmt.Errorf("run: checkpoint: %w", err)
	}
	if err := c.prune(s.Step); err != nil {
		return fmt.Errorf("run: checkpoint: %w", err)
	}
	return nil
}

func (c *Checkpoints) path(step int) string {
	return filepath.Join(c.Dir, stepPrefix+strconv.Itoa(step))
}

func (c *Checkpoints) write(ctx context.Context, dir string, save func(context.Context, string) error, s train.State, settings []byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := save(ctx, dir); err != nil {
		return err
	}
	state, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, stateName), append(state, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, configName), settings, 0o644),
		train.SavePrefetched(dir, s.Prefetched),
	); err != nil {
		return err
	}
	m, err := durable.Sums(ctx, dir, manifestName)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return durable.SyncTree(dir)
}

// verify holds the files of a checkpoint against its manifest, which must list the
// run's state, its configuration and something of the learner. Links are followed.
func verify(ctx context.Context, dir string, want map[string]durable.Sum) error {
	learner := slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { return name != stateName && name != configName })
	_, state := want[stateName]
	if _, cfg := want[configName]; !state || !cfg || !learner {
		return fmt.Errorf("run: %w: %s of %s must list %s, %s and the files of the learner; it lists %d files", ErrTorn, manifestName, dir, stateName, configName, len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("run: checkpoint: %w", err)
		}
		sum := want[name]
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("run: %w: %s of %s lists %q, which is outside the folder", ErrTorn, manifestName, dir, name)
		}
		switch got, err := durable.SumOf(filepath.Join(dir, local)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("run: %w: %s is missing in %s", ErrTorn, name, dir)
		case err != nil:
			return fmt.Errorf("run: checkpoint: %w", err)
		case got != sum:
			return fmt.Errorf("run: %w: %s in %s has %d bytes with SHA-256 %s, but was saved with %d and %s", ErrTorn, name, dir, got.Size, got.SHA256, sum.Size, sum.SHA256)
		}
	}
	return nil
}

// Steps lists the steps that have a folder, the newest first. A folder that a
// stopped save left behind is not among them.
func (c *Checkpoints) Steps() ([]int, error) { return c.numbers(stepPrefix, "") }

// numbers are those of the folders whose names are one between a prefix and a
// suffix, the largest first.
func (c *Checkpoints) numbers(prefix, suffix string) ([]int, error) {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("run: checkpoints: %w", err)
	}
	var steps []int
	for _, e := range entries {
		digits := strings.TrimSuffix(strings.TrimPrefix(e.Name(), prefix), suffix)
		step, err := strconv.Atoi(digits)
		if err == nil && e.Name() == prefix+strconv.Itoa(step)+suffix && step >= 0 && isFolder(c.Dir, e) {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b int) int { return b - a })
	return steps, nil
}

// isFolder reports whether an entry is a folder, or a link to one.
func isFolder(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// Checkpoint is one checkpoint that was found whole.
type Checkpoint struct {
	Path   string // its folder, which the learner restores from
	State  train.State
	Config []byte // the run's configuration as YAML, when it was saved
}

// Latest finds the newest whole checkpoint. Those that are not whole are passed
// over with a warning. Where nothing else is left, one that was being replaced when
// its process stopped gets its name back. ErrNoCheckpoint says that there is none;
// the error then wraps ErrTorn, too, if some were passed over, and says why.
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
		if c.Log != nil {
			c.Log.Warn("passing over a checkpoint", "err", err)
		}
	}
	p, err := c.displaced(ctx)
	if errors.Is(err, ErrNoCheckpoint) && len(torn) > 0 {
		err = fmt.Errorf("%w:\n%w", err, errors.Join(torn...))
	}
	return p, err
}

// displaced puts the newest whole checkpoint back that was moved away and not
// replaced.
func (c *Checkpoints) displaced(ctx context.Context) (*Checkpoint, error) {
	steps, err := c.numbers(stepPrefix, durable.Discarded)
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
// state. An ErrTorn names the file that is missing or differs.
func OpenCheckpoint(ctx context.Context, dir string) (*Checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run: %w: %s has no %s", ErrTorn, dir, manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	want := map[string]durable.Sum{}
	if err := json.Unmarshal(raw, &want); err != nil {
		return nil, fmt.Errorf("run: %w: %s of %s: %w", ErrTorn, manifestName, dir, err)
	}
	if err := verify(ctx, dir, want); err != nil {
		return nil, err
	}
	p := &Checkpoint{Path: dir}
	state, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	if err := json.Unmarshal(state, &p.State); err != nil {
		return nil, fmt.Errorf("run: %w: %s of %s: %w", ErrTorn, stateName, dir, err)
	}
	if err := train.LoadPrefetched(dir, p.State.Prefetched); err != nil {
		return nil, fmt.Errorf("run: %w: %s of %s: %w", ErrTorn, train.PrefetchedFolder, dir, err)
	}
	if p.Config, err = os.ReadFile(filepath.Join(dir, configName)); err != nil {
		return nil, fmt.Errorf("run: checkpoint: %w", err)
	}
	return p, nil
}
