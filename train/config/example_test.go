package config_test

import (
	"fmt"

	"vagen/train/config"
)

// Load reads a file and overrides on top of the defaults, and reports all mistakes at
// once.
func ExampleLoad() {
	c, err := config.Load("", "env=frozenlake", "algorithm.adv_estimator=masked_gae", "data.train_batch_size=64",
		"actor_rollout_ref.actor.ppo_mini_batch_size=32")
	fmt.Println(c.Algorithm.Estimator, c.Data.TrainBatch, err)

	_, err = config.Load("", "env=frozenlake", "algorithm.adv_estimater=grpo")
	fmt.Println(err)
	// Output:
	// masked_gae 64 <nil>
	// config: bad configuration: override 2: unknown key "algorithm.adv_estimater", did you mean "algorithm.adv_estimator"?
}
