package vlm

import (
	"encoding/json"
	"image"
	"image/color"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

type object = map[string]any

// tinyWords are tokens of their own in tiny models.
var tinyWords = []string{"left", "right", "goal", " box"}

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
	if family == model.Qwen25VL || family == model.Qwen3VL {
		vision := object{
			"depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
			"temporal_patch_size": 2, "in_channels": 3, "out_hidden_size": 16,
		}
		if family == model.Qwen25VL {
			maps.Copy(vision, object{"window_size": 16, "fullatt_block_indexes": []int{1}, "hidden_act": "silu"})
		} else {
			maps.Copy(vision, object{"num_position_embeddings": 9, "deepstack_visual_indexes": []int{0}, "hidden_act": "gelu_pytorch_tanh"})
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

func tinyConfig(t testing.TB, family model.Family) *model.Config {
	t.Helper()
	raw, err := json.Marshal(tinyObject(t, family, nil))
	require.NoError(t, err)
	cfg, err := model.ParseConfig(raw)
	require.NoError(t, err)
	return cfg
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
	require.NoError(t, writeWeights(dir, cfg, 3, false))
	require.NoError(t, tinyTokenizer(t).Save(dir))
	if cfg.Vision != nil {
		c := processor.Qwen25VL()
		c.PatchSize, c.MinPixels, c.MaxPixels = 4, 64, 4096
		require.NoError(t, c.Save(dir))
	}
	return dir
}

// openTiny opens a folder; without another choice on pure Go.
func openTiny(t testing.TB, dir string, o Options) *Model {
	t.Helper()
	if o.Backend == "" {
		o.Backend = backendGo
	}
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

// newTinyLearner makes a learner with random weights without a folder.
func newTinyLearner(t testing.TB, d *device.Device, cfg *model.Config, compute dtypes.DType) *learner {
	t.Helper()
	n := newNet(newKernels(d, cfg, compute, keepAll), cfg)
	w, err := newTensors(d, n.groups.All(), random(cfg, 1))
	require.NoError(t, err)
	l := newLearner(n, w, nil)
	t.Cleanup(l.free)
	return l
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

// story is a conversation as it was played: the row that training gets.
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

// rows strings the conversations together in the order of keys.
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
