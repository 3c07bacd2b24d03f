package proof

import (
	"path"
	"slices"

	"vagen/internal/rng"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// Replayable lists the steps that can be replayed from the state directly before them: their
// episodes are stored, and the checkpoint before them exists; step 1 needs none, unless the
// run started from the checkpoint of another one or with imitation.
func (r *Report) Replayable(c *config.Config) ([]int, error) {
	if c == nil || c.Trainer.RolloutDir == nil || r.history == nil {
		return nil, nil
	}
	stored := map[int]bool{}
	for name, l := range r.history.files {
		if path.Base(name) == rundir.EpisodesName(l.Step) {
			stored[l.Step] = true
		}
	}
	saved, err := rundir.Dir(r.Run).Steps()
	if err != nil {
		return nil, err
	}
	fresh := c.Trainer.ResumeFrom == "" && !slices.ContainsFunc(r.history.events, func(l Line) bool {
		return l.Kind == track.KindImitate
	})
	var out []int
	for _, step := range r.Steps() {
		if stored[step] && (step == 1 && fresh || slices.Contains(saved, step-1)) {
			out = append(out, step)
		}
	}
	return out, nil
}

// Sample draws at most n of the steps with a seed, and returns them in their order.
func Sample(steps []int, n int, seed uint64) []int {
	order := rng.New(seed, rng.Replay, uint64(len(steps))).Perm(len(steps))
	var out []int
	for _, i := range order[:max(0, min(n, len(order)))] {
		out = append(out, steps[i])
	}
	slices.Sort(out)
	return out
}
