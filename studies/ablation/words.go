package main

import (
	"fmt"
	"strings"
)

// introduction is what the document says before its tables.
func introduction(s setting, seeds int, over []uint64) string {
	return fmt.Sprintf(`# The paper's ablation in miniature

`+"`go run ./studies/ablation`"+` wrote this page. It trains the five presets of VAGEN's paper with %d seeds each
and plays them on %d maps that no training shows. Nothing differs between the runs of a seed but what the presets say.

## Setting

- **World**: FrozenLake, 4×4, one move a turn, at most %d turns, in words. Each observation draws the whole lake, some forty
  tokens, and then names the moves towards the goal and the moves that are safe; a response has four tokens. So nine in ten
  tokens of a row are not the model's: the long observations that the masks are for.
- **Reward**: 1 for the goal, −0.5 for a hole, and ±0.5 in each turn that shortens or lengthens the way: some pay is
  immediate, some comes late. Presets without turn rewards get the same sum on the episode's last token.
- **Model**: a text-only decoder with 30,000 parameters, from nothing. Its value head sits on the policy's trunk; GRPO has none.
- **Warm start**, shared by the runs of a seed: lessons of %d scripted turns, of whose moves %.0f %% are random, until %.0f %% of
  the episodes succeed on maps of their own; at most %d lessons. Chance alone reaches 0.2.
  %s
- **Training**: %d steps of %d episodes (GRPO: 8 of each start state; turn_ppo: 2), four optimiser steps each, AdamW 1.5e-3,
  temperature 1, no KL term and no entropy bonus.
- **Measures**, fixed before these runs: the share of successes after the last step, sampled at temperature 1; and its mean over
  all validations after the warm start's, which tells who learns sooner.
- **Tests**: paired t-tests between runs of one seed, vagen_full against each other preset, two-sided, corrected by Holm's
  method within a measure. Intervals are Student's t over seeds.

VAGEN-Full of the paper is also paid for saying the state. That is a matter of the environment: here all presets play the
same one, without that pay, and the comparison is of estimators, masks and where rewards sit.

World, rewards and lengths were chosen with a few runs of seed 0, and warm starts of 1 and 2, so that there is something to see: at first the warm start was
too weak for anything to be learned from it, or so strong that little was left. The exam came out of that. The rule for
seeds that fail it was made when the first one did, before any preset was tried with that seed.
`, seeds, s.maps, s.turns, s.lesson, 100*s.noise, 100*s.passed, s.lessons, passedOver(over), s.steps, s.episodes)
}

// limits is what the document says of its own weight.
const limits = `
A difference that is not significant here may still be one: few seeds find large effects only. And what is significant
here holds for this world and this size; it is no measurement of the paper's models.
`

// passedOver says which seeds are missing.
func passedOver(seeds []uint64) string {
	if len(seeds) == 0 {
		return "Every seed's did."
	}
	list := strings.Trim(fmt.Sprint(seeds), "[]")
	return fmt.Sprintf("Seeds whose warm start fails are passed over before any preset is tried: here %s.", strings.ReplaceAll(list, " ", ", "))
}
