package vlmtest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/learn"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
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
		m, err := TryOpen(r.t.Context(), base, Options{Backend: devicetest.Backend(), MicroTokens: goldenTokens, HeadTokens: 512,
			Adapter: dir, Reference: true})
		require.NoError(r.t, err)
		defer m.Close()
		r.spec = m.Sets.Actor.Net.Spec
		scores := r.scoreAll(m, policy.ScoreRequest{LogProbs: true, Reference: true})
		for _, row := range r.rows {
			r.compareColumn("lora."+row.test.Name+".logprobs", row, scores.LogProbs)
			r.compareColumn(row.test.Name+".logprobs", row, scores.Reference)
		}
		r.eachPass(m, m.Sets.Actor, false, func(trace *net.Trace, i int, at []place) {
			logits := logitsOf(r.t, m.Sets.Actor, trace)
			for _, row := range r.rows {
				if at[row.index].pack == i {
					r.compareLogits("lora."+row.test.Name+".logits_last", row, logits, at[row.index].first)
				}
			}
		})
		r.compareAdapterGradients(m)

		out := r.t.TempDir()
		require.NoError(r.t, m.Sets.Actor.SaveModel(r.t.Context(), m.Sets.Dir, filepath.Join(out, "merged"), false))
		plain, err := TryOpen(r.t.Context(), filepath.Join(out, "merged"),
			Options{Backend: devicetest.Backend(), MicroTokens: goldenTokens, HeadTokens: 512})
		require.NoError(r.t, err)
		defer plain.Close()
		merged := r.scoreAll(plain, policy.ScoreRequest{LogProbs: true})
		for _, row := range r.rows {
			r.compareColumn("lora."+row.test.Name+".logprobs", row, merged.LogProbs)
		}
		require.NoError(r.t, m.Save(r.t.Context(), filepath.Join(out, "saved")))
		r.sameTensors(safetensors.Open, filepath.Join(dir, peft.WeightsFile),
			filepath.Join(out, "saved", learn.ActorFolder, peft.WeightsFile))
	}, "lora")
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
