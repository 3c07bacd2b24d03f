package rollout

// Staleness compares the versions of the weights that wrote responses (Turn.Version) with the one
// that learns from them: the mean and the largest difference over the turns of usable episodes, and
// the share of these episodes that more than one version wrote. All are 0 without turns.
func Staleness(ts []*Trajectory, current int) (mean, largest, spanning float64) {
	turns, episodes := 0.0, 0.0
	for _, e := range present(ts) {
		if !e.End.Usable() || len(e.Turns) == 0 {
			continue
		}
		several := false
		for _, turn := range e.Turns {
			age := float64(current - turn.Version)
			mean, largest, turns = mean+age, max(largest, age), turns+1
			several = several || turn.Version != e.Turns[0].Version
		}
		if episodes++; several {
			spanning++
		}
	}
	if turns == 0 {
		return 0, 0, 0
	}
	return mean / turns, largest, spanning / episodes
}
