package engines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy"
	"vagen/policy/engine"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/queue/embedded"
	"vagen/train/run"
)

// train runs a configuration and returns the metrics of its steps.
func train(t *testing.T, c config.Config) ([]map[string]float64, error) {
	t.Helper()
	r, err := run.Open(t.Context(), c, run.Options{QueueServer: embedded.Start})
	if err != nil {
		return nil, err
	}
	err = r.Train(t.Context())
	require.NoError(t, r.Close())
	return stepMetrics(t, c.Trainer.Dir), err
}

// stepMetrics reads the metrics of a run's steps; none if the run has not started.
func stepMetrics(t *testing.T, dir string) []map[string]float64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return nil
	}
	var out []map[string]float64
	for line := range bytes.Lines(raw) {
		all := testkit.JSON[map[string]any](t, line)
		if all["kind"] != "step" {
			continue
		}
		m := map[string]float64{}
		for k, x := range all {
			if v, ok := x.(float64); ok {
				m[k] = v
			}
		}
		out = append(out, m)
	}
	return out
}

// agreement is the largest difference of log-probs that the same weights may have: servers
// read other batches than the learner, in float32.
const agreement = 1e-5

// TestTheWeightsOfEveryStepReachTheServers: of adapters and of all weights, for both kinds of
// servers. The log-probs of sampling are those of the learner in every step, although it
// moves in each.
func TestTheWeightsOfEveryStepReachTheServers(t *testing.T) {
	for _, test := range []struct {
		engine string
		rank   int
	}{{"vllm", 0}, {"vllm", 2}, {"sglang", 0}, {"sglang", 2}} {
		c := lake(t, test.engine)
		c.Agent.Model.LoRARank = test.rank
		all := serve(t, &c, 2, nil)
		steps, err := train(t, c)
		require.NoError(t, err)
		require.Len(t, steps, 3)
		for i, m := range steps {
			require.Less(t, m["rollout/logprob_diff_max"], agreement, "%v, step %d", test, i+1)
			require.InDelta(t, 1, m["rollout/ratio_max"], 10*agreement)
			require.Positive(t, m["actor/grad_norm"])
			require.Equal(t, float64(i+1), m["perf/engine_publishes"])
			require.Equal(t, 2.0, m["perf/engine_servers"])
			require.Zero(t, m["perf/engine_mixed_responses"])
		}
		for _, s := range all {
			require.Equal(t, test.rank > 0, len(s.Adapters()) == 1, "the adapters of earlier steps are unloaded")
			require.Equal(t, test.rank > 0, s.Version() == "default")
		}
		left, err := os.ReadDir(filepath.Join(c.Trainer.Dir, "engine"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestWeightsThatDoNotArriveAreSeen: with the comparison before training switched off, the
// metrics show that a server ignores new weights.
func TestWeightsThatDoNotArriveAreSeen(t *testing.T) {
	c := lake(t, "vllm")
	c.Agent.Rollout.Engine.CheckResponses = 0
	serve(t, &c, 1, func(_ int, m *served) { m.deaf = true })
	steps, err := train(t, c)
	require.NoError(t, err)
	require.Less(t, steps[0]["rollout/logprob_diff_max"], agreement)
	require.Greater(t, steps[1]["rollout/logprob_diff_max"], 100*agreement)
	require.Greater(t, steps[2]["rollout/logprob_diff_max"], 100*agreement)
	require.Positive(t, steps[2]["rollout/kl_k3"])
}

// TestARunIsRefusedIfLogProbsDiffer, with the likely cause, before anything is trained.
func TestARunIsRefusedIfLogProbsDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *config.Config, m *served)
		says   string
	}{
		"raw": {func(_ *config.Config, m *served) { m.raw = true }, "--logprobs-mode processed_logprobs"},
		"weights": {func(_ *config.Config, m *served) {
			m.deaf, m.dir = true, tinymodel.Create(t, tinymodel.Shape(), tinymodel.Lake, 4)
		}, "other weights"},
	} {
		c := lake(t, "vllm")
		c.Agent.Rollout.Temperature, c.Agent.Rollout.Engine.CheckLimit = 0.3, 0.01
		serve(t, &c, 1, func(_ int, m *served) { test.change(&c, m) })
		steps, err := train(t, c)
		require.ErrorIs(t, err, engine.ErrMismatch, name)
		require.ErrorContains(t, err, test.says, name)
		require.Empty(t, steps)
	}
}

// TestFaultsOfServersChangeNothing: the steps of a run with injected faults have the metrics
// of a run without.
func TestFaultsOfServersChangeNothing(t *testing.T) {
	results := map[bool][]map[string]float64{}
	for _, faulty := range []bool{false, true} {
		c := lake(t, "vllm")
		c.Data.TrainBatch, c.Agent.Actor.MiniBatch, c.Rollout.MaxTurns = 4, 4, 3
		c.Agent.Model.LoRARank, c.Agent.Rollout.Engine.Attempts = 2, 20
		all := serve(t, &c, 3, nil)
		r, err := run.Open(t.Context(), c, run.Options{})
		require.NoError(t, err)
		for _, s := range all {
			if faulty {
				s.SetFaults(enginestub.Faults{Error: 0.04, Reset: 0.04, Garbage: 0.04, Abort: 0.05, Forget: 0.03})
			}
		}
		require.NoError(t, r.Train(t.Context()))
		if faulty {
			g := r.Learner.(policy.MetricsReporter).Gauges()
			require.Positive(t, g["engine_retries"])
			require.Zero(t, g["engine_lost"])
		}
		require.NoError(t, r.Close())
		raw := testkit.Read(t, filepath.Join(c.Trainer.Dir, "metrics.jsonl"))
		for line := range bytes.Lines(raw) {
			m, kept := map[string]any{}, map[string]float64{}
			require.NoError(t, json.Unmarshal(line, &m))
			for _, k := range []string{"train/score", "train/response_tokens", "train/unusable", "train/success"} {
				if x, ok := m[k].(float64); ok {
					kept[k] = x
				}
			}
			results[faulty] = append(results[faulty], kept)
		}
	}
	require.NotEmpty(t, results[true])
	require.Equal(t, results[false], results[true])
}

// TestACollectionKeepsItsWeights: with run.async the servers have the weights of the
// collection until it ends, and a run resumes from its checkpoint.
func TestACollectionKeepsItsWeights(t *testing.T) {
	c := lake(t, "vllm")
	token := "token"
	c.Run.Async, c.Algorithm.Correction.Level, c.Trainer.SaveFreq = true, &token, 1
	serve(t, &c, 1, nil)
	steps, err := train(t, c)
	require.NoError(t, err)
	require.Less(t, steps[0]["rollout/logprob_diff_max"], agreement)
	require.Greater(t, steps[2]["rollout/logprob_diff_max"], 10*agreement, "the policy is one step older")
	require.Zero(t, steps[2]["perf/engine_mixed_responses"])
	c.Trainer.Steps = 5
	steps, err = train(t, c)
	require.NoError(t, err)
	require.Len(t, steps, 5)
}

func opened(t *testing.T, c *config.Config) *engines.Learner {
	t.Helper()
	m, err := vlm.Open(t.Context(), c.Agent.Model.Path, run.ModelOptions(c, nil))
	require.NoError(t, err)
	l, err := engines.Wrap(t.Context(), m, c, t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.(*engines.Learner).Close()) })
	return l.(*engines.Learner)
}

// TestWeightsAreNotReplacedUnderACollection.
func TestWeightsAreNotReplacedUnderACollection(t *testing.T) {
	c := lake(t, "vllm")
	serve(t, &c, 1, nil)
	l := opened(t, &c)
	prompts := []policy.Prompt{{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "Turn 1"}}}}
	s := policy.Sampling{Temperature: 1, MaxTokens: 4}
	p, err := l.SnapshotPolicy(t.Context())
	require.NoError(t, err)
	_, err = l.Update(t.Context(), &policy.Batch{}, policy.Objective{Imitate: true, Temperature: 1},
		policy.DefaultOptimizer())
	require.Error(t, err, "weights of an update that failed may have changed, too")
	_, err = l.Generate(t.Context(), prompts, s)
	require.ErrorContains(t, err, "still collect episodes")
	_, err = p.Generate(t.Context(), prompts, s)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	out, err := l.Generate(t.Context(), prompts, s)
	require.NoError(t, err)
	n, err := l.Count(policy.Prompt{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "Turn 2"}}})
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, l.Resume(policy.Recorded{Conversation: 2, Tokens: out[0].Context}))
	l.Forget(1, 2)
	documented := testkit.Text(t, "../../docs/results.md")
	for name := range l.Gauges() {
		if own, ok := strings.CutPrefix(name, "engine_"); ok {
			require.Regexp(t, `perf/engine_\{[^}]*\b`+own+`\b`, documented)
		}
	}
	plan, err := l.Plan(vlm.Workload{Generate: true, Rows: 2, Tokens: 64})
	require.NoError(t, err)
	require.NotNil(t, plan)
}

// TestServersThatCannotBeUsedAreRefusedBeforeTraining, also by a dry run.
func TestServersThatCannotBeUsedAreRefusedBeforeTraining(t *testing.T) {
	c := lake(t, "vllm")
	c.Agent.Rollout.Engine.Addresses = []string{"http://127.0.0.1:1"}
	c.Agent.Rollout.Engine.Startup = 0 // nothing listens there
	_, err := run.Open(t.Context(), c, run.Options{})
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorIs(t, err, engine.ErrServer)
	_, err = run.Check(t.Context(), c, run.Options{})
	require.ErrorIs(t, err, engine.ErrServer)
	require.NoDirExists(t, c.Trainer.Dir)
	c.Agent.Rollout.Engine.KeyEnv = "VAGEN_TEST_KEY"
	require.ErrorContains(t, engines.Check(t.Context(), &c), "VAGEN_TEST_KEY is not set")
	all := serve(t, &c, 2, nil)
	all[0].Key, all[1].Key = "hunter2hunter2", "hunter2hunter2"
	t.Setenv("VAGEN_TEST_KEY", "hunter2hunter2")
	require.NoError(t, engines.Check(t.Context(), &c))
	t.Setenv("VAGEN_TEST_KEY", "wrong-wrong")
	err = engines.Check(t.Context(), &c)
	require.ErrorIs(t, err, engine.ErrAccess)
	require.NotContains(t, err.Error(), "wrong-wrong")
	c.Agent.Rollout.Engine.Addresses = nil
	require.NoError(t, engines.Check(context.Background(), &c))
}
