package vlm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// TestATeacherScoresLikeItself: a reference of another folder and size has that model's log-probs, also after Tie.
func TestATeacherScoresLikeItself(t *testing.T) {
	dir, other := vlmtest.Folder(t, model.Qwen3, nil),
		vlmtest.Folder(t, model.Qwen3, map[string]any{"num_hidden_layers": 1})
	ctx := context.Background()
	rows := &policy.Rows{Offsets: []int{0, 4}, Tokens: []int32{3, 4, 5, 6}}
	want := []bool{false, true, true, true}
	own, err := openTiny(t, other, Options{}).Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)
	m := openTiny(t, dir, Options{Reference: true, ReferencePath: other})
	require.NoError(t, m.Tie(ctx))
	got, err := m.Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true, Reference: true}, 1)
	require.NoError(t, err)
	require.InDeltaSlice(t, own.LogProbs, got.Reference, 1e-5)
	require.NotEqual(t, got.LogProbs, got.Reference)
	require.Equal(t, other, m.Inputs()["reference"])
}

// TestRequestsAreCheckedBeforeRows: more tokens than the vocabulary has, a teacher with another one, and what the model
// was opened without.
func TestRequestsAreCheckedBeforeRows(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen3, nil)
	m := openTiny(t, dir, Options{Reference: true})
	vocab := m.cfg.Text.Vocab
	for _, by := range []string{loss.ByTeacher, loss.ByStudent, loss.ByItself} {
		require.NoError(t, m.CheckScore(policy.ScoreRequest{Choice: loss.Choice{By: by, K: vocab}}))
		require.ErrorContains(t, m.CheckScore(policy.ScoreRequest{Choice: loss.Choice{By: by, K: vocab + 1}}),
			fmt.Sprintf("%d tokens are compared at each position, must be 1 to %d", vocab+1, vocab))
	}
	other := vlmtest.Folder(t, model.Qwen3, map[string]any{"vocab_size": vocab + 8})
	m = openTiny(t, dir, Options{Reference: true, ReferencePath: other})
	require.NoError(t, m.CheckScore(policy.ScoreRequest{Reference: true}))
	require.ErrorContains(t, m.CheckScore(policy.ScoreRequest{Choice: loss.Choice{By: loss.WholeVocabulary}}),
		fmt.Sprintf("the policy has %d and the teacher %d", vocab, vocab+8))
	m = openTiny(t, dir, Options{})
	require.ErrorContains(t, m.CheckScore(policy.ScoreRequest{Reference: true}), "without a reference policy")
	require.ErrorContains(t, m.CheckScore(policy.ScoreRequest{Values: true}), "without a critic")
}

// TestOpenAndCheckRefuseTeachers of which tokens would mean something else, or whose files are not those of a model.
func TestOpenAndCheckRefuseTeachers(t *testing.T) {
	dir, other := vlmtest.Folder(t, model.Qwen3, nil), vlmtest.Folder(t, model.Qwen3, nil)
	ctx := context.Background()
	refused := func(path, says string) {
		o := Options{Reference: true, ReferencePath: path}
		_, opened := Open(ctx, dir, o)
		require.ErrorContains(t, opened, says)
		_, checked := Check(ctx, dir, o)
		require.EqualError(t, checked, opened.Error())
	}
	_, err := Check(ctx, dir, Options{Reference: true, ReferencePath: other})
	require.NoError(t, err)
	refused(filepath.Join(dir, "missing"), "ReferencePath: open ")
	refused(vlmtest.Folder(t, model.Llama, nil), "a teacher must be a model of the policy's family qwen3")
	refused(vlmtest.Folder(t, model.Qwen3, map[string]any{"vocab_size": 271}),
		"it has 271 rows of embeddings, the policy 272")
	require.NoError(t, os.Truncate(filepath.Join(other, "model.safetensors"), 100))
	refused(other, "model.safetensors")
	name := filepath.Join(other, "tokenizer.json")
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(raw, '\n'), 0o644))
	refused(other, "tokenizer.json differs")
	_, err = Open(ctx, dir, Options{ReferencePath: other})
	require.ErrorContains(t, err, "but Reference is not set")
}
