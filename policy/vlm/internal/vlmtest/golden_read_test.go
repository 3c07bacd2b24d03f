package vlmtest_test

import (
	"encoding/binary"
	"encoding/json"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/processor"
)

// manifest describes a recorded model.
type manifest struct {
	Critic     bool           `json:"critic"`
	Cases      []recordedCase `json:"cases"`
	ParamNames []string       `json:"param_names"`
	AdamW      struct {
		LR    float64    `json:"lr"`
		Betas [2]float64 `json:"betas"`
		Eps   float64    `json:"eps"`
		Decay float64    `json:"weight_decay"`
		Clip  float64    `json:"grad_clip"`
	} `json:"adamw"`
	// Sensitivity is how much relative noise in the initial weights changed the numbers
	// of training; LossTolerance is the resulting tolerance of losses 1, 2, 3.
	Sensitivity struct {
		Noise     float64   `json:"relative_noise"`
		GradNorms []float64 `json:"grad_norms"`
	} `json:"train_sensitivity"`
	LossTolerance []float64 `json:"train_loss_tolerance"`
}

type recordedCase struct {
	Name      string           `json:"name"`
	PromptLen int              `json:"prompt_len"`
	Shape     [2]int           `json:"shape"`
	Prompts   []recordedPrompt `json:"prompts"`
}

type recordedPrompt struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Images []string `json:"images"`
}

// messages are the prompt's messages with their images.
func (p recordedPrompt) messages(t testing.TB, images []policy.Image) []policy.Message {
	t.Helper()
	var out []policy.Message
	for _, m := range p.Messages {
		msg := policy.Message{Role: policy.Role(m.Role)}
		var parts []struct{ Type, Text string }
		if json.Unmarshal(m.Content, &msg.Text) != nil {
			require.NoError(t, json.Unmarshal(m.Content, &parts))
		}
		for _, part := range parts {
			if part.Type == "image" {
				msg.Text += policy.ImageMark
				msg.Images = append(msg.Images, images[0].Image)
				images = images[1:]
			}
			msg.Text += part.Text
		}
		out = append(out, msg)
	}
	require.Empty(t, images)
	return out
}

// recordedRow is a row of a case: its tokens without padding, and where they stand.
type recordedRow struct {
	test   *recordedCase
	row    int   // of the case
	column []int // of each token in the case's matrices
	index  int   // of the row among all of the model's
}

// recordedModel is a model's folder, opened.
type recordedModel struct {
	t       *testing.T
	tally   *golden.Tally
	dir     string
	tensors *safetensors.Reader
	manifest
	rows []recordedRow
	all  policy.Rows   // the rows in a row
	spec *model.Config // of the learner that is compared
	limits
	seen map[string]bool
}

// eachRecorded runs f on every recorded model that can be loaded and has the
// parts, beside each other.
func eachRecorded(t *testing.T, f func(r *recordedModel), parts ...string) {
	t.Helper()
	found := 0
	for _, dir := range golden.Models(t) {
		lacks := func(part string) bool { _, err := os.Stat(filepath.Join(dir, part)); return err != nil }
		if slices.ContainsFunc(parts, lacks) {
			continue
		}
		found++
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			r := &recordedModel{t: t, dir: dir, tally: golden.NewTally(t, "vlm/"+filepath.Base(dir)), seen: map[string]bool{},
				limits: limitsOf(t, dir)}
			raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &r.manifest))
			r.tensors, err = safetensors.Open(filepath.Join(dir, "golden.safetensors"))
			require.NoError(t, err)
			t.Cleanup(func() { r.tensors.Close() })
			r.readRows()
			f(r)
			r.requireAllRead(slices.Contains(parts, "lora"))
		})
	}
	require.Positive(t, found, "no recorded model with %q", parts)
}

// elsewhere are recorded fields that package processor compares, and the inside of Qwen3.5's layers, of which package
// model compares the rule.
var elsewhere = []string{".pixel_values", ".pixel_row_sum", ".query", ".key", ".value", ".g", ".beta", ".q_normed",
	".gated",
	".recurrent_state", ".conv_state_end", ".recurrent_state_end"}

// requireAllRead checks that every recorded field was read, of the model with its adapter
// or of the model alone.
func (r *recordedModel) requireAllRead(adapter bool) {
	for _, name := range r.tensors.Names() {
		other := strings.HasPrefix(name, "lora.") != adapter || strings.HasPrefix(name, "delta.") ||
			slices.ContainsFunc(elsewhere, func(field string) bool { return strings.HasSuffix(name, field) })
		require.True(r.t, other || r.seen[name], "%s was recorded, and nothing has read it", name)
	}
}

// readRows removes the padding of all cases and concatenates their rows.
func (r *recordedModel) readRows() {
	r.all.Offsets = []int{0}
	for i := range r.Cases {
		c := &r.Cases[i]
		r.tally.Case()
		ids, mask := r.ints(c.Name+".input_ids"), r.ints(c.Name+".attention_mask")
		for b := range c.Shape[0] {
			row := recordedRow{test: c, row: b, index: len(r.rows)}
			for k := range c.Shape[1] {
				if at := b*c.Shape[1] + k; mask[at] == 1 {
					row.column = append(row.column, k)
					r.all.Tokens = append(r.all.Tokens, int32(ids[at]))
				}
			}
			var images []policy.Image
			for _, name := range c.Prompts[b].Images {
				img := r.image(name)
				images = append(images, policy.Image{Hash: policy.HashImage(img), Image: img})
			}
			r.rows, r.all.Images = append(r.rows, row), append(r.all.Images, images)
			r.all.Offsets = append(r.all.Offsets, len(r.all.Tokens))
		}
	}
}

func (r *recordedModel) image(name string) image.Image {
	f, err := os.Open(golden.OfModel(r.t, r.dir, name))
	require.NoError(r.t, err)
	defer f.Close()
	img, err := processor.DecodeImage(f, processor.DefaultLimits())
	require.NoError(r.t, err)
	return img
}

func (r *recordedModel) has(name string) bool { _, ok := r.tensors.Info(name); return ok }

func (r *recordedModel) dims(name string) []int { info, _ := r.tensors.Info(name); return info.Shape }

func (r *recordedModel) ints(name string) []int64 {
	r.seen[name] = true
	raw, err := r.tensors.Bytes(name)
	require.NoError(r.t, err)
	x := make([]int64, len(raw)/8)
	_, err = binary.Decode(raw, binary.LittleEndian, x)
	require.NoError(r.t, err)
	return x
}

func (r *recordedModel) floats(name string) []float64 {
	r.seen[name] = true
	x, err := r.tensors.Float32(name, nil)
	require.NoError(r.t, err)
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}

// tokens of a row, and the place of its first one among all.
func (r *recordedModel) tokens(row recordedRow) ([]int32, int) {
	from, to := r.all.Offsets[row.index], r.all.Offsets[row.index+1]
	return r.all.Tokens[from:to], from
}

// checkpoint is the folder to open. That of a critic has no policy: it gets one with the
// same trunk and the embedding as its head, which is not used.
func (r *recordedModel) checkpoint() (policyDir, criticDir string) {
	dir := filepath.Join(r.dir, "checkpoint")
	if !r.Critic {
		return dir, ""
	}
	policyDir = filepath.Join(r.t.TempDir(), "policy")
	require.NoError(r.t, os.CopyFS(policyDir, os.DirFS(dir)))
	path := filepath.Join(policyDir, "config.json")
	raw, err := os.ReadFile(path)
	require.NoError(r.t, err)
	var config map[string]any
	require.NoError(r.t, json.Unmarshal(raw, &config))
	config["tie_word_embeddings"] = true
	var architectures []string
	for _, a := range config["architectures"].([]any) {
		architectures = append(architectures,
			strings.Replace(a.(string), "ForTokenClassification", "ForConditionalGeneration", 1))
	}
	config["architectures"] = architectures
	raw, err = json.Marshal(config)
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(path, raw, 0o644))
	return policyDir, dir
}

// caseRows returns the rows of one case as a batch, with the place of each of its
// tokens in the case's matrices.
func (r *recordedModel) caseRows(name string) (rows policy.Rows, place []int) {
	rows.Offsets = []int{0}
	for _, row := range r.rows {
		if row.test.Name != name {
			continue
		}
		tokens, _ := r.tokens(row)
		rows.Tokens = append(rows.Tokens, tokens...)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, r.all.Images[row.index])
		for _, k := range row.column {
			place = append(place, row.row*row.test.Shape[1]+k)
		}
	}
	return rows, place
}

func (r *recordedModel) names() []string {
	var out []string
	for _, c := range r.Cases {
		out = append(out, c.Name)
	}
	return slices.Compact(out)
}

func imagesOf(msgs []policy.Message) (out []image.Image) {
	for _, m := range msgs {
		out = append(out, m.Images...)
	}
	return out
}
