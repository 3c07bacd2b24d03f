package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/proof"
)

// lakeWords are texts that the tiny model encodes as one token each.
var lakeWords = append(slices.Clone(tinymodel.Lake),
	rollout.DefaultRequest, rollout.DefaultHeading) // without them compact rows are long and slow

// tinyRun is a configuration of two steps on FrozenLake in pictures, with a model
// that the pure-Go backend trains in a moment.
func tinyRun(harness string) config.Config {
	c := config.Default()
	c.Model.Backend, c.Model.CacheTokens = "go", 64
	c.Env.Name, c.Env.Config = "frozenlake", traintest.Lake()
	c.Algorithm.Estimator = "token_level_gae"
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 2, 2, 5
	c.Rollout.Trajectories, c.Rollout.MaxTurns = 2, 4
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Optim.Rate, c.Critic.Kind = 2, 1e-2, "shared"
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.SaveFreq = 2, 2, 2
	c.Trainer.Harness, c.Trainer.CompactBudget, c.Trainer.CompactSummary = harness, 62, 4
	if harness == "window" {
		two := 2
		c.Rollout.WindowSize = &two
	}
	return c
}

// watched is a model that records the batches of its updates.
type watched struct {
	*vlm.Model
	batches hash.Hash
}

func (w watched) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	for _, numbers := range []any{b.Tokens, b.OldLogProbs, b.Advantages, b.Returns, b.RolloutWeight} {
		if err := binary.Write(w.batches, binary.LittleEndian, numbers); err != nil {
			return policy.Stats{}, err
		}
	}
	return w.Model.Update(ctx, b, o, opt)
}

// trainTiny runs a configuration and returns all results except times: metrics, episodes
// with their pictures, weights, and the batches of the updates.
func trainTiny(t *testing.T, c config.Config) map[string]string {
	t.Helper()
	dir := t.TempDir()
	model := tinymodel.Create(t, tinymodel.Shape(), lakeWords, 3)
	w := watched{batches: sha256.New()}
	r, err := Open(t.Context(), c, Options{Dir: filepath.Join(dir, "run"), Learner: func(ctx context.Context,
		_ string) (_ policy.Learner, err error) {
		w.Model, err = vlm.Open(ctx, model, ModelOptions(&c, nil))
		return w, err
	}})
	require.NoError(t, err)
	folder := r.Folder
	require.NoError(t, r.Train(t.Context()))
	require.NoError(t, r.Close())
	// The number of workers is in the configuration, which the manifest and the record sum up.
	out := traintest.Files(t, folder.Path, "config.yaml", "manifest.json", proof.FileName)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, "tensorboard") }) // time of day
	out["batches"] = hex.EncodeToString(w.batches.Sum(nil))
	return out
}

// trained returns trainTiny's results for a harness, on policy, collecting ahead or with older
// episodes, with one worker on one processor. Tests share them.
func trained(t *testing.T, harness string) map[string]string {
	t.Helper()
	if runs[harness] == nil {
		runs[harness] = trainOn(t, harness, 1, 1)
	}
	return runs[harness]
}

var runs = make(map[string]map[string]string)

// trainOn is trained with a number of workers and processors.
func trainOn(t *testing.T, harness string, workers, procs int) map[string]string {
	t.Helper()
	name, ahead := strings.CutSuffix(harness, " ahead")
	name, old := strings.CutSuffix(name, " old")
	name, continuous := strings.CutSuffix(name, " continuous")
	c := tinyRun(name)
	c.Run.Workers, c.Run.Continuous = workers, continuous
	if c.Run.Async = ahead || old; c.Run.Async {
		token := "token"
		c.Algorithm.Correction.Level = &token
	}
	if old { // the last steps are played by different policies at the same time
		c.Run.MaxStaleness, c.Trainer.Steps = 2, 5
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	return trainTiny(t, c)
}

// stepsOf reads the metrics of training steps.
func stepsOf(t *testing.T, run map[string]string) (out []map[string]any) {
	for line := range bytes.Lines([]byte(run["metrics.jsonl"])) {
		m := testkit.JSON[map[string]any](t, line)
		if m["kind"] == "step" {
			out = append(out, m)
		}
	}
	return out
}

// TestEveryHarnessTrainsTheModel runs two steps with each harness, on policy, collecting ahead and with episodes that
// are played by themselves, whose first step has the scores of rounds: losses and gradients are finite, weights change,
// and the number of rows is that of the harness.
func TestEveryHarnessTrainsTheModel(t *testing.T) {
	first := map[string]string{}
	for _, harness := range []string{
		"concat", "no_concat", "window", "compact", "concat ahead", "compact ahead", "concat continuous",
	} {
		name, _, _ := strings.Cut(harness, " ")
		run := trained(t, harness)
		steps := stepsOf(t, run)
		require.Len(t, steps, 2, harness)
		for _, m := range steps {
			for _, key := range []string{"actor/pg_loss", "actor/grad_norm", "actor/entropy", "critic/vf_loss"} {
				x, ok := m[key].(float64)
				require.True(t, ok, "%s: %s is %v", harness, key, m[key])
				require.False(t, !floats.Finite(x), "%s: %s", harness, key)
			}
			require.Positive(t, m["actor/grad_norm"], harness)
			rows, _ := m["train/rows"].(float64)
			require.Equal(t, name != "concat", rows > 1, "%s: %v rows an episode", harness, rows)
			require.Equal(t, name == "compact", m["train/summaries"] != nil, harness)
		}
		weights := run["checkpoints/step_2/actor/model.safetensors"]
		require.NotEmpty(t, weights)
		first[harness] = weights
	}
	require.NotEqual(t, first["concat"], first["no_concat"])
	rounds, continuous := stepsOf(t, trained(t, "concat"))[0], stepsOf(t, trained(t, "concat continuous"))[0]
	require.Equal(t, rounds["train/score"], continuous["train/score"])
	require.InDelta(t, rounds["actor/entropy"], continuous["actor/entropy"], 1e-4)
	require.NotEqual(t, first["compact"], first["compact ahead"], "the second step's episodes are from an older policy")
}

// TestTheModelsRunsRepeatThemselves: the numbers of workers and processors change no byte
// of metrics, trajectories and weights, with any harness.
func TestTheModelsRunsRepeatThemselves(t *testing.T) {
	for _, harness := range []string{"concat", "no_concat", "compact", "compact ahead", "concat old"} {
		want := trained(t, harness)
		require.NotEmpty(t, want["metrics.jsonl"])
		require.Equal(t, want, trainOn(t, harness, 8, 2), harness)
	}
}
