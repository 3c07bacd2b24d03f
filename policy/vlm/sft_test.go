package vlm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/dialogue"
	"vagen/internal/golden"
	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/tokenizer"
	"vagen/train/config"
	"vagen/train/sft"
)

// examples are the supervised data of lines of JSON, in one batch in their order.
func examples(t testing.TB, encode policy.Encoder, mode string, lines ...string) *policy.Batch {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
	c := config.Default()
	c.Trainer.Stage, c.SFT.TrainFiles, c.SFT.Shuffle, c.SFT.ValFraction = config.StageSFT, []string{path}, false, 0
	c.SFT.Batch, c.SFT.Aggregation = len(lines), mode
	d, err := sft.Open(t.Context(), &c, nil, nil)
	require.NoError(t, err)
	require.NoError(t, d.Encode(t.Context(), encode))
	b, err := d.Batch(1, c.Run.Seed)
	require.NoError(t, err)
	return b
}

// TestLossMasksFollowGoldenChats: the rows of conversations are the ids that transformers
// renders, and the tokens with a loss are the assistant's texts with their end-of-turn tokens.
func TestLossMasksFollowGoldenChats(t *testing.T) {
	tally := golden.NewTally(t, "vlm/tokenizer chats as supervised data")
	var rec struct {
		Chats []struct {
			Messages json.RawMessage `json:"messages"`
			IDs      []int32         `json:"ids"`
		} `json:"chats"`
	}
	golden.Read(t, "vlm/tokenizer/golden.json", &rec)
	m := textModel(t, golden.Path(t, "vlm", "tokenizer"))
	for i, c := range rec.Chats {
		var messages []struct{ Role, Content string }
		if json.Unmarshal(c.Messages, &messages) != nil { // with images, for which this model has no tower
			continue
		}
		var said strings.Builder
		for _, msg := range messages {
			if msg.Role == "assistant" && msg.Content != "" {
				said.WriteString(msg.Content + "<|im_end|>")
			}
		}
		if said.Len() == 0 {
			continue
		}
		tally.Case()
		var line bytes.Buffer
		require.NoError(t, json.Compact(&line, c.Messages))
		b := examples(t, m, "token-mean", `{"messages":`+line.String()+"}")
		golden.Equal(t, tally, fmt.Sprintf("chat %d", i), fmt.Sprint(b.Tokens), fmt.Sprint(c.IDs[:len(b.Tokens)]))
		golden.Equal(t, tally, fmt.Sprintf("chat %d: tokens with a loss", i), learned(m, b), said.String())
		end := len(b.Tokens)
		require.Greater(t, len(c.IDs), end, "only what follows the last response is left out")
	}
	t.Log(tally)
}

// TestPackedExamplesHaveTheLossOfSingleOnes: examples that share sequences of a micro-batch
// give the log-probs, the loss and the gradient norm that they give one by one. Sums in another
// order differ by rounding: 1e-5 is a hundred units in the last place of a log-prob.
func TestPackedExamplesHaveTheLossOfSingleOnes(t *testing.T) {
	lines := []string{
		`{"prompt":"left or right?","response":"left"}`, `{"prompt":"a","response":"` +
			strings.Repeat("goal box, then right, ", 20) + `"}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","weight":2},{"role":"user","content":"z"},{"role":"assistant","content":"left"}]}`,
		`{"prompt":"b","response":"right"}`, `{"prompt":"c c c","response":"box"}`,
	}
	for _, mode := range []string{"token-mean", "seq-mean-token-mean"} {
		packed := newTiny(t, model.Qwen2, Options{MicroTokens: 1024})
		single := newTiny(t, model.Qwen2, Options{MicroRows: 1, MicroTokens: 16})
		b := examples(t, packed, mode, lines...)
		packs, err := packed.sets.Packer(packed.net).Packs(&b.Rows, learn.NonZero(len(b.Tokens), b.Weight))
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(packs, func(p *net.Pack) bool {
			return slices.Max(p.Segment) > 0
		}), "some examples share a sequence")
		together, err := packed.Score(t.Context(), &b.Rows, learn.NonZero(len(b.Tokens), b.Weight),
			policy.ScoreRequest{LogProbs: true}, 1)
		require.NoError(t, err)
		loss := 0.0
		for i := range lines {
			from, to := b.Offsets[i], b.Offsets[i+1]
			row := policy.Rows{Offsets: []int{0, to - from}, Tokens: b.Tokens[from:to]}
			alone, err := single.Score(t.Context(), &row, learn.NonZero(to-from, b.Weight[from:to]),
				policy.ScoreRequest{LogProbs: true}, 1)
			require.NoError(t, err)
			for k, lp := range alone.LogProbs {
				require.InDelta(t, lp, together.LogProbs[from+k], 1e-5)
				loss -= float64(b.Weight[from+k]) * float64(lp)
			}
		}
		o := policy.DefaultOptimizer()
		want, err := single.Update(t.Context(), b, policy.Objective{Imitate: true, Temperature: 1}, o)
		require.NoError(t, err)
		got, err := packed.Update(t.Context(), b, policy.Objective{Imitate: true, Temperature: 1}, o)
		require.NoError(t, err)
		require.InDelta(t, loss, got.PolicyLoss, 1e-5)
		require.InDelta(t, want.PolicyLoss, got.PolicyLoss, 1e-5)
		require.InEpsilon(t, want.GradNorm, got.GradNorm, 1e-4)
	}
}

// TestToolsAreLearnedAsTheTemplateShowsThem: rows of conversations with definitions, calls and
// results of tools are the texts of jinja2 3.1.6 (see tokenizer/testdata), and the assistant's
// calls are learned.
func TestToolsAreLearnedAsTheTemplateShowsThem(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("tokenizer", "testdata", "tools.json"))
	require.NoError(t, err)
	var recorded []struct {
		Template        string
		Tools, Messages json.RawMessage
		Text            string
	}
	require.NoError(t, json.Unmarshal(raw, &recorded))
	dir := t.TempDir()
	tiny, err := tokenizer.NewTiny([]string{"<|start|>", "<|stop|>"})
	require.NoError(t, err)
	require.NoError(t, tiny.Save(dir))
	for i, r := range recorded[:3] {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(r.Template), 0o644))
		m := textModel(t, dir)
		var line bytes.Buffer
		require.NoError(
			t,
			json.Compact(&line, []byte(`{"tools":`+string(r.Tools)+`,"messages":`+string(r.Messages)+`}`)),
		)
		b := examples(t, m, "token-mean", line.String())
		end := strings.LastIndex(r.Text, "<|im_end|>") + len("<|im_end|>")
		require.Equal(t, r.Text[:end], m.text.Tok.Decode(b.Tokens, tokenizer.KeepSpecial), "conversation %d", i)
		var want strings.Builder
		for _, part := range strings.SplitAfter(r.Text, "<|im_start|>assistant\n")[1:] {
			text, _, _ := strings.Cut(part, "<|im_end|>")
			want.WriteString(text + "<|im_end|>")
		}
		require.Equal(t, want.String(), learned(m, b), "conversation %d", i)
	}
	require.NoError(t, tiny.Save(dir)) // the template of Qwen2.5-VL, which has no tools
	m := textModel(t, dir)
	_, err = m.ToolCalls("", `[{"name":"f"}]`)
	require.ErrorContains(t, err, "the chat template does not show tool calls")
	_, err = m.WithTools(`[{"name":"f"}]`)
	require.ErrorContains(t, err, "the chat template shows no definitions of tools")
	_, err = m.WithTools(`{}`)
	require.ErrorContains(t, err, "must be a JSON list that is not empty")
}

// learned is the text of the tokens with a loss.
func learned(m *Model, b *policy.Batch) string {
	var ids []int32
	for k, w := range b.Weight {
		if w != 0 {
			ids = append(ids, b.Tokens[k])
		}
	}
	return m.text.Tok.Decode(ids, tokenizer.KeepSpecial)
}

// textModel is a model of a folder's tokenizer without weights.
func textModel(t testing.TB, dir string) *Model {
	t.Helper()
	d, err := dialogue.Open("vlm", dir, math.MaxInt32, nil, nil)
	require.NoError(t, err)
	return &Model{text: generate.NewEncoder(d, &model.Config{}, nil)}
}
