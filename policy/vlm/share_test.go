package vlm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// copyFolder copies the files of a folder.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(to, "copy"), os.DirFS(dir)))
	return filepath.Join(to, "copy")
}

func adapterBytes(x *weights.Tensors) (sum int64) {
	_ = x.EachAdapter(func(gi, i int, _ model.Param) error { sum += x.Arrays[gi][i].Bytes(); return nil })
	return sum
}

func held(m *Model) int64 { _, bytes := m.dev.Live(); return bytes }

// One base, two adapters, a value head, and for the reference a zero for every
// shape: with AdamW's moments, of what is trained alone.
func TestPolicyCriticAndReferenceShareTheBase(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Llama} {
		dir := tinyFolder(t, family, nil)
		base := held(openTiny(t, dir, Options{}))
		m := openTiny(t, dir, Options{LoRA: lora(), Critic: SeparateCritic, Reference: true})
		const score = 4 * (16 + 1) // hidden size and bias
		adapters := adapterBytes(m.sets.Actor.Weights)
		var off int64
		for _, a := range m.sets.Zeros {
			off += a.Bytes()
		}
		require.Equal(t, base+2*adapters+score+off, held(m), family)
		train(t, m, 2)
		require.Equal(t, base+3*(2*adapters+score)+off, held(m), family)
		require.NoError(t, m.Close())
		require.Zero(t, held(m), "shared arrays are freed once")
	}
}

// A critic on a copy of the folder has its own weights: its values, updates and saved
// files equal those of a critic on a shared base, number by number.
func TestSharingTheBaseChangesNoNumber(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	o := Options{LoRA: lora(), Critic: SeparateCritic, Reference: true, Seed: 5}
	shared := openTiny(t, dir, o)
	o.CriticPath = copyFolder(t, dir)
	own := openTiny(t, dir, o)
	require.True(t, shared.sets.Critic.OnBase())
	require.False(t, own.sets.Critic.OnBase())
	require.Greater(t, held(own), held(shared))

	b := playedBatch(t, shared)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 0.7, ValueClip: 0.3, KL: "k3", KLCoef: 0.1}
	a1, c1, _ := gradientsOf(t, shared, b, aim)
	a2, c2, _ := gradientsOf(t, own, b, aim)
	require.Equal(t, a2, a1)
	require.Equal(t, c2, c1)
	require.Contains(t, sortedNames(c1), "score.weight")
	require.Greater(t, len(c1), 20)
	train(t, shared, 2)
	train(t, own, 2)
	require.Equal(t, weightsOf(t, own.sets.Actor), weightsOf(t, shared.sets.Actor))
	require.Equal(t, weightsOf(t, own.sets.Critic), weightsOf(t, shared.sets.Critic))
	require.NotEqual(t, adapterOf(t, shared.sets.Actor), adapterOf(t, shared.sets.Critic), "each learns its own")
	want, got := save(t, own), save(t, shared)
	for _, folder := range []string{learn.CriticFolder, learn.OptimizerFolder} {
		requireSameFiles(t, filepath.Join(want, folder), filepath.Join(got, folder))
	}
}

// adapterOf are a learner's adapters by name.
func adapterOf(t *testing.T, l *learn.Learner) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	for name, x := range weightsOf(t, l) {
		if strings.Contains(name, ".lora_") {
			out[name] = x
		}
	}
	require.NotEmpty(t, out)
	return out
}

// Exported files do not include the critic, and the exported policy is the policy with its
// adapter.
func TestExportsLeaveTheSharingCriticOut(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{LoRA: lora(), Critic: SeparateCritic})
	train(t, m, 3)
	out := filepath.Join(t.TempDir(), "merged")
	require.NoError(t, m.Export(t.Context(), out))
	plain := openTiny(t, out, Options{})
	rows, want := fourRows(t, m)
	requireNear(t, logProbsOf(t, m, rows, want), logProbsOf(t, plain, rows, want), rowDrift, "log-probs")
	require.NotContains(t, weightsOf(t, plain.sets.Actor), "score.weight")
}

func TestSavedCriticAdaptersOpenAsCriticPath(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	m := openTiny(t, dir, Options{LoRA: lora(), Critic: SeparateCritic})
	train(t, m, 2)
	saved := save(t, m)
	actor, critic := filepath.Join(saved, learn.ActorFolder), filepath.Join(saved, learn.CriticFolder)
	again := openTiny(t, dir, Options{Adapter: actor, Critic: SeparateCritic, CriticPath: critic, Seed: 99})
	require.Equal(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor))
	require.Equal(t, weightsOf(t, m.sets.Critic), weightsOf(t, again.sets.Critic), "the value head, too")
	require.True(t, again.sets.Critic.OnBase())

	fail := func(want string, is error, o Options) {
		o.Backend, o.Critic, o.CriticPath = backend.Go, SeparateCritic, critic
		_, err := Open(t.Context(), dir, o)
		require.ErrorIs(t, err, is)
		require.ErrorContains(t, err, want)
	}
	fail("the policy has none", ErrOption, Options{})
	fail("they must be the same", peft.ErrConfig, Options{LoRA: &LoRA{Rank: 3, Alpha: 7, Targets: lora().Targets}})
	fail("do not cover", ErrWeights, Options{LoRA: &LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj"}}})
}

// After Tie the reference is the adapted model, frozen, and the critic's trunk
// starts from it; the weights below are not copied.
func TestTieCopiesTheAdapter(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{LoRA: lora(), Critic: SeparateCritic, Reference: true})
	rows, want := fourRows(t, m)
	scores := func() *policy.Scores {
		s, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true, Reference: true}, 1)
		require.NoError(t, err)
		return s
	}
	imitate(t, m, rows, want, 1e-2)
	first := scores()
	require.NotEqual(t, first.LogProbs, first.Reference)
	head := weightsOf(t, m.sets.Critic)["score.weight"]
	before := held(m)
	var off int64
	for _, a := range m.sets.Zeros {
		off += a.Bytes()
	}
	require.NoError(t, m.Tie(t.Context()))
	require.Equal(t, before+adapterBytes(m.sets.Actor.Weights)-off, held(m), "one more adapter, without the zeros")
	tied := scores()
	require.Equal(t, first.LogProbs, tied.LogProbs)
	require.Equal(t, first.LogProbs, tied.Reference)
	require.Equal(t, adapterOf(t, m.sets.Actor), adapterOf(t, m.sets.Critic))
	require.Equal(t, head, weightsOf(t, m.sets.Critic)["score.weight"], "the value head stays")

	after := held(m)
	train(t, m, 2)
	later := scores()
	require.Equal(t, tied.Reference, later.Reference, "it stays as it was")
	require.NotEqual(t, tied.LogProbs, later.LogProbs)
	require.NoError(t, m.Tie(t.Context()))
	require.Equal(t, later.LogProbs, scores().Reference, "and can be tied again")
	require.Greater(t, held(m), after, "moments of the critic")
	require.NoError(t, m.Close())
	require.Zero(t, held(m))
}

func TestTieRefusesACriticOnAnotherModel(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	m := openTiny(t, dir, Options{LoRA: lora(), Critic: SeparateCritic, CriticPath: copyFolder(t, dir)})
	err := m.Tie(t.Context())
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "are not the policy's")
}

// A cancelled copy leaves adapters and memory unchanged.
func TestCancelledTieChangesNothing(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{LoRA: lora(), Critic: SeparateCritic, Reference: true})
	train(t, m, 1)
	before, was := held(m), adapterOf(t, m.sets.Critic)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Tie(ctx), context.Canceled)
	require.Equal(t, before, held(m))
	require.Equal(t, was, adapterOf(t, m.sets.Critic))
	for _, a := range m.sets.Ref.Weights.Arrays[len(m.sets.Ref.Weights.Arrays)-2] {
		_, err := device.ReadNew[float32](a)
		require.NoError(t, err)
	}
}
