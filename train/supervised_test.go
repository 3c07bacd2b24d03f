package train_test

import (
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// taught is a supervised stage on conversations whose right answer is a word of the bandit.
func taught(t testing.TB) config.Config {
	t.Helper()
	var file strings.Builder
	for i := range 30 {
		fmt.Fprintf(&file, `{"prompt":"question %d","response":"%d"}`+"\n", i%5, i%5%3)
	}
	path := testkit.File(t, "chats.jsonl", file.String())
	c := config.Default()
	c.Trainer.Stage, c.SFT.TrainFiles = config.StageSFT, []string{path}
	c.SFT.Batch, c.SFT.Epochs, c.SFT.TestFreq, c.SFT.ValFraction = 6, 3, 4, 0.2
	c.SFT.Optim.Rate = 3
	return c
}

func supervised(t testing.TB, c config.Config, b *traintest.Bandit) (*train.Trainer, *traintest.Journal) {
	t.Helper()
	j := &traintest.Journal{}
	return &train.Trainer{Config: c, Learner: b, Sinks: []track.Sink{j}}, j
}

// TestTheSupervisedStageLearnsExamples: loss and held-out loss fall, accuracy rises, and events
// have the metrics of the stage.
func TestTheSupervisedStageLearnsExamples(t *testing.T) {
	b := traintest.Guesser()
	c := taught(t)
	c.Stability.Spike.Metric = "sft/gradnorm"
	tr, j := supervised(t, c, b)
	var log strings.Builder
	tr.Log = slog.New(slog.NewTextHandler(&log, nil))
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "stability.spike.metric"), "a metric that no step has: %s", &log)
	require.Equal(t, []string{"validate 0", "step 1", "step 2", "step 3", "step 4", "validate 4", "step 5", "step 6",
		"step 7", "step 8", "validate 8",
		"step 9", "step 10", "step 11", "step 12", "validate 12"}, j.Kinds(), "three epochs of 24 examples in batches of six")
	first, last := (*j)[0].Metrics, (*j)[len(*j)-1].Metrics
	require.InDelta(t, math.Log(4)/2, first["sft/val_loss"], 1e-6,
		"four words are equally likely, and the end token has log-prob 0")
	require.Less(t, last["sft/val_loss"], first["sft/val_loss"]/2)
	require.InDelta(t, 0.5, first["sft/val_token_accuracy"], 1e-9,
		"only the end tokens: of equal words none is the most likely one")
	require.InDelta(t, 1, last["sft/val_token_accuracy"], 1e-9)
	require.Equal(t, 12.0, last["sft/val_tokens"])
	for _, name := range []string{"sft/loss", "sft/grad_norm", "sft/lr", "sft/tokens", "perf/throughput", "time/step",
		"training/epoch"} {
		require.Contains(t, (*j)[1].Metrics, name)
	}
	require.Less(t, (*j)[len(*j)-2].Metrics["sft/loss"], (*j)[1].Metrics["sft/loss"]/2)
	for _, u := range b.Updates {
		require.Equal(t, policy.Objective{Imitate: true, Temperature: 1}, u.Objective)
		require.Equal(t, 6, u.Batch.Len())
	}
	require.InDelta(t, 3, b.Updates[0].Optimizer.Rate, 1e-9, "a warm-up of one step")
	require.InDelta(t, 0.3, b.Updates[11].Optimizer.Rate, 1e-9, "down to a tenth")
}

// TestAResumedSupervisedStageEndsWithTheSameWeights.
func TestAResumedSupervisedStageEndsWithTheSameWeights(t *testing.T) {
	c := taught(t)
	c.SFT.SaveFreq = 5
	whole := traintest.Guesser()
	tr, all := supervised(t, c, whole)
	var middle []byte
	tr.Checkpointer = traintest.Hooks{}
	tr.Sinks = append(tr.Sinks, track.SinkFunc(func(e track.Event) (err error) {
		if e.Kind == track.KindSave && e.Step == 5 {
			middle, err = whole.Table()
		}
		return err
	}))
	require.NoError(t, tr.Run(t.Context()))
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "table.json"), middle)
	half := traintest.Guesser()
	require.NoError(t, half.Restore(t.Context(), dir))
	tr, rest := supervised(t, c, half)
	tr.Checkpointer = traintest.Hooks{}
	require.NoError(t, tr.Restore(train.State{Step: 5}))
	require.NoError(t, tr.Run(t.Context()))
	a, err := whole.Table()
	require.NoError(t, err)
	b, err := half.Table()
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
	after := traintest.Untimed(*all)
	require.Equal(t, after[len(after)-len(*rest):], traintest.Untimed(*rest))
}

// TestASupervisedTrainerRefusesWhatItCannotDo.
func TestASupervisedTrainerRefusesWhatItCannotDo(t *testing.T) {
	c := taught(t)
	tr, _ := supervised(t, c, traintest.Guesser())
	tr.Learner = struct{ policy.Learner }{traintest.Guesser()}
	require.ErrorContains(t, tr.Run(t.Context()), "does not implement policy.Encoder")
	tr, _ = supervised(t, c, traintest.Guesser())
	_, _, err := tr.Evaluate(t.Context(), policy.Sampling{})
	require.ErrorContains(t, err, "plays no episodes")
	_, err = tr.Player(t.Context())
	require.ErrorContains(t, err, "plays no episodes")
	c.Trainer.Stage = config.StageSFTThen
	tr, _ = supervised(t, c, traintest.Guesser())
	require.ErrorContains(t, tr.Run(t.Context()), "use train/run.Open")
	c = taught(t)
	c.SFT.TrainFiles = nil
	tr, _ = supervised(t, c, traintest.Guesser())
	require.ErrorContains(t, tr.Run(t.Context()), "there is nothing to learn from")
}

// TestSupervisedTrainingStopsEarlyOnItsLoss.
func TestSupervisedTrainingStopsEarlyOnItsLoss(t *testing.T) {
	c := taught(t)
	c.SFT.Optim.Rate, c.SFT.Epochs = 0, 40
	c.Stability.Early.Metric, c.Stability.Early.Patience = "-sft/val_loss", 2
	tr, j := supervised(t, c, traintest.Guesser())
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, "validate 8", j.Kinds()[len(*j)-1])
}
