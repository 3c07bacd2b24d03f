package advantage

import "fmt"

// call64 runs an estimator's core on float64 storage, so that rounding of
// the stored numbers hides no difference.
func call64(est Estimator, c *call[float64]) error {
	c.adv, c.ret = make([]float64, c.tokens()), make([]float64, c.tokens())
	c.scratch = new(scratch)
	return c.run(func() error {
		switch e := est.(type) {
		case GAE:
			return runGAE(e, c)
		case Masked:
			return runMasked(e, c)
		case BiLevel:
			return runBiLevel(e, c)
		case TurnWise:
			return runTurnWise(e, c)
		case Lite:
			return runLite(e, c)
		case GRPO:
			return runGRPO(e, c)
		case RLOO:
			return runRLOO(e, c)
		case ReinforcePlusPlus:
			return runReinforce(e, c)
		case ReinforcePlusPlusBaseline:
			return runReinforceBaseline(e, c)
		case ReMax:
			return runReMax(e, c)
		case OPO:
			return runOPO(e, c)
		case GPG:
			return runGPG(e, c)
		case PassK:
			return runPassK(e, c)
		case GiGPO:
			return runGiGPO(e, c)
		case NoConcat:
			return runNoConcat(e, c)
		case TrajectoryToken:
			return runTrajectoryToken(e, c)
		case TrajectoryOutcome:
			return runTrajectoryOutcome(e, c)
		case TrajectoryTurn:
			return runTrajectoryTurn(e, c)
		case TrajectoryBiLevel:
			return runTrajectoryBiLevel(e, c)
		case TrajectoryTwoPass:
			return runTrajectoryTwoPass(e, c)
		case TrajectoryGRPO:
			return runTrajectoryGRPO(e, c)
		}
		return fmt.Errorf("no float64 core for %T", est)
	})
}

// wide converts a batch to float64 storage.
func wide(name string, b *Batch, rewards, values, baselines []float64) *call[float64] {
	return &call[float64]{
		name: name, offsets: b.Offsets, rewards: rewards, values: values, baselines: baselines,
		attention: b.Attention, loss: b.Loss, gae: b.GAE, turnEnds: b.TurnEnd,
		group: b.Group, trajectory: b.Trajectory, turn: b.Turn, states: b.States,
	}
}
