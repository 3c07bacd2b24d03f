package learn_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// groupsOf are rows of which several begin with the same prompt: some of the four rows, each several times. The last
// six tokens are the response, of which the last three differ.
func groupsOf(t *testing.T, m *Model, times int) *policy.Batch {
	t.Helper()
	four, _ := m.FourRows(t)
	rows, _ := pick(four, slices.Repeat([]int{2, 3, 2, 0, 3, 2, 1, 2, 0}, times)...)
	r := rand.New(rand.NewPCG(3, 1))
	n := len(rows.Tokens)
	b := &policy.Batch{Rows: rows, Advantages: make([]float32, n), OldLogProbs: make([]float32, n),
		Returns:   make([]float32, n),
		OldValues: make([]float32, n)}
	want := make([]bool, n)
	for i := range rows.Len() {
		for at := max(rows.Offsets[i]+1, rows.Offsets[i+1]-6); at < rows.Offsets[i+1]; at++ {
			want[at], b.Advantages[at], b.Returns[at] = true, float32(r.NormFloat64()), float32(r.NormFloat64())
			if at >= rows.Offsets[i+1]-3 {
				rows.Tokens[at] = int32(r.IntN(256))
			}
		}
	}
	b.Weight, b.ValueWeight = Evenly(want), Evenly(want)
	return b
}

func positions(t *testing.T, m *Model, b *policy.Batch) (n int) {
	t.Helper()
	leaves, err := m.Sets.Packer(m.Net).Leaves(&b.Rows, learn.NonZero(len(b.Tokens), b.Weight))
	require.NoError(t, err)
	for _, p := range net.Flat(leaves) {
		n += p.Size()
	}
	return n
}

// Rows that begin with the same prompt have it once in a bin. Scores and gradients are those of separate prompts,
// but for rounding.
func TestSharedPromptsChangeNoNumber(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Llama, model.Qwen35} {
		dir := Folder(t, family, nil)
		o := Options{Critic: learn.SeparateCritic, Reference: true, MicroTokens: 96}
		apart := Open(t, dir, o)
		o.SharePrefix = true
		shared := Open(t, dir, o)
		b := groupsOf(t, apart, 1)
		if family == model.Qwen35 {
			require.Equal(t, positions(t, apart, b), positions(t, shared, b), "its layers keep a state, which cannot be shared")
			continue
		}
		require.Less(t, 4*positions(t, shared, b), 3*positions(t, apart, b), family)
		want := learn.NonZero(len(b.Tokens), b.Weight)
		expected := columnsOf(scored(t, apart, &b.Rows, want, everything))
		for name, got := range columnsOf(scored(t, shared, &b.Rows, want, everything)) {
			RequireNear(t, expected[name], got, Drift, string(family)+": "+name)
		}
		b.OldLogProbs, b.Reference = expected["log-probs"], slices.Clone(expected["reference"])
		objective := policy.Objective{Temperature: 0.9, Policy: loss.DefaultPPO(), EntropyCoef: 0.1, KL: "k3", KLCoef: 0.2,
			ValueCoef: 0.5}
		actor, critic, _ := gradientsOf(t, apart, b, objective)
		a, c, _ := gradientsOf(t, shared, b, objective)
		requireGradients(t, actor, a)
		requireGradients(t, critic, c)
	}
}

func TestSharedPromptsGiveTheSameBytesOnAnyNumberOfDevices(t *testing.T) {
	dir := Folder(t, model.Llama, nil)
	objective := policy.Objective{Temperature: 1, Policy: loss.DefaultPPO(), ValueCoef: 0.5}
	var want [2]map[string][]float32 // of the policy and of the critic
	o := Options{Critic: learn.SeparateCritic, MicroTokens: 48, SameBytes: true}
	apart := Open(t, dir, o)
	b := groupsOf(t, apart, 3)
	o.SharePrefix = true
	for _, o.Devices = range []int{1, 2} {
		m := Open(t, dir, o)
		require.Less(t, 4*positions(t, m, b), 3*positions(t, apart, b))
		actor, critic, _ := gradientsOf(t, m, b, objective)
		got := [2]map[string][]float32{actor, critic}
		if o.Devices > 1 {
			require.Equal(t, want, got)
		}
		want = got
	}
}
