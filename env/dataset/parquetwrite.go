package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/durable"
	"vagen/reward/judge"
)

// ParquetOptions say how a parquet file is written. The zero value writes what the
// legacy system reads.
type ParquetOptions struct {
	// JSON writes configurations as text instead of columns. The original system reads
	// columns. Columns cannot store null in lists, empty mappings, or values of different
	// kinds under one key; whole numbers in a column of floats are read back as floats. As
	// text, floats without a fraction are read back as whole numbers.
	JSON bool
}

// WriteParquet writes episodes in the columns of the legacy system: data_source,
// prompt, and extra_info with env_name, env_config, seed and split, and also limits, tag
// and rules. Columns without any value are omitted.
func WriteParquet(w io.Writer, episodes []Episode, o ParquetOptions) error {
	if err := writeParquet(w, episodes, o); err != nil {
		return fmt.Errorf("dataset: parquet: %w", err)
	}
	return nil
}

func writeParquet(w io.Writer, episodes []Episode, o ParquetOptions) error {
	if len(episodes) == 0 || len(episodes) > maxEpisodes {
		return fmt.Errorf("%w: there are %d episodes, must be from 1 to %d", ErrFile, len(episodes), maxEpisodes)
	}
	var s shape
	for i := range episodes {
		v, err := record(&episodes[i], o)
		if err == nil && (episodes[i].Weight != 0 || episodes[i].RewardScale != 0) {
			err = errors.New("weight and reward_scale have no columns: train on the list itself")
		}
		if err == nil {
			err = s.add(v, "")
		}
		if err != nil {
			return fmt.Errorf("%w: episode %d: %w", ErrFile, i, err)
		}
	}
	const most = 4096
	if n := s.leaves(); n > most {
		return fmt.Errorf("%w: the options need %d columns, %d are allowed; %w", ErrFile, n, most, errJSON)
	}
	schema := parquet.NewSchema("episodes", s.group())
	pw := parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Snappy),
		parquet.CreatedBy("vagen", "", ""))
	const batch = 512
	rows := make([]parquet.Row, 0, batch)
	for i := range episodes {
		v, err := record(&episodes[i], o)
		if err != nil {
			return err
		}
		rows = append(rows, schema.Deconstruct(nil, s.widened(v)))
		if len(rows) == batch || i == len(episodes)-1 {
			if _, err := pw.WriteRows(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return pw.Close()
}

// SaveParquet is WriteParquet to a file, which is created atomically.
func SaveParquet(path string, episodes []Episode, o ParquetOptions) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	err = writeParquet(f, episodes, o)
	if err == nil {
		err = errors.Join(f.Sync(), f.Chmod(0o644)) // temporary files have 0o600
	}
	if err := durable.Commit(f, path, err); err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	return nil
}

// record returns an episode as nested columns.
func record(e *Episode, o ParquetOptions) (map[string]any, error) {
	info := map[string]any{"env_name": e.Name, "seed": e.Seed, "split": e.Split}
	config := e.Config
	if e.StateReward != nil {
		config = maps.Clone(config)
		if config == nil {
			config = map[string]any{}
		}
		config[judge.Key] = e.StateReward.Tree()
	}
	if len(config) > 0 {
		count := 0
		tree, err := plain(config, &count, 0) // callers may use other types than files
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		if info["env_config"] = tree; o.JSON {
			text, err := json.Marshal(tree)
			if err != nil {
				return nil, fmt.Errorf("config: %w", err)
			}
			info["env_config"] = string(text)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"max_turns", e.MaxTurns}, {"response_length_per_turn", e.ResponseTokens},
		{"max_env_response_per_turn", e.ObserveTokens}, {"max_response_length", e.RegionTokens},
	} {
		if n.value > 0 {
			info[n.name] = int64(n.value)
		}
	}
	if e.ThinkTokens != nil {
		info["thinking_token_budget"] = int64(*e.ThinkTokens)
	}
	if len(e.Stop) > 0 {
		stop := make([]any, len(e.Stop))
		for i, s := range e.Stop {
			stop[i] = s
		}
		info["stop_strings"] = stop
	}
	if e.Tag != "" {
		info["tag_id"] = e.Tag
	}
	if !e.Legacy {
		info["rules"] = "lite"
	}
	return map[string]any{
		"data_source": e.Source,
		// The legacy trainer requires this column but does not use it: the first prompt
		// comes from the environment.
		"prompt":     []any{map[string]any{"role": "user", "content": ""}},
		"extra_info": info,
	}, nil
}
