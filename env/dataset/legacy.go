package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"

	"vagen/internal/settings"
)

// LegacyOptions say how a legacy file is expanded.
type LegacyOptions struct {
	// Split is the split to expand; "" is Train.
	Split Split
	// Separate draws training and test seeds as one sample and divides it. The original
	// draws both with the same seed of the generator, so that most test seeds are also
	// training seeds.
	Separate bool
	// Seeders select seeds, by the environment's name in the file. Nil is
	// defaultSeeders(). Environments without a seeder use sampleSeeds.
	Seeders map[string]Seeder
}

// Seeder selects n different seeds for a legacy entry with the given options.
type Seeder func(ctx context.Context, config map[string]any, n int) ([]int64, error)

// legacyEntry is an entry of a legacy file: an environment and the number of its episodes
// in each split. The struct tags are the keys in files.
type legacyEntry struct {
	Name   string         // of the entry, for instance env1
	Env    string         `yaml:"env_name"`
	Config map[string]any `yaml:"env_config"`
	Train  int            `yaml:"train_size"` // default 100
	Test   int            `yaml:"test_size"`  // default 100

	registered string
	line       string // prefix of messages
}

// legacyFile is the env_config.yaml of the legacy system.
type legacyFile struct {
	Entries []legacyEntry // in the order of the file
	options LegacyOptions
}

// readLegacy reads a legacy file:
//
//	env1:
//	    env_name: sokoban
//	    env_config: {render_mode: vision}
//	    train_size: 10000
//	    test_size: 128
//
// All errors are reported at once, each with the line of its entry; the error wraps
// ErrFile.
func readLegacy(doc *document, o Options) (*legacyFile, error) {
	f := &legacyFile{options: o.Legacy}
	var faults []error
	total := 0
	for _, name := range doc.keys {
		e := legacyEntry{Name: name, Train: 100, Test: 100, line: doc.at(name)}
		for _, err := range e.read(doc.values[name], o) {
			faults = append(faults, fmt.Errorf("%s%s: %w", e.line, name, err))
		}
		total += min(max(e.Train, 0), maxEpisodes) + min(max(e.Test, 0), maxEpisodes)
		f.Entries = append(f.Entries, e)
	}
	if total > maxEpisodes {
		faults = append(faults, fmt.Errorf("the entries have more than %d episodes, the maximum", maxEpisodes))
	}
	if s := o.Legacy.Split; s != "" && s != Train && s != Test {
		faults = append(faults, fmt.Errorf("split is %q, must be %s or %s", s, Train, Test))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("dataset: %w: %w", ErrFile, errors.Join(faults...))
	}
	return f, nil
}

// read decodes an entry and returns its errors.
func (e *legacyEntry) read(v any, o Options) []error {
	entry, ok := v.(map[string]any)
	if !ok {
		return []error{fmt.Errorf("it is %v, must be a mapping with env_name", v)}
	}
	faults := settings.Fill(e, entry)
	if e.Config == nil {
		e.Config = map[string]any{}
	}
	if why := badName(e.Name); why != "" {
		faults = append(faults, fmt.Errorf("name of the entry: %s", why))
	}
	if why := badName(e.Env); why != "" {
		return append(faults, fmt.Errorf("env_name: %s", why))
	}
	var err error
	if e.registered, err = o.registered(e.Env); err != nil {
		faults = append(faults, fmt.Errorf("env_name: %w", err))
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"train_size", e.Train}, {"test_size", e.Test}} {
		if n.value < 0 || n.value > maxEpisodes {
			faults = append(faults, fmt.Errorf("%s is %d, must be from 0 to %d", n.key, n.value, maxEpisodes))
		}
	}
	return faults
}

// Episodes expands the split that LegacyOptions selects.
func (f *legacyFile) Episodes(ctx context.Context) ([]Episode, error) {
	split := f.options.Split
	if split == "" {
		split = Train
	}
	seeders := f.options.Seeders
	if seeders == nil {
		seeders = defaultSeeders()
	}
	var out []Episode
	for i, entry := range f.Entries {
		seed := seeders[entry.Env]
		if seed == nil {
			seed = sampleSeeds
		}
		seeds, err := entry.seeds(ctx, seed, split, f.options.Separate)
		if err != nil {
			return nil, fmt.Errorf("dataset: %s%s: %w", entry.line, entry.Name, err)
		}
		e := Episode{Name: entry.Env, Env: entry.registered, Config: entry.Config, Tag: entry.Name, Source: entry.Env,
			Split: string(split), Legacy: true, Entry: i}
		for _, e.Seed = range seeds {
			out = append(out, e)
		}
	}
	return out, nil
}

// seeds returns the seeds of one split.
func (e *legacyEntry) seeds(ctx context.Context, seed Seeder, split Split, separate bool) ([]int64, error) {
	n, skip := e.Train, 0
	if split == Test {
		n = e.Test
	}
	if n == 0 {
		return nil, nil
	}
	all := n
	if separate {
		all = e.Train + e.Test
		if split == Test {
			skip = e.Train
		}
	}
	seeds, err := seed(ctx, e.Config, all)
	if err == nil && len(seeds) != all {
		err = fmt.Errorf("%w: the seeder returned %d seeds, must return %d", ErrFile, len(seeds), all)
	}
	if err != nil {
		return nil, err
	}
	return seeds[skip : skip+n], nil
}

// candidates is the number of seeds, in addition to those needed, from which the legacy
// system draws.
const candidates = 20_000

// sampleSeeds is the Seeder of most environments of the legacy system: Python's
// random.seed(0), then random.sample(range(20000 + n), n).
func sampleSeeds(_ context.Context, _ map[string]any, n int) ([]int64, error) {
	if n < 0 || n > math.MaxInt32-candidates {
		return nil, fmt.Errorf("dataset: number of seeds is %d, must be from 0 to %d", n, math.MaxInt32-candidates)
	}
	out := make([]int64, n)
	for i, x := range newPython(0).sample(uint64(n+candidates), n) {
		out[i] = int64(x)
	}
	return out, nil
}
