package main

import "slices"

// echoing ends the name of a preset whose policy also learns to predict the observations (ECHO, arXiv:2605.24517).
const echoing = "+echo"

// echoWeight is the weight of that loss, prime-rl's.
const echoWeight = 0.1

// echo is the setting of docs/ablation-echo.md: that of slipping on a lake that is written, because ECHO predicts
// tokens and a picture has none. vagen_base and vagen_full with ECHO and without.
func echo() setting {
	s := slipping()
	s.presets, s.reasons, s.text = []string{base, base + echoing, full, full + echoing}, echoReasons, true
	return s
}

// words are the tokens: for a written lake also what stands in a cell, and the same at the end of a row.
func (s setting) words() []string {
	all := slices.Clone(words)
	if s.text {
		for _, c := range "_OGPXV" {
			all = append(all, " "+string(c)+" \n", " "+string(c)+" ")
		}
	}
	return all
}

// echoReasons says why the study of ECHO was made. It was written before the runs.
const echoReasons = `
## Reasons, written before the runs

State rewards teach an agent to state what it sees and what its move will lead to, but something has to know the true
state: rules that read the simulator, or a model as the judge. ECHO needs neither. The next observation itself is the
target: beside the policy loss the model learns to predict the tokens that the environment wrote. This study asks what
that is worth where [ablation-slips.md](ablation-slips.md) found state rewards to be worth something: from a warm
start that misreads.

Expected: predicting the next map trains what a move does, so statements about the state after the move should become
more accurate with ECHO, and statements about the state as it is less so, or not at all: most of the next map is a
copy, and copying needs no directions. State rewards should raise both. If ECHO raises success, it does so by features
that both share. A loss of this kind can also cost: it takes gradient from a small model for tokens that pay nothing.
Whether ECHO adds something to state rewards is open.

### The trial

Tried on seed 90, which is not among the study's, to see that the small model learns from a written lake as it does
from a picture (success, and in brackets the share of right words in the first observation, at steps 0, 4, … 24). The
setting was not changed after it, and the other two presets were not tried:

| | seed 90 |
|---|---|
| vagen_base | 0.24 (0.65) 0.29 (0.62) 0.39 (0.70) 0.42 (0.70) 0.50 (0.67) 0.45 (0.65) 0.52 (0.63) |
| vagen_base+echo | 0.24 (0.65) 0.21 (0.58) 0.34 (0.67) 0.40 (0.69) 0.48 (0.69) 0.45 (0.67) 0.48 (0.67) |
`
