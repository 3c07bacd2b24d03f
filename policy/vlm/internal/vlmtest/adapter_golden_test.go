package vlmtest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/peft"
	. "vagen/policy/vlm/internal/vlmtest"
)

// Recordings of PEFT for models with an adapter: log-probs, logits, a loss and the
// gradient of every matrix. In addition: with the adapter off the model is the base model,
// an exported model is a plain one, and a saved adapter is the same file.
func TestAdaptersAgreeWithPEFT(t *testing.T) {
	t.Parallel()
	eachRecorded(t, func(r *recordedModel) {
		dir := filepath.Join(r.dir, "lora")
		base, _ := r.checkpoint()
		m, err := TryOpen(r.t.Context(), base, Options{Backend: Backend(), MicroTokens: goldenTokens, HeadTokens: 512,
			Adapter: dir, Reference: true})
		require.NoError(r.t, err)
		defer m.Close()
		r.spec = m.Sets.Actor.Net.Spec
		scores := r.scoreAll(m, policy.ScoreRequest{LogProbs: true, Reference: true})
		for _, name := range r.names() {
			r.compareLogProbs("lora."+name, scores.LogProbs)
			r.compareLogProbs(name, scores.Reference)
			r.compareAdapterLogits(m, name)
		}
		r.compareAdapterGradients(m)

		out := r.t.TempDir()
		require.NoError(r.t, m.Sets.Actor.SaveModel(r.t.Context(), m.Sets.Dir, filepath.Join(out, "merged"), false))
		plain, err := TryOpen(r.t.Context(), filepath.Join(out, "merged"),
			Options{Backend: Backend(), MicroTokens: goldenTokens, HeadTokens: 512})
		require.NoError(r.t, err)
		defer plain.Close()
		merged := r.scoreAll(plain, policy.ScoreRequest{LogProbs: true})
		for _, name := range r.names() {
			r.compareLogProbs("lora."+name, merged.LogProbs)
		}
		require.NoError(r.t, m.Save(r.t.Context(), filepath.Join(out, "saved")))
		sameTensors(r.t, filepath.Join(dir, peft.WeightsFile),
			filepath.Join(out, "saved", learn.ActorFolder, peft.WeightsFile))
	}, "lora")
}

// sameTensors compares two files of float32 tensors by name.
func sameTensors(t *testing.T, a, b string) {
	t.Helper()
	was, err := safetensors.Open(a)
	require.NoError(t, err)
	defer was.Close()
	now, err := safetensors.Open(b)
	require.NoError(t, err)
	defer now.Close()
	require.ElementsMatch(t, was.Names(), now.Names())
	for _, name := range was.Names() {
		x, err := was.Float32(name, nil)
		require.NoError(t, err)
		y, err := now.Float32(name, nil)
		require.NoError(t, err)
		require.Equal(t, x, y, name)
	}
}

func (r *recordedModel) scoreAll(m *Model, what policy.ScoreRequest) *policy.Scores {
	want := make([]bool, len(r.all.Tokens))
	for i := range want {
		want[i] = true
	}
	got, err := m.Score(r.t.Context(), &r.all, want, what, 1)
	require.NoError(r.t, err)
	return got
}

// compareLogProbs compares the rows of a case with what is recorded under key.
func (r *recordedModel) compareLogProbs(key string, got []float32) {
	if !r.has(key + ".logprobs") {
		return
	}
	recorded := r.floats(key + ".logprobs")
	for _, row := range r.rows {
		if row.test.Name != strings.TrimPrefix(key, "lora.") {
			continue
		}
		_, from := r.tokens(row)
		var want []float64
		for _, column := range row.column[1:] {
			want = append(want, recorded[row.row*(row.test.Shape[1]-1)+column-1])
		}
		golden.Floats(r.t, r.tally, fmt.Sprintf("%s row %d", key, row.row), got[from+1:from+len(row.column)], want,
			logitLimit)
	}
}

// compareAdapterLogits compares the logits at the last recorded positions.
func (r *recordedModel) compareAdapterLogits(m *Model, name string) {
	key := "lora." + name + ".logits_last"
	if !r.has(key) {
		return
	}
	recorded, dims := r.floats(key), r.dims(key)
	want := make([]bool, len(r.all.Tokens))
	for i := range want {
		want[i] = true
	}
	packs, err := m.Sets.Packer(m.Sets.Actor.Net).Packs(&r.all, want)
	require.NoError(r.t, err)
	at := r.places(packs)
	for i, p := range packs {
		trace, err := m.Sets.Actor.Net.Forward(m.Sets.Actor.Parts, p, false)
		require.NoError(r.t, err)
		head := m.Sets.Actor.Net.Head(true, false)
		logits, err := m.Dev.Program("logits", func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{head.Logits(head.Weights(in[:2]), in[2])}
		}).Run(append(m.Sets.Actor.Net.HeadInputs(head, m.Sets.Actor.Parts), trace.X))
		require.NoError(r.t, err)
		x, err := device.ReadNew[float32](logits[0])
		require.NoError(r.t, err)
		logits[0].Free()
		trace.Free()
		vocab := m.Cfg.Text.Vocab
		for _, row := range r.rows {
			if row.test.Name != name || at[row.index].pack != i {
				continue
			}
			for k, column := range row.column {
				back := column - (row.test.Shape[1] - dims[1])
				if back < 0 {
					continue
				}
				from := (at[row.index].first + k) * vocab
				golden.Floats(r.t, r.tally, fmt.Sprintf("%s row %d column %d", key, row.row, column), x[from:from+vocab],
					recorded[(row.row*dims[1]+back)*vocab:][:vocab], logitLimit)
			}
		}
	}
}

// compareAdapterGradients compares the gradients of the recorded batch, of which
// there must be one for each of the adapter's matrices and no other.
func (r *recordedModel) compareAdapterGradients(m *Model) {
	s := r.training(m.Sets.Actor)
	if s == nil || !r.has("lora.train.loss") {
		return
	}
	grads, stats := s.gradients(r, m, m.Sets.Actor)
	defer m.Sets.Actor.DropGradients()
	r.tally.Float(r.t, "lora loss", stats.PolicyLoss, r.floats("lora.train.loss")[0], firstLossLimit)
	compared := 0
	for name, x := range grads {
		key := "lora.train.grad/" + peft.Prefix + name
		require.True(r.t, r.has(key), "no gradient of %s is recorded", name)
		golden.Floats(r.t, r.tally, key, x, r.floats(key), golden.Tolerance{Abs: r.grad * Largest(x)})
		compared++
	}
	for _, name := range r.tensors.Names() {
		if strings.HasPrefix(name, "lora.train.grad/") {
			compared--
		}
	}
	require.Zero(r.t, compared, "every recorded gradient has its counterpart")
}
