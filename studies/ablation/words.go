package main

import (
	"fmt"
	"strings"
)

// introduction returns the text before the tables.
func introduction(s setting, seeds int, over []uint64) string {
	return fmt.Sprintf(`# The paper's ablation at small scale

`+"`go run ./studies/ablation`"+` wrote this page. It trains the five presets of VAGEN's paper with %d seeds each
and evaluates them on %d maps that are not in the training set. The runs of one seed differ only in what the presets set.

## Setting

- **Environment**: FrozenLake, 4×4, one move per turn, at most %d turns, as text. Each observation shows the whole map in about 40
  tokens, and then lists the moves towards the goal and the safe moves. A response has four tokens, so nine in ten tokens of a
  row were not written by the model: the case for which the masks are designed.
- **Reward**: 1 for the goal, −0.5 for a hole, and ±0.5 in each turn that shortens or lengthens the path: some rewards are
  immediate, some delayed. Presets without turn rewards get the same sum on the episode's last token.
- **Model**: a text-only decoder with 30,000 parameters and random initial weights. The value head shares the policy's trunk; GRPO has none.
- **Warm start**, shared by the runs of a seed: imitation in rounds of %d scripted turns, in which %.0f %% of the moves are random,
  until %.0f %% of the episodes on a separate set of maps succeed; at most %d rounds. Random play reaches 20 %%.
  %s
- **Training**: %d steps of %d episodes (GRPO: 8 per start state; turn_ppo: 2), four optimiser steps each, AdamW 1.5e-3,
  temperature 1, no KL term and no entropy bonus.
- **Measures**, fixed before these runs: the success rate after the last step, sampled at temperature 1; and its mean over
  all validations after that of the warm start, which is higher if a preset learns sooner.
- **Tests**: paired t-tests between runs of one seed, vagen_full against each other preset, two-sided, with Holm's correction
  within a measure. Confidence intervals are Student's t over seeds.

In the paper VAGEN-Full also gets rewards for describing the state. Those belong to the environment. Here all presets use the same
environment without them: this study compares estimators, masks and the placement of rewards.

Environment, rewards and lengths were chosen with a few runs of seed 0 and warm starts of seeds 1 and 2: in earlier versions the warm
start was either too weak to learn from or already close to optimal. The required success rate of the warm start is a result of this.
The rule to exclude seeds that do not reach it was made when the first seed failed, before any preset was tried with that seed.
`, seeds, s.maps, s.turns, s.roundTurns, 100*s.noise, 100*s.requiredRate, s.rounds, excludedSeeds(over), s.steps, s.episodes)
}

// limits is the paragraph on what the results do not show.
const limits = `
A difference that is not significant here may still exist: with few seeds only large effects are detected. Significant results
hold for this environment and model size; they are not measurements of the paper's models.
`

// excludedSeeds returns a sentence on the seeds whose warm start failed.
func excludedSeeds(seeds []uint64) string {
	if len(seeds) == 0 {
		return "The warm start of every seed succeeded."
	}
	list := strings.Trim(fmt.Sprint(seeds), "[]")
	return fmt.Sprintf("Seeds whose warm start fails are excluded before any preset is tried: here %s.", strings.ReplaceAll(list, " ", ", "))
}
