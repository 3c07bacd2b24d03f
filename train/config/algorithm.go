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

// SelfDistillConfig makes the policy its own teacher, which reads a demonstration in front of each row.
type SelfDistillConfig struct {
	Teacher  string `yaml:"teacher" null:"" doc:"script of the environment, such as shortest_path of frozenlake, sokoban and navigation, that plays the start state of each episode as a demonstration: the policy before the update, which reads it in a system message in front of a row, takes the place of the reference policy (prime-rl's opsd). Empty is none"`
	Template string `yaml:"template" idle:"algorithm.self_distillation.teacher is empty" doc:"text of that message, in which {demonstration} stands for the script's responses, one per line"`
}

// Demonstration is what stands for the script's responses in SelfDistillConfig.Template.
const Demonstration = "{demonstration}"

// UsesEstimator reports whether the estimator's advantages are learned from; a teacher alone needs none.
func (c *Config) UsesEstimator() bool {
	l, d := &c.Agent.Actor.Loss, &c.Algorithm.Distill
	return !l.alone() && (d.Task || d.Coef == 0)
}

// readsAdvantages is UsesEstimator, or that the gate of data.pools reads them.
func (c *Config) readsAdvantages() bool {
	return c.UsesEstimator() || c.Data.Pools.Gate == GateAdvantageRange
}

// UsesReference reports whether a run scores tokens with a reference policy. Losses of the program's own get its
// log-probs if a teacher is named.
func (c *Config) UsesReference() bool {
	ref := &c.Agent.Ref
	named := ref.Model.Path != "" || len(ref.Engine.Addresses) > 0 || c.Algorithm.SelfDistill.Teacher != ""
	return c.Agent.Actor.UseKLLoss || c.Algorithm.KLInReward || c.Algorithm.Distill.Coef > 0 ||
		c.Agent.Actor.Loss.taught() || named && c.Agent.Actor.Loss.own()
}

// TeachesItself reports whether the policy with demonstrations takes the place of the reference policy.
func (c *Config) TeachesItself() bool {
	return c.UsesReference() && c.Algorithm.SelfDistill.Teacher != "" && c.Trainer.Stage != StageSFT
}
