package run

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
)

// unsaved is a learner whose snapshot is nil.
type unsaved struct{ *traintest.Bandit }

func (unsaved) Snapshot(context.Context) (policy.Snapshot, error) { return nil, nil }

func TestNilResultsOfALearnerAreErrors(t *testing.T) {
	c := traintest.Small()
	points := &Checkpoints{Dir: t.TempDir()}
	_, err := points.Begin(t.Context(), unsaved{traintest.Guesser()}, train.State{Step: 1}, &c)
	require.EqualError(t, err, "run: checkpoint: the learner returned a nil snapshot")
	o := guessing(t)
	o.Learner = func(context.Context, string) (policy.Learner, error) { return nil, nil }
	_, err = Open(t.Context(), c, o)
	require.EqualError(t, err, "run: Options.Learner returned nil")
}
