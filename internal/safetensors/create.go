package safetensors

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// DefaultShardBytes is a common size of shards.
const DefaultShardBytes = 5_000_000_000

// CreateSharded starts writing the weights of a model folder: model.safetensors if all
// fits into maxShard bytes of data, else model-00001-of-0000N.safetensors and so
// on, filled in the given order, with model.safetensors.index.json. A tensor
// larger than maxShard gets its own file; maxShard ≤ 0 means no limit.
//
// The folder must exist and contain no weights, otherwise the error wraps ErrExists:
// shards of two models must not be mixed. See [Create] for details.
func CreateSharded(dir string, tensors []Tensor, metadata map[string]string, maxShard int64) (*Writer, error) {
	w := &Writer{label: dir, tensors: cloneTensors(tensors)}
	if err := w.plan(dir, metadata, maxShard); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", dir, err)
	}
	return w.start()
}

func (w *Writer) plan(dir string, metadata map[string]string, maxShard int64) error {
	if err := checkTensors(w.tensors); err != nil {
		return err
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	counts, total := split(w.tensors, maxShard)
	weights := make(map[string]string, len(w.tensors))
	rest := w.tensors
	for i, n := range counts {
		name := singleName
		if len(counts) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(counts))
		}
		head, err := encodeHeader(rest[:n], metadata)
		if err != nil {
			return err
		}
		for _, t := range rest[:n] {
			weights[t.Name] = name
		}
		rest = rest[n:]
		w.parts = append(w.parts, part{path: filepath.Join(dir, name), header: head, tensors: n})
	}
	if len(counts) == 1 {
		return nil
	}
	index := struct {
		Metadata  map[string]int64  `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}{map[string]int64{"total_size": total}, weights}
	var err error
	w.index, err = json.MarshalIndent(index, "", "  ") // map keys are sorted
	w.index = append(w.index, '\n')
	return err
}

// split returns how many tensors go into each shard, and the total bytes.
func split(tensors []Tensor, maxShard int64) (counts []int, total int64) {
	counts = []int{0}
	var size int64
	for _, t := range tensors {
		n := t.Bytes()
		last := len(counts) - 1
		if maxShard > 0 && counts[last] > 0 && size > maxShard-n {
			counts, size, last = append(counts, 0), 0, last+1
		}
		counts[last]++
		size += n
		total += n
	}
	return counts, total
}

// checkEmpty returns an error if a folder already contains weights of any layout.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ok, _ := filepath.Match("model*.safetensors*", e.Name()); ok {
			return fmt.Errorf("%s %w", e.Name(), ErrExists)
		}
	}
	return nil
}
