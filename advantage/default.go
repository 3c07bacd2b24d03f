package advantage

// parametric lists the estimators with hyperparameters.
type parametric interface {
	GAE | Masked | Lite | BiLevel | TurnWise | GRPO | PassK | ReinforcePlusPlus | ReinforcePlusPlusBaseline | GiGPO |
		NoConcat | TrajectoryOutcome | TrajectoryToken | TrajectoryTurn | TrajectoryBiLevel | TrajectoryTwoPass |
		TrajectoryGRPO | GDPO | GraphGPO | HGPO | LengthGRPO | EpisodeGRPO | MaxRL | RAE | OptimalBaseline
}

// Default returns an estimator with the hyperparameters of DefaultParams, which are also
// those of configurations: Default[BiLevel](). Change its fields afterwards.
func Default[E parametric]() E {
	for i := range specs {
		if est, ok := specs[i].New(DefaultParams()).(E); ok {
			return est
		}
	}
	var none E // not reached: specs has every type of parametric, which a test checks
	return none
}
