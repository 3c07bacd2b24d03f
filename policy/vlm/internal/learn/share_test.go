package learn_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/peft"
	. "vagen/policy/vlm/internal/vlmtest"
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
	for gi, g := range x.Groups {
		for i, p := range g.Params {
			if p.Adapter {
				sum += x.Arrays[gi][i].Bytes()
			}
		}
	}
	return sum
}

func held(m *Model) int64 { _, bytes := m.Dev.Live(); return bytes }

// One base, two adapters, a value head, and for the reference a zero for every
// shape: with AdamW's moments, of what is trained alone.
func TestPolicyCriticAndReferenceShareTheBase(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Llama} {
		dir := Folder(t, family, nil)
		base := held(Open(t, dir, Options{}))
		m := Open(t, dir, Options{LoRA: Adapters(), Critic: learn.SeparateCritic, Reference: true})
		const score = 4 * (16 + 1) // hidden size and bias
		adapters := adapterBytes(m.Sets.Actor.Weights)
		var off int64
		for _, a := range m.Sets.Zeros {
			off += a.Bytes()
		}
		require.Equal(t, base+2*adapters+score+off, held(m), family)
		m.Train(t, 2)
		require.Equal(t, base+3*(2*adapters+score)+off, held(m), family)
		require.NoError(t, m.Close())
		require.Zero(t, held(m), "shared arrays are freed once")
	}
}

// A critic on a copy of the folder has its own weights: its values, updates and saved
// files equal those of a critic on a shared base, number by number.
func TestSharingTheBaseChangesNoNumber(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	o := Options{LoRA: Adapters(), Critic: learn.SeparateCritic, Reference: true, Seed: 5}
	shared := Open(t, dir, o)
	o.CriticPath = copyFolder(t, dir)
	own := Open(t, dir, o)
	require.True(t, shared.Sets.Critic.OnBase())
	require.False(t, own.Sets.Critic.OnBase())
	require.Greater(t, held(own), held(shared))

	b := playedBatch(t, shared)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ValueCoef: 0.7,
		ValueClip: 0.3, KL: "k3", KLCoef: 0.1}
	a1, c1, _ := gradientsOf(t, shared, b, aim)
	a2, c2, _ := gradientsOf(t, own, b, aim)
	require.Equal(t, a2, a1)
	require.Equal(t, c2, c1)
	require.Contains(t, sortedNames(c1), "score.weight")
	require.Greater(t, len(c1), 20)
	shared.Train(t, 2)
	own.Train(t, 2)
	require.Equal(t, Read(t, own.Sets.Actor.Weights), Read(t, shared.Sets.Actor.Weights))
	require.Equal(t, Read(t, own.Sets.Critic.Weights), Read(t, shared.Sets.Critic.Weights))
	require.NotEqual(t, adapterOf(t, shared.Sets.Actor), adapterOf(t, shared.Sets.Critic), "each learns its own")
	want, got := own.Saved(t), shared.Saved(t)
	for _, folder := range []string{learn.CriticFolder, learn.OptimizerFolder} {
		RequireSameFiles(t, filepath.Join(want, folder), filepath.Join(got, folder))
	}
}

// adapterOf are a learner's adapters by name.
func adapterOf(t *testing.T, l *learn.Learner) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	for name, x := range Read(t, l.Weights) {
		if strings.Contains(name, ".lora_") {
			out[name] = x
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestSavedCriticAdaptersOpenAsCriticPath(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	m := Open(t, dir, Options{LoRA: Adapters(), Critic: learn.SeparateCritic})
	m.Train(t, 2)
	saved := m.Saved(t)
	actor, critic := filepath.Join(saved, learn.ActorFolder), filepath.Join(saved, learn.CriticFolder)
	again := Open(t, dir, Options{Adapter: actor, Critic: learn.SeparateCritic, CriticPath: critic, Seed: 99})
	require.Equal(t, Read(t, m.Sets.Actor.Weights), Read(t, again.Sets.Actor.Weights))
	require.Equal(t, Read(t, m.Sets.Critic.Weights), Read(t, again.Sets.Critic.Weights), "the value head, too")
	require.True(t, again.Sets.Critic.OnBase())

	fail := func(want string, is error, o Options) {
		o.Critic, o.CriticPath = learn.SeparateCritic, critic
		_, err := TryOpen(t.Context(), dir, o)
		testkit.Error(t, err, is, want)
	}
	fail("the policy has none", backend.ErrOption, Options{})
	fail("they must be the same", peft.ErrConfig, Options{LoRA: &LoRA{Rank: 3, Alpha: 7, Targets: Adapters().Targets}})
	fail("do not cover", weights.ErrWeights, Options{LoRA: &LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj"}}})
}

// After Tie the reference is the adapted model, frozen, and the critic's trunk
// starts from it; the weights below are not copied.
func TestTieCopiesTheAdapter(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{LoRA: Adapters(), Critic: learn.SeparateCritic, Reference: true})
	rows, want := m.FourRows(t)
	scores := func() *policy.Scores {
		return scored(t, m, &rows, want, policy.ScoreRequest{LogProbs: true, Reference: true})
	}
	m.Imitate(t, rows, want, 1e-2)
	first := scores()
	require.NotEqual(t, first.LogProbs, first.Reference)
	head := Read(t, m.Sets.Critic.Weights)["score.weight"]
	before := held(m)
	var off int64
	for _, a := range m.Sets.Zeros {
		off += a.Bytes()
	}
	require.NoError(t, m.Sets.Tie(t.Context()))
	require.Equal(t, before+adapterBytes(m.Sets.Actor.Weights)-off, held(m), "one more adapter, without the zeros")
	tied := scores()
	require.Equal(t, first.LogProbs, tied.LogProbs)
	require.Equal(t, first.LogProbs, tied.Reference)
	require.Equal(t, adapterOf(t, m.Sets.Actor), adapterOf(t, m.Sets.Critic))
	require.Equal(t, head, Read(t, m.Sets.Critic.Weights)["score.weight"], "the value head stays")

	after := held(m)
	m.Train(t, 2)
	later := scores()
	require.Equal(t, tied.Reference, later.Reference, "it stays as it was")
	require.NotEqual(t, tied.LogProbs, later.LogProbs)
	require.NoError(t, m.Sets.Tie(t.Context()))
	require.Equal(t, later.LogProbs, scores().Reference, "and can be tied again")
	require.Greater(t, held(m), after, "moments of the critic")
	require.NoError(t, m.Close())
	require.Zero(t, held(m))
}

func TestTieRefusesACriticOnAnotherModel(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	m := Open(t, dir, Options{LoRA: Adapters(), Critic: learn.SeparateCritic, CriticPath: copyFolder(t, dir)})
	err := m.Sets.Tie(t.Context())
	testkit.Error(t, err, backend.ErrOption, "are not the policy's")
}

// A cancelled copy leaves adapters and memory unchanged.
func TestCancelledTieChangesNothing(t *testing.T) {
	m := New(t, model.Qwen2, Options{LoRA: Adapters(), Critic: learn.SeparateCritic, Reference: true})
	m.Train(t, 1)
	before, was := held(m), adapterOf(t, m.Sets.Critic)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Sets.Tie(ctx), context.Canceled)
	require.Equal(t, before, held(m))
	require.Equal(t, was, adapterOf(t, m.Sets.Critic))
	for _, a := range m.Sets.Ref.Weights.Arrays[len(m.Sets.Ref.Weights.Arrays)-2] {
		_, err := device.ReadNew[float32](a)
		require.NoError(t, err)
	}
}
