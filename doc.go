// Package vagen trains agents that see: vision-language models which look at an
// image, think in tagged text, act, and are shown what came of it, turn after
// turn. It is the training loop of a library whose parts work alone, too.
//
// An episode is played by a policy in an environment; its tokens carry a mask,
// its turns carry rewards; an estimator turns both into advantages; the policy's
// learner takes a step; this package runs that loop. Each of these words is a
// package:
//
//	mask        who wrote which token, and the masks that follow from it
//	advantage   estimators, from GAE to bi-level and group-relative ones
//	reward      response formats, shaping, normalisation, state rewards
//	env         the environment contract, a checker, and environments below it
//	policy      the policy and learner contracts; losses in plain Go below it
//	policy/vlm  Qwen2.5-VL and its relatives on XLA: generate, score, train, save
//	rollout     plays many episodes at once and records them; filters, diagnosis
//
// A run is short to write. This trains a model from a folder in the Hugging Face
// layout on FrozenLake, and writes metrics line by line:
//
//	c, err := vagen.LoadConfig("run.yaml", "trainer.total_training_steps=100")
//	…
//	model, err := vlm.Open(ctx, c.Agent.Model.Path, vlm.Options{Critic: vlm.SeparateCritic})
//	…
//	defer model.Close()
//	metrics, err := vagen.NewJSONLines("metrics.jsonl")
//	…
//	t := vagen.Trainer{Config: c, Learner: model, Envs: builtin.Registry(), Sinks: []vagen.Sink{metrics}}
//	err = t.Run(ctx)
//
// One seed rules a run: every random draw is keyed by what it is for, so the
// same configuration gives the same bytes, whatever the number of workers.
//
// With run.async the episodes of the coming step are played while a step's update
// runs, by a copy of the policy as it was before that update. What is trained on is
// then one step old: algorithm.rollout_correction weighs it, and the first step
// alone is on policy. Results still do not depend on workers or processors, and a
// checkpoint holds the episodes that wait, so that a run goes on as if it had not
// stopped. It pays where environments make the policy wait, and costs the memory of
// one more copy of the trained weights.
//
// The method is VAGEN's (arXiv:2510.16907); configuration keys have the names
// that its users know.
package vagen
