package train

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/rng"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
)

// addComparisons adds inputs of some estimators: the return of the greedy episode for ReMax,
// parts of the reward for GDPO, and the states before and after turns for GiGPO and its kin.
func (b *batch) addComparisons(spec advantage.Spec, a *config.AlgorithmConfig, greedy map[int]float64) {
	if spec.Components {
		b.Steps.ComponentWeights = a.RewardWeights
		for _, key := range a.RewardKeys {
			b.Steps.Components = append(b.Steps.Components, b.component(key, spec.Name == "gdpo_trl"))
		}
	}
	for row := range b.Rows.Len() {
		t := b.Used[b.Of[row]]
		if spec.Baselines {
			b.Steps.Baselines = append(b.Steps.Baselines, float32(greedy[t.Group]))
		}
		if spec.States {
			b.addStates(t, b.Steps.Turn[row], spec.Next)
		}
	}
}

// takeBaselines gives every row the baseline of its environment, as earlier steps left it.
func (b *batch) takeBaselines(before map[string]float64) {
	b.baselines = map[string]float64{}
	maps.Copy(b.baselines, before)
	for row := range b.Rows.Len() {
		name := b.Used[b.Of[row]].Env
		at := slices.Index(b.agents, name)
		if at < 0 {
			at = len(b.agents)
			b.agents, b.Steps.Running = append(b.agents, name), append(b.Steps.Running, before[name])
		}
		b.Steps.Agent = append(b.Steps.Agent, at)
	}
}

// component returns the sum of a part of the reward for each row; NaN, if the estimator allows missing parts, for a
// row with statements that a judge gave no score.
func (b *batch) component(name string, missing bool) []float32 {
	out := make([]float32, b.Rows.Len())
	for row := range out {
		total := 0.0
		for _, turn := range b.Used[b.Of[row]].Turns {
			if turn.Row != b.Steps.Turn[row] {
				continue
			}
			if total += turn.Reward.Of(name); missing && unjudged(&turn, name) {
				total = math.NaN()
			}
		}
		out[row] = float32(total)
	}
	return out
}

// unjudged reports whether a judge gave no score to the statement that a part of a turn's reward is for.
func unjudged(turn *rollout.Turn, part string) bool {
	_, scored := turn.Metrics[env.ClaimMetric(part)]
	stated := part == reward.SectionObservation || part == reward.SectionPrediction
	return stated && !scored && turn.Metrics[env.MetricUnjudged] > 0
}

// unpaid returns the configured parts of the reward that are 0 in all rows.
func (b *batch) unpaid(keys []string) []string {
	var out []string
	for k, of := range b.Steps.Components {
		if !slices.ContainsFunc(of, func(r float32) bool { return r != 0 }) {
			out = append(out, keys[k])
		}
	}
	return out
}

// addStates appends a key for the state of each turn of a row; equal observations have equal keys. With next it appends
// one for the state after the turn, too: that of the next turn's observation, or success. The last observation of
// other episodes is not recorded; it counts as a state that no turn started from.
func (b *batch) addStates(t *rollout.Trajectory, row int, next bool) {
	s := &b.Steps
	for i, turn := range t.Turns {
		if turn.Row != row {
			continue
		}
		s.States = append(s.States, stateKey(turn.Observation))
		switch {
		case !next:
		case i+1 < len(t.Turns):
			s.Next = append(s.Next, stateKey(t.Turns[i+1].Observation))
		case t.Success:
			s.Next = append(s.Next, advantage.SuccessState)
		default:
			s.Next = append(s.Next, ownState(1, t, row))
		}
	}
	if !t.Rows[row].EndsWithSummary() {
		return
	}
	s.States = append(s.States, ownState(0, t, row)) // the turn of a summary has no state of the environment
	if next {
		s.Next = append(s.Next, ownState(1, t, row))
	}
}

// ownState is a key that no other row has.
func ownState(seed uint64, t *rollout.Trajectory, row int) uint64 {
	return rng.Derive(seed, rng.Sample, uint64(t.Group), uint64(t.Index), uint64(row))
}

// stateKey is a hash of an observation.
func stateKey(o env.Observation) uint64 {
	h := sha256.New()
	h.Write([]byte(o.Text))
	for _, im := range o.Images {
		box := im.Bounds()
		buf := binary.LittleEndian.AppendUint32(nil, uint32(box.Dx()))
		for y := box.Min.Y; y < box.Max.Y; y++ {
			for x := box.Min.X; x < box.Max.X; x++ {
				r, g, b, _ := im.At(x, y).RGBA()
				buf = append(buf, byte(r>>8), byte(g>>8), byte(b>>8))
			}
		}
		h.Write(buf)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// withBaseline removes the episodes of groups without a greedy episode.
func withBaseline(ts []*rollout.Trajectory, greedy map[int]float64) []*rollout.Trajectory {
	var out []*rollout.Trajectory
	for _, t := range ts {
		if _, ok := greedy[t.Group]; ok {
			out = append(out, t)
		}
	}
	return out
}
