package main

import "vagen/train/config"

func init() {
	recipes["tiny"] = tiny("default")
	for _, world := range []string{"sokoban", "navigation"} {
		recipes["tiny "+world] = tiny(world)
	}
}

// tiny is a recipe cut down to run in a second on any backend.
func tiny(name string) recipe {
	r := recipes[name]
	r.about, r.steps = "for tests", 2
	r.turns = 2
	r.lessons = []lesson{{4, 1, imitation(2, 1e-3)}, {2, 2, imitation(2, 1e-3)}}
	for i := range r.lessons {
		r.lessons[i].Every = 1
	}
	r.shape.Layers, r.shape.Hidden, r.shape.FF, r.shape.Heads = 1, 32, 32, 1
	r.shape.VisionHidden, r.shape.VisionFF, r.shape.VisionHeads = 16, 16, 1
	inner := r.config
	r.config = func(c *config.Config) {
		inner(c)
		c.Data.TrainBatch, c.Data.ValBatch, c.Agent.Actor.MiniBatch = 4, 2, 4
		c.Trainer.LogEpisodes = 1
	}
	return r
}
