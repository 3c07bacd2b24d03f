package safetensors

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// TestRecordedFilesCopyExactly: every recorded file has the tensors listed in its manifest,
// and copying it tensor by tensor keeps every byte of data.
func TestRecordedFilesCopyExactly(t *testing.T) {
	tally := golden.Of(t, "vlm/safetensors")
	root := golden.Path(t, "vlm")
	var paths []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".safetensors") {
			paths = append(paths, path)
		}
		return err
	}))
	for _, path := range paths {
		run := tally.Next("%s", path)
		both(t, func(t *testing.T, mapping bool) {
			r, err := open(path, mapping)
			require.NoError(t, err)
			defer r.Close()
			var tensors []Tensor
			for _, name := range r.Names() {
				info, _ := r.Info(name)
				tensors = append(tensors, info)
			}
			out := filepath.Join(t.TempDir(), "copy.safetensors")
			w, err := Create(out, tensors, r.Metadata())
			require.NoError(t, err)
			defer w.Close()
			for _, ts := range tensors {
				switch ts.DType {
				case F32, BF16, F16: // a round trip through float32 is exact
					v, err := r.Float32(ts.Name, nil)
					require.NoError(t, err)
					require.NoError(t, w.Float32(ts.Name, v))
				default:
					b, err := r.Bytes(ts.Name)
					require.NoError(t, err)
					require.NoError(t, w.Bytes(ts.Name, b))
				}
			}
			require.NoError(t, w.Commit())
			again, err := open(out, mapping)
			require.NoError(t, err)
			defer again.Close()
			for _, ts := range tensors {
				a, err := r.Bytes(ts.Name)
				require.NoError(t, err)
				b, err := again.Bytes(ts.Name)
				require.NoError(t, err)
				run.Equal(ts.Name, string(a) == string(b), true)
			}
		})
	}
}

// TestRecordedCheckpointsOpen: a checkpoint, in shards or one file, has exactly the tensors
// in its index.
func TestRecordedCheckpointsOpen(t *testing.T) {
	tally := golden.Of(t, "vlm/safetensors folders")
	for _, dir := range golden.Models(t) {
		dir = filepath.Join(dir, "checkpoint")
		run := tally.Next("%s", dir)
		r, err := OpenSharded(dir)
		require.NoError(t, err)
		defer r.Close()
		run.Equal("has tensors", len(r.Names()) > 0, true)
		raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors.index.json"))
		if err != nil {
			continue
		}
		var index struct {
			WeightMap map[string]string `json:"weight_map"`
		}
		require.NoError(t, json.Unmarshal(raw, &index))
		names := r.Names()
		run.Equal("tensors", len(names), len(index.WeightMap))
		for name, shard := range index.WeightMap {
			run.Equal(name, slices.Contains(names, name) && r.Shard(name) == shard, true)
		}
	}
}
