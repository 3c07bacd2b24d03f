package config

// The values of kl_mask.
const (
	KLResponse  = "response"
	KLAttention = "attention"
)

// StepsFromEpochs as total_training_steps means that the number of steps follows from
// data.train_files and total_epochs.
const StepsFromEpochs = -1

// MaxStartStates is the maximum number of start states that a step plays.
func (c *DataConfig) MaxStartStates() int { return max(c.TrainBatch, 4*c.GenBatch) }
