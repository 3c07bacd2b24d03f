package advantage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefaultIsWhatConfigurationsGet: Default and New with DefaultParams agree.
func TestDefaultIsWhatConfigurationsGet(t *testing.T) {
	for name, got := range map[string]Estimator{
		"gae": Default[GAE](), "masked_gae": Default[Masked](), "lite_gae": Default[Lite](),
		"bi_level_gae": Default[BiLevel](), "turn_wise_gae": Default[TurnWise](), "grpo": Default[GRPO](),
		"grpo_passk": Default[PassK](), "reinforce_plus_plus": Default[ReinforcePlusPlus](),
		"reinforce_plus_plus_baseline": Default[ReinforcePlusPlusBaseline](), "gigpo": Default[GiGPO](),
		"no_concat_gae": Default[NoConcat](), "default_gae": Default[TrajectoryOutcome](),
		"token_level_gae": Default[TrajectoryToken](), "turn_level_gae": Default[TrajectoryTurn](),
		"trajectory_bi_level_gae": Default[TrajectoryBiLevel](), "bi_level_gae_published": Default[TrajectoryTwoPass](),
		"trajectory_grpo": Default[TrajectoryGRPO](),
	} {
		require.Equal(t, named(t, name, DefaultParams()), got, name)
	}
	require.Equal(t, (BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 0.99, Whiten: true}), Default[BiLevel](), "bi_level_gae")
}
