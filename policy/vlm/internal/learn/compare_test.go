package learn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// taught returns a batch with the teacher's log-probs of the tokens that a loss compares.
func taught(t *testing.T, m *Model, by loss.Choice) *policy.Batch {
	t.Helper()
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0, 5, 9}, Tokens: []int32{3, 4, 5, 6, 7, 8, 3, 9, 4}}}
	b.Weight = []float32{0, 0.5, 0, 0.25, 0, 0, 0.25, 0.125, 0.5}
	what := policy.ScoreRequest{LogProbs: true, Reference: true, SumPiSquared: true, Choice: by}
	s, err := m.Sets.Score(t.Context(), learn.ScoreCall{Rows: &b.Rows, Want: learn.NonZero(9, b.Weight), What: what,
		Temperature: 0.7})
	require.NoError(t, err)
	b.OldLogProbs, b.Reference, b.Chosen, b.Teacher = s.LogProbs, s.Reference, s.Chosen, s.Teacher
	b.Advantages = s.SumPiSquared
	return b
}

// TestAComparedTokenThatWasWrittenIsImitated: the teacher's only token with all probability is a target.
func TestAComparedTokenThatWasWrittenIsImitated(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen3, nil), Options{Reference: true})
	b := taught(t, m, loss.Choice{By: loss.ByTeacher, K: 1})
	b.Chosen, b.Teacher = b.Tokens, make([]float32, 9)
	p := loss.Distill{Over: loss.Divergence{Form: loss.CrossEntropy, Choice: loss.Choice{By: loss.ByTeacher, K: 1}}}
	got, _, _ := gradientsOf(t, m, b, policy.Objective{Policy: p, Temperature: 0.7})
	want, _, _ := gradientsOf(t, New(t, model.Qwen3, Options{}), b,
		policy.Objective{Imitate: true, Temperature: 0.7})
	requireGradients(t, want, got)
}

// TestTheWholeVocabularyIsItsLikeliestTokens: K tokens are all, whoever chooses them.
func TestTheWholeVocabularyIsItsLikeliestTokens(t *testing.T) {
	dir, other := Folder(t, model.Qwen3, nil), Folder(t, model.Qwen3, map[string]any{"num_hidden_layers": 1})
	var want map[string][]float32
	for _, by := range []string{loss.WholeVocabulary, loss.ByTeacher, loss.ByStudent} {
		m := Open(t, dir, Options{Reference: true, ReferencePath: other})
		d := loss.Divergence{Form: loss.Whole, Choice: loss.Choice{By: by}, Alpha: 0.3}
		if by != loss.WholeVocabulary {
			d.Form, d.Choice.K = loss.Renormalised, m.Cfg.Text.Vocab
		}
		got, _, stats := gradientsOf(t, m, taught(t, m, d.Choice),
			policy.Objective{Policy: loss.Distill{Over: d}, Temperature: 0.7})
		require.Positive(t, stats.PolicyLoss)
		if want == nil {
			want = got
		}
		requireGradients(t, want, got)
	}
}

// TestTheLikeliestTokensOfThePolicyItself are those of a reference that is equal to it, and need none.
func TestTheLikeliestTokensOfThePolicyItself(t *testing.T) {
	dir := Folder(t, model.Qwen3, nil)
	rows := &policy.Rows{Offsets: []int{0, 5}, Tokens: []int32{3, 4, 5, 6, 7}}
	want := []bool{false, true, false, true, true}
	score := func(m *Model, by string) *policy.Scores {
		what := policy.ScoreRequest{LogProbs: true, Reference: m.Sets.Ref != nil, Choice: loss.Choice{By: by, K: 3}}
		s, err := m.Score(t.Context(), rows, want, what, 0.7)
		require.NoError(t, err)
		return s
	}
	both := Open(t, dir, Options{Reference: true})
	taught := score(both, loss.ByTeacher)
	require.Equal(t, taught, score(both, loss.ByItself), "the reference's log-probs besides")
	own := score(Open(t, dir, Options{SameBytes: true}), loss.ByItself)
	leader, others := lead(t, dir, Options{}, 2)
	require.Equal(t, own, score(leader, loss.ByItself), "two ranks")
	require.NoError(t, leader.Sets.Peers.Close())
	for _, r := range others {
		require.NoError(t, <-r.Ended)
	}
	require.Equal(t, taught.Chosen, own.Chosen)
	RequireNear(t, taught.Teacher, own.Teacher, Drift, "log-probs of chosen tokens")
	RequireNear(t, taught.LogProbs, own.LogProbs, Drift, "log-probs")
}

// ownDistill is a loss of another package that compares tokens.
type ownDistill struct{ loss.Distill }

// predicted is everything of steps that predict observations, or learn from a teacher by some tokens.
func predicted(t *testing.T, m *Model) (b *policy.Batch, state map[string]string) {
	t.Helper()
	d := loss.Divergence{Form: loss.Tail, Choice: loss.Choice{By: loss.ByStudent, K: 3}, Alpha: 0.5}
	b = taught(t, m, d.Choice)
	b.EchoWeight = []float32{0, 0, 0.5, 0, 0.25, 0, 0, 0, 0}
	o := policy.DefaultOptimizer()
	o.Rate = 0.01
	p := loss.Distill{Over: d, Cap: 2}
	for _, l := range []loss.Policy{p, ownDistill{p}} {
		update(t, m, b, policy.Objective{Policy: l, Temperature: 0.7}, o)
	}
	return b, m.StateOf(t)
}

// TestTeachersAndEchoesHaveTheSameBytes on any number of devices and ranks.
func TestTeachersAndEchoesHaveTheSameBytes(t *testing.T) {
	dir, other := Folder(t, model.Qwen3, nil), Folder(t, model.Qwen3, map[string]any{"num_hidden_layers": 1})
	o := Options{Reference: true, ReferencePath: other, SameBytes: true}
	want, state := predicted(t, Open(t, dir, o))
	o.Devices = 2
	got, now := predicted(t, Open(t, dir, o))
	require.Equal(t, want, got)
	require.Equal(t, state, now)
	o.Devices, o.SameBytes = 1, false
	leader, others := lead(t, dir, o, 2)
	got, now = predicted(t, leader)
	require.Equal(t, want, got)
	require.Equal(t, state, now)
	require.NoError(t, leader.Sets.Peers.Close())
	for _, r := range others {
		require.NoError(t, <-r.Ended)
	}
}

// TestTokensThatCannotBeCompared are refused by name.
func TestTokensThatCannotBeCompared(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen3, nil), Options{Reference: true})
	p := loss.Distill{Over: loss.Divergence{Form: loss.Tail, Choice: loss.Choice{By: loss.ByTeacher, K: 2}}}
	for want, change := range map[string]func(*policy.Batch){
		"Chosen is missing":                   func(b *policy.Batch) { b.Chosen = nil },
		"Chosen has 17 tokens, Teacher 18":    func(b *policy.Batch) { b.Chosen = b.Chosen[1:] },
		"Chosen: entry 3 is token -1":         func(b *policy.Batch) { b.Chosen[3] = -1 },
		"chosen log-probs: column is missing": func(b *policy.Batch) { b.Teacher = nil },
	} {
		b := taught(t, m, p.Over.Choice)
		change(b)
		_, err := m.Update(t.Context(), b, policy.Objective{Policy: p, Temperature: 0.7}, still)
		require.ErrorContains(t, err, want)
	}
	_, err := m.Sets.Score(t.Context(), learn.ScoreCall{Rows: &policy.Rows{}, What: policy.ScoreRequest{
		Choice: loss.Choice{By: loss.ByTeacher, K: 1 << 20}}, Temperature: 1})
	require.True(t, err != nil && strings.Contains(err.Error(), "1048576 tokens are compared"), err)
}
