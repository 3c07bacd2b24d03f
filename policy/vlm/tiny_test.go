package vlm

import (
	"cmp"
	"encoding/json"
	"image"
	"image/color"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

type object = map[string]any

// tinyWords are texts that tiny models encode as one token each. The longer ones are the chat template's,
// so that rows are short.
var tinyWords = []string{
	"left", "right", "goal", " box",
	"system\nYou are a helpful assistant.", "user\n", "assistant\n",
}

// tinyTokenizer has 256 bytes, the special tokens and tinyWords.
func tinyTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.NewTiny(tinyWords)
	require.NoError(t, err)
	return tok
}

// tinyObject is the config.json of a model of some thousand parameters: two
// decoder layers, and a vision tower of two blocks that reads patches of 4×4
// pixels, 2×2 of which are a token, in windows of 2×2 tokens. Changes replace
// keys; nil removes one.
func tinyObject(t testing.TB, family model.Family, changes object) object {
	t.Helper()
	sp := tinyTokenizer(t).Special()
	c := object{
		"architectures": []string{string(family)}, "model_type": string(family), "vocab_size": 272, "hidden_size": 16,
		"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
		"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 2048,
		"initializer_range": 0.15, "eos_token_id": []int32{sp.TurnEnd, sp.Pad}, "tie_word_embeddings": family == model.Qwen25VL || family == model.Qwen2,
	}
	if family == model.Qwen35 || family == model.Qwen35Text {
		maps.Copy(c, object{
			"full_attention_interval": 2, "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
			"linear_value_head_dim": 6, "linear_conv_kernel_dim": 3, "head_dim": 16, "partial_rotary_factor": 0.5,
		})
	}
	if family.HasVision() {
		vision := object{
			"depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
			"temporal_patch_size": 2, "in_channels": 3, "out_hidden_size": 16,
		}
		if family == model.Qwen25VL {
			maps.Copy(vision, object{"window_size": 16, "fullatt_block_indexes": []int{1}, "hidden_act": "silu"})
		} else {
			maps.Copy(vision, object{"num_position_embeddings": 9, "hidden_act": "gelu_pytorch_tanh"})
			if family == model.Qwen3VL {
				vision["deepstack_visual_indexes"] = []int{0}
			}
		}
		maps.Copy(c, object{
			"image_token_id": sp.ImagePad, "video_token_id": sp.VideoPad, "vision_start_token_id": sp.VisionStart, "vision_end_token_id": sp.VisionEnd,
			"rope_scaling": object{"type": "default", "mrope_section": []int{2, 1, 1}}, "vision_config": vision,
		})
	}
	for k, v := range changes {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

// tinyFolder writes the folder of a model with random weights.
func tinyFolder(t testing.TB, family model.Family, changes object) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(tinyObject(t, family, changes))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o644))
	cfg, err := model.ParseConfig(raw)
	require.NoError(t, err)
	require.NoError(t, weights.Write(dir, cfg, safetensors.F32, spread(3)))
	require.NoError(t, tinyTokenizer(t).Save(dir))
	if cfg.Vision != nil {
		c := processor.Qwen25VL()
		c.PatchSize, c.MinPixels, c.MaxPixels = 4, 64, 4096
		require.NoError(t, c.Save(dir))
	}
	return dir
}

// spread draws weights with which attention is sharp and the distributions over tokens
// are far from uniform, so that errors become visible. Norms and biases are random, too.
func spread(seed uint64) weights.Source {
	return func(_ *model.Group, p model.Param, part model.Part, dst []float32) error {
		r := rng.New(seed, rng.Init, weights.HashName(part.Name))
		for i := range dst {
			dst[i] = float32(0.3 * r.NormFloat64())
			if p.Init == model.InitOne {
				dst[i]++
			}
		}
		return nil
	}
}

// openTiny opens a folder; by default in pure Go, with micro-batches that tiny rows
// fill.
func openTiny(t testing.TB, dir string, o Options) *Model {
	t.Helper()
	if o.Backend == "" {
		o.Backend = backend.Go
	}
	o.MicroTokens, o.HeadTokens = cmp.Or(o.MicroTokens, 128), cmp.Or(o.HeadTokens, 64)
	m, err := Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// newTiny is tinyFolder and openTiny.
func newTiny(t testing.TB, family model.Family, o Options) *Model {
	t.Helper()
	return openTiny(t, tinyFolder(t, family, nil), o)
}

// drawing is a picture of random blots; equal seeds give equal pictures.
func drawing(seed uint64, w, h int) image.Image {
	r := rand.New(rand.NewPCG(seed, 77))
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, color.RGBA{uint8(r.IntN(256)), uint8(r.IntN(256)), uint8(r.IntN(256)), 255})
		}
	}
	return img
}

// say is a message of the user with its images.
func say(text string, images ...image.Image) []policy.Message {
	return []policy.Message{{Role: policy.User, Text: text, Images: images}}
}

// story is a recorded conversation: the row that training gets.
type story struct {
	tokens   []int32
	written  []bool // response tokens
	logProbs []float32
	images   []policy.Image
	last     policy.Completion
}

func (s *story) add(c policy.Completion) {
	s.tokens = append(append(s.tokens, c.Context...), c.Tokens...)
	s.written = append(append(s.written, make([]bool, len(c.Context))...), trues(len(c.Tokens))...)
	s.logProbs = append(append(s.logProbs, make([]float32, len(c.Context))...), c.LogProbs...)
	s.images = append(s.images, c.Images...)
	s.last = c
}

func trues(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}

// stories are the conversations of a model by their keys.
type stories map[uint64]*story

// play generates and records. Completions with an error are not recorded.
func (s stories) play(t testing.TB, m *Model, prompts []policy.Prompt, o policy.Sampling) []policy.Completion {
	t.Helper()
	out, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	require.Len(t, out, len(prompts))
	for i, c := range out {
		if c.Err != nil {
			continue
		}
		key := prompts[i].Conversation
		if s[key] == nil {
			s[key] = &story{}
		}
		s[key].add(c)
	}
	return out
}

// rows concatenates the conversations in the order of keys.
func (s stories) rows(keys []uint64) (rows policy.Rows, written []bool, logProbs []float32) {
	rows.Offsets = []int{0}
	for _, key := range keys {
		st := s[key]
		rows.Tokens, written, logProbs = append(rows.Tokens, st.tokens...), append(written, st.written...), append(logProbs, st.logProbs...)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, st.images)
	}
	return rows, written, logProbs
}

// fourRows are rows of different lengths in random tokens, three of them with
// images of different sizes; every token after the first counts.
func fourRows(t testing.TB, m *Model) (policy.Rows, []bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 5))
	rows := policy.Rows{Offsets: []int{0}}
	for i, n := range []int{9, 3, 21, 14} {
		var images []policy.Image
		if m.cfg.Vision != nil {
			for k := range []int{1, 0, 2, 1}[i] {
				img := drawing(uint64(10*i+k), 8*(2+i%2), 8*(1+k+i/2))
				images = append(images, policy.Image{Hash: policy.HashImage(img), Image: img})
			}
		}
		for k := range n {
			rows.Tokens = append(rows.Tokens, int32(r.IntN(256)))
			if k%4 == 2 && k/4 < len(images) {
				pic, err := m.text.Picture(images[k/4])
				require.NoError(t, err)
				for range pic.Grid.Tokens(m.cfg.Vision.Merge) {
					rows.Tokens = append(rows.Tokens, m.cfg.ImageToken)
				}
			}
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, images)
	}
	want := make([]bool, len(rows.Tokens))
	for i := range want {
		want[i] = !slices.Contains(rows.Offsets, i)
	}
	return rows, want
}

// pick returns some rows in another order, with the positions of their tokens.
func pick(rows policy.Rows, index ...int) (out policy.Rows, place []int) {
	out.Offsets = []int{0}
	for _, i := range index {
		from, to := rows.Offsets[i], rows.Offsets[i+1]
		out.Tokens = append(out.Tokens, rows.Tokens[from:to]...)
		out.Offsets = append(out.Offsets, len(out.Tokens))
		out.Images = append(out.Images, rows.Images[i])
		for k := from; k < to; k++ {
			place = append(place, k)
		}
	}
	return out, place
}

// requireNear compares numbers that may differ by rounding in float32.
func requireNear(t testing.TB, want, got []float32, limit float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		require.InDelta(t, want[i], got[i], limit, "%s at %d", what, i)
	}
}

// weightsOf reads a learner's weights by their names.
func weightsOf(t testing.TB, l *learn.Learner) map[string][]float32 { return read(t, l.Weights) }

// read copies tensors off the device.
func read(t testing.TB, x *weights.Tensors) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	require.NoError(t, x.Each(func(part model.Part, values []float32) error {
		out[part.Name] = slices.Clone(values)
		return nil
	}))
	return out
}
