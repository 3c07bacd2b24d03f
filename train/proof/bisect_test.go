package proof_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/durable"
	"vagen/internal/safetensors"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/run"
	"vagen/train/track"
)

func bisect(t *testing.T, a, b string) *proof.Bisection {
	t.Helper()
	out, err := proof.Bisect(t.Context(), a, b)
	require.NoError(t, err)
	return out
}

// TestEqualRunsHaveNoDifference, wherever their folders are.
func TestEqualRunsHaveNoDifference(t *testing.T) {
	t.Parallel()
	b := bisect(t, whole(t, recorded()), whole(t, recorded()))
	require.Nil(t, b.First)
	require.Nil(t, b.Weights)
	require.Empty(t, b.Cause)
	require.Empty(t, b.Config)
	require.Equal(t, 6, b.Compared)
}

// TestTheSeedIsNamed as the cause when it differs.
func TestTheSeedIsNamed(t *testing.T) {
	c := recorded()
	c.Run.Seed = 6
	b := bisect(t, whole(t, recorded()), whole(t, c))
	require.Equal(t, "seed: run.seed: 5 → 6", b.Cause)
	require.Equal(t, []any{1, track.StageEpisodes}, []any{b.First.Step, b.First.Stage})
	require.Contains(t, b.First.What, "episode 0 (group 0, index 0)")
}

// TestTheSettingIsNamed that acts at the stage of the first difference, also among others.
func TestTheSettingIsNamed(t *testing.T) {
	t.Parallel()
	c := recorded()
	c.Agent.Actor.Optim.Rate = 1.5
	made := whole(t, recorded())
	b := bisect(t, made, whole(t, c))
	require.Equal(t, "configuration: actor_rollout_ref.actor.optim.lr: 2 → 1.5", b.Cause)
	require.Equal(t, []any{1, track.StageUpdate}, []any{b.First.Step, b.First.Stage})
	require.Contains(t, b.First.What, "actor/lr 2 → 1.5")
	require.Equal(t, []any{1, "actor/policy differs, by the recorded hashes: a checkpoint was removed"},
		[]any{b.Weights.Step, b.Weights.What})

	c.Data.MaxResponse = 1
	b = bisect(t, made, whole(t, c))
	if b.First.Stage == track.StageEpisodes {
		require.Contains(t, b.Cause, "data.max_response_length: 4 → 1")
		require.NotContains(t, b.Cause, "optim.lr", "it acts later in step 1")
	}
}

// TestTheFirstTokenIsNamed that differs in the stored episodes, and in a run without chain.
func TestTheFirstTokenIsNamed(t *testing.T) {
	a, dir := whole(t, recorded()), whole(t, recorded())
	path := filepath.Join(dir, "rollouts", "step_3.parquet")
	r, err := store.Open(path)
	require.NoError(t, err)
	r.Lenient() // images are not stored
	var ts []*rollout.Trajectory
	for s, err := range r.All() {
		require.NoError(t, err)
		ts = append(ts, s.Trajectory)
	}
	require.NoError(t, r.Close())
	row := &ts[2].Rows[0]
	start, _, ok := row.TurnAt(1)
	require.True(t, ok)
	row.LogProbs[start] -= 0.5
	require.NoError(t, store.Save(path, 3, ts))
	for _, file := range []string{"", proof.FileName} {
		if file != "" {
			require.NoError(t, os.Remove(filepath.Join(dir, file)))
		}
		b := bisect(t, a, dir)
		require.Equal(t, []any{3, track.StageEpisodes}, []any{b.First.Step, b.First.Stage})
		require.Regexp(t, `^episode 2 \(group 2, index 0\), turn 1, conversation 0, position \d+: log-prob of token \d+ was -`, b.First.What)
		require.Equal(t, proof.NotExplained, b.Cause)
		require.Equal(t, 2, b.Compared)
		if file != "" {
			require.Contains(t, b.Notes[0], "has no proof.jsonl: its machine, code and inputs are unknown")
		}
	}
}

// TestTheFirstAdvantageIsNamed where runs store the scores of tokens.
func TestTheFirstAdvantageIsNamed(t *testing.T) {
	t.Parallel()
	c := recorded()
	c.Trainer.RolloutScores = true
	a := whole(t, c)
	c.Algorithm.TurnGamma = 0.8
	b := bisect(t, a, whole(t, c))
	require.Equal(t, []any{1, track.StageAdvantages}, []any{b.First.Step, b.First.Stage})
	require.Regexp(t, `^group 0, index 0: scores of conversation 0: (advantages|returns)\[\d+\] was `, b.First.What)
	require.Regexp(t, `^configuration: algorithm\.\w+: 0\.9 → 0\.8$`, b.Cause)
}

// TestMetricsAreBisectedWithoutEpisodes: the earliest stage of the first step is named.
func TestMetricsAreBisectedWithoutEpisodes(t *testing.T) {
	t.Parallel()
	spoiled := filepath.Join(t.TempDir(), "run")
	require.NoError(t, train(t, spoiled, recorded(), func(_ *run.Run, b *traintest.Bandit) {
		updates := 0
		b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
			if updates++; updates > 4 { // from step 3
				s.Entropy++
			}
			return nil
		}
	}))
	b := bisect(t, whole(t, recorded()), spoiled)
	require.Equal(t, []any{3, track.StageUpdate}, []any{b.First.Step, b.First.Stage})
	require.Contains(t, b.First.What, "metrics actor/entropy ")
	require.Equal(t, proof.NotExplained, b.Cause)
}

// TestADifferenceInImitationIsCalledSo: it comes before training, whose settings have not
// acted then.
func TestADifferenceInImitationIsCalledSo(t *testing.T) {
	c := recorded()
	c.Run.Seed, c.Agent.Actor.Optim.Rate = 6, 1.5
	a, dir := whole(t, recorded()), whole(t, c)
	for run, loss := range map[string]string{a: "0.5", dir: "0.25"} {
		path := filepath.Join(run, "metrics.jsonl")
		raw := testkit.Read(t, path)
		testkit.Write(t, path, append([]byte(`{"kind":"imitate","step":16,"imitate/loss":`+loss+"}\n"),
			raw...))
	}
	b := bisect(t, a, dir)
	require.Equal(t, proof.Finding{Step: 16, Stage: track.StageImitation, What: "metrics imitate/loss 0.5 → 0.25"},
		*b.First)
	require.Equal(t, "seed: run.seed: 5 → 6", b.Cause)
}

// TestTheFirstTensorIsNamed in the first checkpoint that differs.
func TestTheFirstTensorIsNamed(t *testing.T) {
	put := func(dir string, second float32) {
		folder := filepath.Join(dir, "checkpoints", "step_5")
		tensors := []safetensors.Tensor{{Name: "a", DType: safetensors.F32, Shape: []int{2}},
			{Name: "b", DType: safetensors.F32, Shape: []int{2}}}
		w, err := safetensors.Create(filepath.Join(folder, "actor", "model.safetensors"), tensors, nil)
		require.NoError(t, err)
		require.NoError(t, w.Float32("a", []float32{1, 2}))
		require.NoError(t, w.Float32("b", []float32{3, second}))
		require.NoError(t, w.Commit())
		sums, err := durable.Sums(t.Context(), folder, "manifest.json")
		require.NoError(t, err)
		require.NoError(t, durable.WriteJSON(filepath.Join(folder, "manifest.json"), sums))
	}
	a, b := whole(t, recorded()), whole(t, recorded())
	put(a, 4)
	put(b, 4.5)
	got := bisect(t, a, b)
	require.Equal(t, &proof.Finding{Step: 5, Stage: proof.StageWeights,
		What: "actor/model.safetensors: tensor b [2]: 1 of 2 weights differ; the first, at 1, is 4 and 4.5"}, got.First)
}

// TestMachineAndCodeAreCauses when they are all that differs.
func TestMachineAndCodeAreCauses(t *testing.T) {
	a, b := &proof.Facts{Backend: "go", Family: "x 1"}, &proof.Facts{Backend: "xla:cpu", Family: "x 1"}
	a.Build.Version, b.Build.Version = "(devel)", "(devel)"
	require.False(t, a.SameMachine(b))
	require.Equal(t, []proof.Difference{{What: "backend", A: "go", B: "xla:cpu"}}, a.MachineDifferences(b))
	b.Build.Modified = true
	require.Equal(t, "version of vagen: (devel) → (devel) with changes", a.CodeDifferences(b)[0].String())

	here := proof.NewFacts([]byte("x"), 1, "go")
	require.True(t, here.SameMachine(here))
	require.NotEmpty(t, here.Build.Go)
}

// TestDataFilesAreInputs: a data file that changed is found in its run, and named as the cause
// where two runs differ.
func TestDataFilesAreInputs(t *testing.T) {
	t.Parallel()
	entry := "envs: [{name: guess, n_envs: 24, seed: [1, 100, 1], config: {turns: 2}}]"
	path := traintest.WriteFile(t, entry)
	c := recorded()
	c.Env.Name, c.Env.Config, c.Data.TrainFiles, c.Data.ValFiles = "", nil, []string{path},
		[]string{traintest.WriteFile(t, entry)}
	one := whole(t, c)
	other := func(s string) string { return strings.Replace(s, "100", "90", 1) }
	elsewhere := c
	elsewhere.Data.TrainFiles = []string{traintest.WriteFile(t, other(entry))}
	b := bisect(t, one, whole(t, elsewhere))
	require.NotNil(t, b.First)
	require.Contains(t, b.Cause, "data: data.train_files[0]: ", "the content is the cause, not the path")
	edit(t, other, path)
	require.Contains(t, text(verify(t, one)), "inputs: fault: "+path+" has SHA-256")
	require.NoError(t, os.Remove(path))
	require.Empty(t, verify(t, one).Faults(), "a removed file is no fault")
}

// TestTheTeacherIsAnInput where a run opens it.
func TestTheTeacherIsAnInput(t *testing.T) {
	c := recorded()
	c.Agent.Ref.Model.Path = "teacher"
	require.NotContains(t, proof.InputPaths(&c), "reference", "nothing is scored with it")
	c.Agent.Actor.UseKLLoss = true
	require.Equal(t, "teacher", proof.InputPaths(&c)["reference"])
	c.Trainer.Stage = config.StageSFT
	require.NotContains(t, proof.InputPaths(&c), "reference")
}
