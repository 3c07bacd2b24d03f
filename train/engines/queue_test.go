package engines_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/pace"
	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/worker"
)

func init() { pace.Hurry() }

// TestWorkersSampleWithTheWeightsOfTheTrainer: with adapters and with all weights, synchronous
// and while the learner updates. The episodes are those of a run without a queue, because the
// servers here draw from the seeds of the requests alone, and in every step the log-probs are
// those of the learner.
func TestWorkersSampleWithTheWeightsOfTheTrainer(t *testing.T) {
	token := "token"
	for _, test := range []struct {
		engine string
		rank   int
		async  bool
	}{{"vllm", 2, false}, {"vllm", 0, true}, {"sglang", 2, false}} {
		results := map[string][]map[string]float64{}
		for _, queue := range []string{"", config.QueueEmbedded} {
			c := lake(t, test.engine)
			c.Agent.Model.LoRARank, c.Run.Queue = test.rank, queue
			c.Data.TrainBatch, c.Agent.Actor.MiniBatch = 3, 3
			c.Trainer.ValBefore, c.Trainer.TestFreq = true, 3
			if c.Run.Async = test.async; test.async {
				c.Algorithm.Correction.Level = &token
			}
			serve(t, &c, 2, nil)
			if queue != "" {
				c.Run.QueueOptions.Listen = traintest.FreeAddress(t)
				for range 2 {
					o := worker.DefaultOptions()
					o.URL, o.Slots = "nats://"+c.Run.QueueOptions.Listen, 2
					o.KeyFile = filepath.Join(c.Trainer.Dir, "queue", "key")
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- worker.Work(ctx, o) }()
					defer func() {
						cancel()
						require.NoError(t, <-done)
					}()
				}
			}
			steps, err := train(t, c)
			require.NoError(t, err)
			require.Len(t, steps, 3)
			for i, m := range steps {
				if queue != "" {
					require.Equal(t, float64(6*(i+1)), min(m["perf/queue_played"], float64(6*(i+1))), "%v", m)
					require.Zero(t, m["perf/queue_invalid"]+m["perf/queue_faults"])
				}
				if !test.async {
					require.Less(t, m["rollout/logprob_diff_max"], agreement, "step %d", i+1)
				}
				kept := map[string]float64{}
				for _, k := range []string{"train/score", "train/response_tokens", "train/unusable", "train/success",
					"train/turns"} {
					kept[k] = m[k]
				}
				results[queue] = append(results[queue], kept)
			}
		}
		require.Equal(t, results[""], results[config.QueueEmbedded], "%v", test)
	}
}
