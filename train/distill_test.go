package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
)

// TestATeacherIsLearnedFrom beside the estimator's advantages, or alone.
func TestATeacherIsLearnedFrom(t *testing.T) {
	for _, alone := range []bool{true, false} {
		var adv [2][]float32
		for i, coef := range []float64{0, 0.5} {
			c := traintest.Grouped()
			c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.Steps = "grpo", "none", 1
			c.Agent.Ref.Model.Path = "teacher"
			c.Algorithm.Distill.Coef, c.Algorithm.Distill.Task = coef, !alone || coef == 0
			b := traintest.Guesser()
			tr, events := traintest.Trainer(t, c, b, &traintest.Arena{})
			tr.Handled = []string{"actor_rollout_ref.ref.model.path"}
			require.NoError(t, tr.Run(t.Context()))
			batch := b.Updates[0].Batch
			adv[i] = batch.Advantages
			if coef == 0 {
				require.Nil(t, batch.Reference)
				continue
			}
			require.Contains(t, (*events)[0].Metrics, "actor/teacher_kl")
			for k, w := range batch.Weight {
				if w == 0 {
					continue
				}
				want := -0.5 * (batch.OldLogProbs[k] - batch.Reference[k])
				if !alone {
					want += adv[0][k]
				}
				require.InDelta(t, want, adv[i][k], 1e-6)
			}
		}
	}
}
