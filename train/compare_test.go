package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/loss"
)

// comparing is a learner whose teacher says the same of two tokens everywhere. It has no vocabulary to train.
type comparing struct {
	*traintest.Bandit
	asked   loss.Choice
	updates []*policy.Batch
	short   bool
}

func (l *comparing) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	s, err := l.Bandit.Score(ctx, rows, want, what, temperature)
	if err != nil {
		return nil, err
	}
	l.asked = what.Choice
	for i := range rows.Tokens {
		s.Chosen = append(s.Chosen, int32(2*i), int32(2*i+1))
		s.Teacher = append(s.Teacher, -1, -2)
	}
	if l.short {
		s.Teacher = s.Teacher[1:]
	}
	return s, nil
}

func (l *comparing) Update(
	_ context.Context, b *policy.Batch, _ policy.Objective, _ policy.Optimizer,
) (policy.Stats, error) {
	l.updates = append(l.updates, b)
	return policy.Stats{Tokens: len(b.Tokens)}, nil
}

// TestComparedTokensReachTheLearner with the rows of a mini-batch.
func TestComparedTokensReachTheLearner(t *testing.T) {
	for _, short := range []bool{false, true} {
		c := traintest.Grouped()
		c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
		c.Agent.Ref.Model.Path, c.Agent.Actor.Loss.Mode = "teacher", "sdft"
		c.Agent.Actor.Loss.SDFTTopK = 2
		b := &comparing{Bandit: traintest.Guesser(), short: short}
		tr, _ := traintest.Trainer(t, c, b.Bandit, nil)
		tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
		tr.Learner = b
		err := tr.Run(t.Context())
		require.Equal(t, loss.Choice{By: loss.ByStudent, K: 2}, b.asked)
		if short {
			require.ErrorContains(t, err, "log-probs of a teacher for 2 of")
			continue
		}
		require.NoError(t, err)
		seen := map[int32]bool{}
		for _, part := range b.updates {
			require.Len(t, part.Chosen, 2*len(part.Tokens))
			require.Len(t, part.Teacher, 2*len(part.Tokens))
			for i := range part.Tokens {
				require.Equal(t, part.Chosen[2*i]+1, part.Chosen[2*i+1])
				require.False(t, seen[part.Chosen[2*i]])
				seen[part.Chosen[2*i]] = true
			}
		}
	}
}
