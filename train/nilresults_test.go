package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
)

// empty is a learner whose chosen method returns neither a result nor an error.
type empty struct {
	*traintest.Bandit
	method string
}

func (e empty) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	if e.method == "Generate" {
		return nil, nil
	}
	return e.Bandit.Generate(ctx, prompts, s)
}

func (e empty) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	if e.method == "Score" {
		return nil, nil
	}
	return e.Bandit.Score(ctx, rows, want, what, temperature)
}

func (e empty) SnapshotPolicy(ctx context.Context) (policy.PolicySnapshot, error) {
	if e.method == "SnapshotPolicy" {
		return nil, nil
	}
	return e.Bandit.SnapshotPolicy(ctx)
}

func TestNilResultsOfALearnerAreErrors(t *testing.T) {
	for method, want := range map[string]string{
		"Generate":       "rollout: generate: the policy returned 0 completions for 8 prompts",
		"Score":          "train: the learner returned nil scores",
		"SnapshotPolicy": "train: the learner returned a nil copy of its policy",
	} {
		c := traintest.Small()
		c.Run.Async = method == "SnapshotPolicy"
		tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
		tr.Learner = empty{traintest.Guesser(), method}
		require.EqualError(t, tr.Run(t.Context()), want, method)
	}
	short := traintest.Guesser()
	short.OnScored = func(_ *policy.Rows, _ []bool, s *policy.Scores) { s.LogProbs = s.LogProbs[1:] }
	tr, _ := traintest.Trainer(t, traintest.Small(), short, nil)
	require.EqualError(t, tr.Run(t.Context()), "train: the learner returned 79 log-probs for 80 tokens")
	tr, _ = supervised(t, taught(t), traintest.Guesser())
	tr.Learner = empty{traintest.Guesser(), "Score"}
	require.EqualError(t, tr.Run(t.Context()), "train: the learner returned nil scores")
	tr.Learner = short
	require.ErrorContains(t, tr.Run(t.Context()), "train: the learner returned 23 log-probs for 24 tokens")
}

func TestCheckTriesTheFirstEpisode(t *testing.T) {
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, traintest.Small(), b, nil)
	require.NoError(t, tr.Check(t.Context()))
	require.Empty(t, b.Opened, "its conversation is closed")
	require.Empty(t, b.Updates)

	typo := traintest.Small()
	typo.Env.Name = "gess"
	tr, _ = traintest.Trainer(t, typo, b, nil)
	err := tr.Check(t.Context())
	testkit.Error(t, err, env.ErrUnknown, "train: the first episode: ")
	short := traintest.Small()
	short.Data.MaxPrompt, short.Rollout.MaxTrajectory = 1, 50
	tr, _ = traintest.Trainer(t, short, b, nil)
	log := traintest.Logged(tr)
	require.NoError(t, tr.Check(t.Context()), "another episode may fit")
	require.Contains(t, log.String(), "the first episode does not fit its token limits")
	tr, _ = traintest.Trainer(t, traintest.Small(), b, nil)
	tr.Learner = empty{b, "Generate"}
	require.ErrorContains(t, tr.Check(t.Context()), "the policy returned 0 completions for 1 prompts")
}

// TestABatchThatCannotBeLearnedFromSaysWhy, also without a Log.
func TestABatchThatCannotBeLearnedFromSaysWhy(t *testing.T) {
	typo := traintest.Small()
	typo.Env.Name = "gess"
	tr, j := traintest.Trainer(t, typo, traintest.Guesser(), nil)
	err := tr.Run(t.Context())
	require.ErrorIs(t, err, train.ErrNoRows)
	testkit.Error(t, err, env.ErrUnknown,
		"none of 8 episodes can be used: setup_error 8; the first: rollout: reset of gess: ")
	require.Empty(t, *j)
	_, ts, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
	testkit.Error(t, err, train.ErrNoRows, "none of 6 validation episodes can be used: setup_error 6; the first: ")
	require.Len(t, ts, 6, "what was played can be looked at")
	require.NoError(t, tr.Validate(t.Context(), 3), "a validation only reports")
	require.Equal(t, 6.0, (*j)[0].Metrics["val/unusable"])
	require.NotContains(t, (*j)[0].Metrics, "val/success", "there is nothing to take a share of")
}
