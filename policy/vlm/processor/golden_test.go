package processor

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
)

// Tolerances are those of the recorded collection: pixel values were checked
// against float64, which differs by at most 3e-7; a row adds 1,176 or more.
var (
	valueTolerance = golden.Tolerance{Abs: 1e-5}
	sumTolerance   = golden.Tolerance{Abs: 1e-3, Rel: 1e-6}
)

func readImage(t testing.TB, path string) image.Image {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := DecodeImage(f, DefaultLimits())
	require.NoError(t, err)
	return img
}

func openTensors(t testing.TB, path string) *safetensors.Reader {
	t.Helper()
	r, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func floats(t testing.TB, r *safetensors.Reader, name string) []float64 {
	t.Helper()
	v, err := r.Float32(name, nil)
	require.NoError(t, err)
	wide := make([]float64, len(v))
	for i, x := range v {
		wide[i] = float64(x)
	}
	return wide
}

func ints(t testing.TB, r *safetensors.Reader, name string) []int64 {
	t.Helper()
	raw, err := r.Bytes(name)
	require.NoError(t, err)
	v := make([]int64, len(raw)/8)
	_, err = binary.Decode(raw, binary.LittleEndian, v)
	require.NoError(t, err)
	return v
}

// presets are the settings of the recorded kinds of model.
func preset(t testing.TB, kind string) Config {
	t.Helper()
	c, ok := map[string]Config{"qwen2_5_vl": Qwen25VL(), "qwen3_vl": Qwen3VL()}[kind]
	require.True(t, ok, "kind %q", kind)
	return c
}

// Resized images are equal bit for bit, and patches follow from them.
func TestPatchesAreThoseOfTransformers(t *testing.T) {
	tally := golden.NewTally(t, "vlm/processor")
	tensors := openTensors(t, golden.Path(t, "vlm", "processor", "golden.safetensors"))
	var manifest struct {
		Cases []struct {
			Key, Kind, Image string
			MinPixels        int   `json:"min_pixels"`
			MaxPixels        int   `json:"max_pixels"`
			ResizedHW        []int `json:"resized_hw"`
		} `json:"cases"`
	}
	golden.Read(t, "vlm/processor/manifest.json", &manifest)
	for _, c := range manifest.Cases {
		tally.Case()
		cfg := preset(t, c.Kind)
		cfg.MinPixels, cfg.MaxPixels = c.MinPixels, c.MaxPixels
		p, err := New(cfg)
		require.NoError(t, err)
		img := readImage(t, golden.Path(t, "vlm", filepath.FromSlash(c.Image)))
		var got Patches
		require.NoError(t, p.Patches(&got, img))
		wantGrid := ints(t, tensors, c.Key+".grid_thw")
		golden.Equal(t, tally, c.Key+": grid", got.Grid, Grid{int(wantGrid[0]), int(wantGrid[1]), int(wantGrid[2])})
		golden.Equal(t, tally, c.Key+": size", [2]int{got.Grid.H * cfg.PatchSize, got.Grid.W * cfg.PatchSize},
			[2]int(c.ResizedHW))

		wantPixels, err := tensors.Bytes(c.Key + ".resized_u8")
		require.NoError(t, err)
		require.NoError(t, p.resized(img, func(small []byte, _ Grid) {
			golden.Equal(t, tally, c.Key+": resized", string(small), string(wantPixels))
		}))

		rows := p.Normalize(nil, got.Pix)
		dim := p.Dim()
		require.Len(t, rows, got.Grid.Patches()*dim)
		var sums, squares []float64
		for i := 0; i < len(rows); i += dim {
			var sum, square float64
			for _, v := range rows[i : i+dim] {
				sum += float64(v)
				square += float64(v) * float64(v)
			}
			sums, squares = append(sums, sum), append(squares, square)
		}
		golden.Floats(t, tally, c.Key+": row_sum", sums, floats(t, tensors, c.Key+".row_sum"), sumTolerance)
		golden.Floats(t, tally, c.Key+": row_sumsq", squares, floats(t, tensors, c.Key+".row_sumsq"), sumTolerance)
		first := floats(t, tensors, c.Key+".first_rows")
		golden.Floats(t, tally, c.Key+": first_rows", rows[:len(first)], first, valueTolerance)
		golden.Floats(t, tally, c.Key+": last_row", rows[len(rows)-dim:], floats(t, tensors, c.Key+".last_row"),
			valueTolerance)
	}
}

func TestSmartSizeIsThatOfTransformers(t *testing.T) {
	tally := golden.NewTally(t, "vlm/processor sizes")
	var manifest struct {
		SmartResize [][]json.RawMessage `json:"smart_resize"`
	}
	golden.Read(t, "vlm/processor/manifest.json", &manifest)
	for i, row := range manifest.SmartResize {
		tally.Case()
		var in [5]int
		for j := range in {
			require.NoError(t, json.Unmarshal(row[j], &in[j]))
		}
		var want []int
		require.NoError(t, json.Unmarshal(row[5], &want))
		h, w, err := SmartSize(in[0], in[1], in[2], in[3], in[4])
		what := fmt.Sprintf("row %d, %v", i, in)
		if want == nil {
			golden.Equal(t, tally, what+": refused", err != nil, true)
			continue
		}
		require.NoError(t, err, what)
		golden.Equal(t, tally, what, [2]int{h, w}, [2]int(want))
	}
}

// The images of every recorded model, with its own settings, give the recorded
// grids and pixel values.
func TestImagesOfRecordedModels(t *testing.T) {
	for _, dir := range golden.Models(t) {
		if _, err := os.Stat(filepath.Join(dir, "checkpoint", configFile)); err != nil {
			continue // not a model, or one without images
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			tally := golden.NewTally(t, "vlm/"+filepath.Base(dir)+" images")
			var manifest struct {
				Cases []struct {
					Name    string
					Prompts []struct{ Images []string }
				}
			}
			raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &manifest))
			tensors := openTensors(t, filepath.Join(dir, "golden.safetensors"))
			p, err := Load(filepath.Join(dir, "checkpoint"))
			require.NoError(t, err)
			for _, c := range manifest.Cases {
				var rows []float32
				var grids []int64
				for _, prompt := range c.Prompts {
					for _, name := range prompt.Images {
						var one Patches
						require.NoError(t, p.Patches(&one, readImage(t, golden.OfModel(t, dir, name))))
						rows = p.Normalize(rows, one.Pix)
						grids = append(grids, int64(one.Grid.T), int64(one.Grid.H), int64(one.Grid.W))
					}
				}
				if len(grids) == 0 {
					continue
				}
				tally.Case()
				want := ints(t, tensors, c.Name+".image_grid_thw")
				golden.Equal(t, tally, c.Name+": grids", fmt.Sprint(grids), fmt.Sprint(want))
				if _, ok := tensors.Info(c.Name + ".pixel_values"); ok {
					golden.Floats(t, tally, c.Name+": pixel_values", rows, floats(t, tensors, c.Name+".pixel_values"), valueTolerance)
				}
				if _, ok := tensors.Info(c.Name + ".pixel_row_sum"); ok {
					sums := make([]float64, len(rows)/p.Dim())
					for i, v := range rows {
						sums[i/p.Dim()] += float64(v)
					}
					golden.Floats(t, tally, c.Name+": pixel_row_sum", sums, floats(t, tensors, c.Name+".pixel_row_sum"), sumTolerance)
				}
			}
		})
	}
}
