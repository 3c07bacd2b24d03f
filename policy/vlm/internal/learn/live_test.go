package learn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	. "vagen/policy/vlm/internal/vlmtest"
)

// lived is what a model wrote, scored and reported.
type lived struct {
	Played []policy.Completion
	Scores []*policy.Scores
	Stats  []policy.Stats
}

// live plays ten conversations of two turns, some of them with pictures, and learns from them.
func live(t testing.TB, m *Model, round int, out *lived) {
	t.Helper()
	var keys []uint64
	var prompts []policy.Prompt
	for i := range 10 {
		key := uint64(100*round + i)
		p := policy.Prompt{Conversation: key, Messages: Say([]string{"left", "go right"}[i%2]), Seed: key}
		if i%3 == 0 && m.Cfg.Vision != nil {
			p.Messages = Say("<image> goal?", Drawing(uint64(i), 16, 8*(1+i/3)))
		}
		keys, prompts = append(keys, key), append(prompts, p)
	}
	played := Stories{}
	out.Played = append(out.Played, played.Play(t, m, prompts, policy.Sampling{Temperature: 1, MaxTokens: 5})...)
	for i := range prompts {
		prompts[i].Messages, prompts[i].Seed = Say("on"), uint64(1000+i)
	}
	out.Played = append(out.Played, played.Play(t, m, prompts[:7], policy.Sampling{Temperature: 1, MaxTokens: 4})...)
	for i := range out.Played {
		out.Played[i].Images = nil // pictures are not results
	}
	m.Forget(keys...)

	rows, written, logProbs := played.Rows(keys)
	what := policy.ScoreRequest{LogProbs: true, Entropy: true, Values: m.Sets.CriticOptions.Kind != learn.NoCritic,
		Reference: m.Sets.Reference}
	scores := scored(t, m, &rows, written, what)
	out.Scores = append(out.Scores, scores)
	n := len(rows.Tokens)
	b := &policy.Batch{Rows: rows, Weight: Evenly(written), Advantages: make([]float32, n), OldLogProbs: logProbs,
		Reference: scores.Reference}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = Evenly(written), scores.Values, make([]float32, n)
	}
	for i := range n {
		b.Advantages[i] = float32(i%5) - 2
		if what.Values {
			b.Returns[i] = float32(i % 3)
		}
	}
	liveSteps(t, m, b, what, out)
}

// liveSteps takes a step with a built-in loss, one with a loss of another package in three calls, and one that is
// skipped.
func liveSteps(t testing.TB, m *Model, b *policy.Batch, what policy.ScoreRequest, out *lived) {
	t.Helper()
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate, opt.GradClip = 0.01, 0.01, 0.5
	for _, kind := range []loss.Policy{loss.PPO{Low: 0.2, High: 0.2, Clamp: true},
		ownLoss{loss.GSPO{Low: 0.2, High: 0.2}}} {
		aim := policy.Objective{Temperature: 1, Policy: kind, EntropyCoef: 0.1}
		if what.Reference {
			aim.KL, aim.KLCoef = "k3", 0.1
		}
		if what.Values {
			aim.ValueCoef, aim.ValueClip = 0.5, 0.2
		}
		if _, own := kind.(ownLoss); own { // of this package, in three calls
			for range 2 {
				stats, err := m.Accumulate(t.Context(), b, aim)
				require.NoError(t, err)
				out.Stats = append(out.Stats, stats)
			}
			stats, err := m.Step(t.Context(), opt)
			require.NoError(t, err)
			require.False(t, stats.Skipped)
			out.Stats = append(out.Stats, stats)
			continue
		}
		stats := update(t, m, b, aim, opt)
		require.False(t, stats.Skipped)
		out.Stats = append(out.Stats, stats)
	}
	opt.MaxGradNorm = 1e-9 // reached by any gradient
	before := m.StateOf(t)
	stats := update(t, m, b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2}}, opt)
	require.True(t, stats.Skipped)
	require.Equal(t, before, m.StateOf(t))
	out.Stats = append(out.Stats, stats)
}

// ownLoss hides the type of a loss.
type ownLoss struct{ loss.Policy }
