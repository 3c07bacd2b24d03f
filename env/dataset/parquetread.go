package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/parquetsize"
	"vagen/internal/settings"
)

// row holds the columns that are read. The struct tags are their names.
type row struct {
	Source string `yaml:"data_source"`
	Info   info   `yaml:"extra_info"`
}

// info is the column extra_info, without env_config, which may be a mapping or JSON.
type info struct {
	Name string `yaml:"env_name"`
	Seed *int64 `yaml:"seed"`
	Limits
	Split string `yaml:"split"`
	Tag   string `yaml:"tag_id"`
	Rules string `yaml:"rules"`
}

// ReadParquet reads the episodes of a parquet file of size bytes that has the
// columns of the legacy system, written by any program. Other columns are ignored.
// Episodes follow the legacy rules, unless the column rules says otherwise.
//
// The error wraps ErrFile and names columns and rows.
func ReadParquet(r io.ReaderAt, size int64, o Options) (episodes []Episode, err error) {
	defer func() { // the parquet library may panic on damaged files
		if p := recover(); p != nil {
			episodes, err = nil, fmt.Errorf("dataset: parquet: %w: the file is damaged: %v", ErrFile, p)
		}
	}()
	episodes, err = readParquet(r, size, o)
	if err != nil {
		return nil, fmt.Errorf("dataset: parquet: %w: %w", ErrFile, err)
	}
	return episodes, nil
}

func readParquet(r io.ReaderAt, size int64, o Options) ([]Episode, error) {
	if err := parquetsize.Footer(r, size); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	if err := parquetsize.Check(f, r, size); err != nil {
		return nil, err
	}
	if n := f.NumRows(); n < 1 || n > maxEpisodes {
		return nil, fmt.Errorf("it has %d rows, must be from 1 to %d", n, maxEpisodes)
	}
	wanted, err := columns(f.Schema())
	if err != nil {
		return nil, err
	}
	rows, err := parquetsize.NewRows(f, parquet.NewSchema("episodes", wanted))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	in := intake{o: o, names: map[string]string{}, configs: map[string]*options{}}
	var episodes []Episode
	for n := 0; ; n++ {
		v, err := rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", n, err)
		}
		if n >= maxEpisodes {
			return nil, fmt.Errorf("there are more than %d rows, the maximum", maxEpisodes)
		}
		e, faults := in.episode(v)
		for _, err := range faults {
			in.faults = append(in.faults, fmt.Errorf("row %d: %w", n, err))
		}
		const enough = 100 // more errors would not help
		if len(in.faults) >= enough {
			break
		}
		episodes = append(episodes, e)
	}
	return episodes, errors.Join(in.faults...)
}

// columns returns the top-level columns that are read.
func columns(s *parquet.Schema) (parquet.Group, error) {
	g := parquet.Group{}
	var names []string
	for _, f := range s.Fields() {
		names = append(names, f.Name())
		if f.Name() == "data_source" || f.Name() == "extra_info" {
			g[f.Name()] = f
		}
	}
	if info, ok := g["extra_info"]; !ok || info.Leaf() {
		return nil, fmt.Errorf("column extra_info with nested columns is missing; the columns are %s",
			strings.Join(names, ", "))
	}
	names = names[:0]
	for _, f := range g["extra_info"].Fields() {
		names = append(names, f.Name())
	}
	for _, needed := range []string{"env_name", "seed"} {
		if !slices.Contains(names, needed) {
			return nil, fmt.Errorf("column extra_info.%s is missing; it has %s", needed, strings.Join(names, ", "))
		}
	}
	return g, nil
}

// intake converts rows to episodes.
type intake struct {
	o       Options
	names   map[string]string   // names in the registry, by names in the file
	configs map[string]*options // by their text: equal ones are shared
	faults  []error
}

// options holds an environment's options and the block state_reward.
type options struct {
	config map[string]any
	reward *StateReward
}

// episode converts a row to an episode and returns the row's errors.
func (in *intake) episode(v any) (Episode, []error) {
	count := 0
	v, err := plain(v, &count, 0)
	if err != nil {
		return Episode{}, []error{err}
	}
	var r row
	config, faults := r.fill(v.(map[string]any))
	if len(faults) > 0 {
		return Episode{}, faults
	}
	faults = r.problems()
	opts, errs := in.options(config)
	faults = append(faults, errs...)
	name, ok := in.names[r.Info.Name]
	if !ok {
		if name, err = in.o.registered(r.Info.Name); err != nil {
			faults = append(faults, fmt.Errorf("extra_info.env_name: %w", err))
		}
		in.names[r.Info.Name] = name // report an unknown name once
	}
	if len(faults) > 0 {
		return Episode{}, faults
	}
	i := &r.Info
	return Episode{
		Name: i.Name, Env: name, Config: opts.config, Seed: *i.Seed, Limits: i.Limits, StateReward: opts.reward,
		Tag: i.Tag, Source: cmp.Or(r.Source, "default"), Split: cmp.Or(i.Split, "default"), Legacy: i.Rules != "lite",
	}, nil
}

// fill decodes the known columns of a record, ignores the others, and returns the value
// of env_config.
func (r *row) fill(record map[string]any) (config any, faults []error) {
	inner, ok := record["extra_info"].(map[string]any)
	if !ok {
		return nil, []error{errors.New("extra_info is null")}
	}
	config = inner["env_config"]
	known := settings.Keys(r)
	isKnown := func(path string) bool {
		return slices.ContainsFunc(known, func(k settings.Key) bool { return k.Path == path })
	}
	for name := range inner {
		if !isKnown("extra_info." + name) {
			delete(inner, name)
		}
	}
	if tag, ok := inner["tag_id"].(int64); ok {
		inner["tag_id"] = fmt.Sprint(tag)
	}
	return config, settings.Fill(r, record)
}

// problems returns the errors of a row, except those of env_config.
func (r *row) problems() []error {
	var out []error
	i := &r.Info
	for _, n := range []struct {
		column, value string
		needed        bool
	}{{"data_source", r.Source, false}, {"extra_info.env_name", i.Name, true}, {"extra_info.split", i.Split, false},
		{"extra_info.tag_id", i.Tag, false}} {
		if n.value == "" && !n.needed {
			continue
		}
		if why := badName(n.value); why != "" {
			out = append(out, fmt.Errorf("%s: %s", n.column, why))
		}
	}
	if i.Seed == nil {
		out = append(out, errors.New("extra_info.seed is null"))
	}
	if i.Rules != "" && i.Rules != "lite" && i.Rules != "legacy" {
		out = append(out, fmt.Errorf("extra_info.rules is %q, must be lite or legacy", i.Rules))
	}
	var limits field.Checks
	limits.Struct(&i.Limits, "yaml")
	i.Limits.check(&limits)
	for _, err := range limits.Errors() {
		out = append(out, fmt.Errorf("extra_info.%w", err))
	}
	return out
}

// options reads env_config, in columns or as JSON. A null column is an option that is not
// set, because all rows have the same columns.
func (in *intake) options(v any) (*options, []error) {
	if text, ok := v.(string); ok {
		tree, err := decodeJSON(text)
		if err != nil {
			return nil, []error{fmt.Errorf("extra_info.env_config: %w", err)}
		}
		v = tree
	}
	if v == nil {
		v = map[string]any{}
	}
	config, ok := v.(map[string]any)
	if !ok {
		return nil, []error{fmt.Errorf("extra_info.env_config is %v (%T), must be a mapping", v, v)}
	}
	id := fmt.Sprintf("%#v", config) // prints maps in the order of their keys
	if found, ok := in.configs[id]; ok {
		return found, nil
	}
	reward, err := splitStateReward(config)
	if err != nil {
		return nil, []error{err}
	}
	in.configs[id] = &options{config, reward}
	return in.configs[id], nil
}

// decodeJSON decodes JSON into the types that plain returns.
func decodeJSON(text string) (any, error) {
	if err := jsontext.Check([]byte(text)); err != nil {
		return nil, err
	}
	tree, err := jsontext.Tree[any](text, number)
	if err != nil {
		return nil, err
	}
	count := 0
	return plain(tree, &count, 0)
}

// number converts a number to int64 or float64.
func number(v json.Number) (any, error) {
	if n, err := v.Int64(); err == nil {
		return n, nil
	}
	f, err := v.Float64()
	if err != nil || !strings.ContainsAny(v.String(), ".eE") {
		return nil, fmt.Errorf("%s is outside %d..%d", v, int64(math.MinInt64), int64(math.MaxInt64))
	}
	return f, nil
}
