package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// OpenSharded opens the weights of a model folder: model.safetensors if there is
// one, else the files named by the weight_map of model.safetensors.index.json.
// A tensor is read from the file given in the map; other tensors of the shards are ignored.
// The error lists every missing shard and tensor and wraps ErrNotFound, or wraps ErrFormat
// if a file or the index is malformed. An index may only name plain *.safetensors files in
// the same folder.
func OpenSharded(dir string) (*Reader, error) { return openSharded(dir, true) }

func openSharded(dir string, mapping bool) (*Reader, error) {
	single := filepath.Join(dir, singleName)
	if _, err := os.Stat(single); err == nil {
		return open(single, mapping)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	weights, err := readIndex(filepath.Join(dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %s: neither %s nor %s: %w", dir, singleName, indexName, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", filepath.Join(dir, indexName), err)
	}
	r := &Reader{label: dir, tensors: map[string]place{}}
	if err := r.addShards(dir, weights, mapping); err != nil {
		r.closeAll()
		return nil, err
	}
	return r, nil
}

// addShards opens the files in the order of their names and adds from each the tensors
// that the map assigns to it.
func (r *Reader) addShards(dir string, weights map[string]string, mapping bool) error {
	byShard := map[string][]string{}
	for name, shard := range weights {
		byShard[shard] = append(byShard[shard], name)
	}
	var missing problems
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		head, src, err := r.add(filepath.Join(dir, shard), mapping)
		if errors.Is(err, fs.ErrNotExist) {
			missing.addf("shard %s with %d tensors", shard, len(byShard[shard]))
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range head.spans {
			if weights[s.Name] == shard {
				r.names = append(r.names, s.Name)
				r.tensors[s.Name] = place{s, src}
			}
		}
		slices.Sort(byShard[shard])
		for _, name := range byShard[shard] {
			if _, ok := r.tensors[name]; !ok {
				missing.addf("tensor %q in shard %s", name, shard)
			}
		}
	}
	if err := missing.err(ErrNotFound); err != nil {
		return fmt.Errorf("safetensors: %s: %w", dir, err)
	}
	return nil
}

// readIndex returns the weight_map of an index file.
func readIndex(path string) (map[string]string, error) {
	raw, err := regular.ReadAtMost(path, maxHeader, ErrFormat)
	if err != nil {
		return nil, err
	}
	return parseIndex(raw)
}

func parseIndex(raw []byte) (map[string]string, error) {
	if err := jsontext.Check(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var weights map[string]string
	var wrong problems
	t := newTokens(raw)
	err := t.object("index", func(key string) error {
		if key != "weight_map" {
			return t.skip(maxIndexDepth)
		}
		weights = map[string]string{}
		return t.object(key, func(name string) error {
			shard, err := t.str("weight_map." + strconv.Quote(name))
			if err != nil {
				return err
			}
			if !plainName(shard) {
				wrong.addf("tensor %q: %q is not a plain *.safetensors file name", name, shard)
			}
			weights[name] = shard
			return nil
		})
	})
	if err == nil {
		err = t.end()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(weights) == 0 {
		wrong.addf("no weight_map, or an empty one")
	}
	return weights, wrong.err(ErrFormat)
}

// plainName reports whether an index may contain this file name: no folder, not hidden,
// not special, so that a downloaded index cannot refer to files elsewhere.
func plainName(name string) bool {
	return strings.HasSuffix(name, ".safetensors") && name[0] != '.' &&
		!strings.ContainsAny(name, "/\\:\x00") && filepath.IsLocal(name)
}
