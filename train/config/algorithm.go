package config

// The values of kl_mask.
const (
	KLResponse  = "response"
	KLAttention = "attention"
)

// StepsFromEpochs stands in total_training_steps for as many steps as
// data.train_files and total_epochs make.
const StepsFromEpochs = -1

// MaxStartStates is how many start states a step plays at most.
func (c *DataConfig) MaxStartStates() int { return max(c.TrainBatch, 4*c.GenBatch) }
