package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"vagen/internal/regular"
	"vagen/internal/safeyaml"
)

// Load reads the episodes of a file: YAML in either form, or parquet if its name ends in
// .parquet. base is added to the file's base_seed, on which the drawn seeds of a list of
// entries depend; the other forms have fixed seeds.
func Load(ctx context.Context, path string, base int64, o Options) ([]Episode, error) {
	episodes, err := load(ctx, path, base, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return episodes, nil
}

func load(ctx context.Context, path string, base int64, o Options) (episodes []Episode, err error) {
	f, err := regular.Open(path)
	switch at := (*fs.PathError)(nil); { // without the path, which the caller adds
	case errors.As(err, &at):
		err = at.Err
	case errors.Is(err, regular.ErrNotRegular):
		err = regular.ErrNotRegular
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".parquet":
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		return ReadParquet(f, info.Size(), o)
	case ".yaml", ".yml":
	default:
		return nil, fmt.Errorf("dataset: %w: the file extension is %q, must be .yaml, .yml or .parquet", ErrFile, ext)
	}
	data, err := io.ReadAll(io.LimitReader(f, safeyaml.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return expand(ctx, data, base, o)
}

// expand reads YAML of either form.
func expand(ctx context.Context, data []byte, base int64, o Options) ([]Episode, error) {
	doc, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w: %w", ErrFile, err)
	}
	if doc.legacy() {
		f, err := readLegacy(doc, o)
		if err != nil {
			return nil, err
		}
		return f.Episodes(ctx)
	}
	f, err := readSpecs(doc, o)
	if err != nil {
		return nil, err
	}
	f.BaseSeed += base
	return f.Episodes()
}

// legacy reports whether the file is a legacy file: an entry has the key env_name.
func (d *document) legacy() bool {
	for _, v := range d.values {
		if entry, ok := v.(map[string]any); ok && entry["env_name"] != nil {
			return true
		}
	}
	return false
}
