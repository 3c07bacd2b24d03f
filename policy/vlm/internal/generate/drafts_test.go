package generate_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// draftCase is work of few rows that is repeated in other conversations, so that what was written the first time is a
// right guess the second time until the row ends.
type draftCase struct {
	family   model.Family
	changes  Object
	options  Options
	packed   dtypes.DType
	sampling policy.Sampling
	rows     int
	image    bool
	xla      bool // also there, where each size of a batch is compiled
	check    func(t *testing.T, all []policy.Completion)
}

func draftCases() map[string]draftCase {
	plain := policy.Sampling{Temperature: 1, MaxTokens: 23}
	long := policy.Sampling{Temperature: 1, MaxTokens: 70} // beyond a recent segment
	stopping := policy.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 50, MaxTokens: 21, StopStrings: letters}
	stopped := func(s policy.Stop) func(t *testing.T, all []policy.Completion) {
		return func(t *testing.T, all []policy.Completion) { require.Positive(t, stops(all, s)) }
	}
	return map[string]draftCase{
		"pictures": {family: model.Qwen25VL, sampling: plain, rows: 2, image: true},
		"end tokens": {family: model.Qwen3, changes: Object{"eos_token_id": firstBytes, "num_hidden_layers": 1},
			sampling: long, rows: 2, xla: true, check: stopped(policy.StopEnd)},
		"flushed": {family: model.Qwen3, changes: shallow, sampling: long, rows: 2, xla: true}, // the same programs
		"alone":   {family: model.Qwen3, changes: shallow, sampling: long, rows: 1},
		"stop strings": {family: model.Llama, changes: shallow, sampling: stopping, rows: 2,
			check: stopped(policy.StopString)},
		"forced tokens": {family: model.Qwen2, changes: shallow, rows: 2,
			sampling: policy.Sampling{Temperature: 1, MaxTokens: 40, Thinking: policy.Thinking{Tokens: 11, Close: "</t>"}},
			check: func(t *testing.T, all []policy.Completion) {
				require.True(t, slices.ContainsFunc(all, func(c policy.Completion) bool { return len(c.Forced) > 0 }))
			}},
		"packed":   {family: model.Qwen3, changes: shallow, sampling: plain, rows: 2, packed: dtypes.Int8},
		"adapters": {family: model.Qwen2, changes: shallow, options: Options{LoRA: Adapters()}, sampling: plain, rows: 2},
	}
}

// played is what a model writes in two turns of conversations, in the same two of others, in those of other contexts,
// and after resuming the first ones, with the order in which tokens were reported.
func (c *draftCase) played(
	t *testing.T, dir string, o Options, drafts int,
) (all []policy.Completion, order []string, m *Model) {
	m = Open(t, dir, o)
	m.Gen.Packed, m.Gen.DraftTokens = c.packed, drafts // in pure Go, too, where Open refuses them
	var first []policy.Completion
	play := func(prompts []policy.Prompt) {
		out := watched(t, m, prompts, c.sampling, &order)
		if first == nil {
			first = out
		}
		all = append(all, out...)
	}
	prompts := questions(c.rows, c.image)
	for i := range prompts {
		prompts[i].MaxTokens = max(1, c.sampling.MaxTokens-7*i)
	}
	for range 2 {
		play(prompts)
		play(nextTurn(prompts))
		for i := range prompts {
			prompts[i].Conversation += 100
		}
	}
	for i := range prompts { // other contexts with the same noise: some guesses are right and some wrong
		prompts[i].Messages = Say("now " + Words[i%3])
	}
	play(prompts)
	if c.image {
		return all, order, m
	}
	var recorded []policy.Recorded
	for i, x := range first {
		prompts[i].Conversation += 100
		recorded = append(recorded, policy.Recorded{
			Conversation: prompts[i].Conversation, Tokens: slices.Concat(x.Context, x.Tokens)})
	}
	require.NoError(t, m.Gen.Resume(recorded))
	play(nextTurn(prompts))
	return all, order, m
}

// Responses with drafts have the tokens and log-probs of those without, bit for bit, and take fewer passes. Cases run
// one after another, because one loads what another has compiled.
func TestDraftsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, c := range draftCases() {
		t.Run(name, func(t *testing.T) {
			dir := Folder(t, c.family, c.changes)
			all := []Options{c.options}
			if c.xla {
				all = append(all, xlaOptions(t, c.options))
			}
			for _, o := range all {
				want, order, without := c.played(t, dir, o, 0)
				require.EqualValues(t, 1, without.Gen.TokensPerPass())
				got, gotOrder, m := c.played(t, dir, o, 3)
				require.Greater(t, m.Gen.TokensPerPass(), 1.1)
				if c.check != nil {
					c.check(t, want)
				}
				require.Equal(t, want, got, o.Backend)
				require.Equal(t, order, gotOrder)
			}
		})
	}
}
