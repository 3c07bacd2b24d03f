package train

import (
	"maps"
	"slices"
	"time"

	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/internal/summary"
	"vagen/train/track"
)

// addDashboardNames adds the metrics of a step under the names of VAGEN and verl. docs/results.md has all of them with their meaning.
func (b *batch) addDashboardNames(c *config.Config, epoch, step int, m track.Metrics) {
	m.AddAliases(track.KindStep)
	var turns, scores []float64
	for _, e := range b.Used {
		turns, scores = append(turns, float64(len(e.Turns))), append(scores, e.Return())
	}
	summary.Spread(m, "num_turns", turns)
	summary.Spread(m, "custom_metrics/train/episode_turns", turns)
	summary.Spread(m, "custom_metrics/train/episode_score", scores)
	cut := 0
	for row := range b.Rows.Len() {
		if _, _, over := summarize(b.Used[b.Of[row]], b.Steps.Turn[row]); over {
			cut++
		}
	}
	m["response_length/clip_ratio"] = float64(cut) / float64(b.Rows.Len())
	if c.Agent.Actor.UseKLLoss {
		m["actor/kl_coef"] = factor(&c.Stability.KL, step, c.Trainer.Steps) * c.Agent.Actor.KLLoss
	}
	m["timing_s/gen"] = m["time/rollout"] + m["time/env"]
	written := 0
	for _, on := range b.Response {
		if on {
			written++
		}
	}
	all := len(b.Rows.Tokens)
	for stage, tokens := range map[string]int{"gen": written, "adv": all, "update_critic": all, "update_actor": all} {
		if s, ok := m["timing_s/"+stage]; ok && tokens > 0 {
			m["timing_per_token_ms/"+stage] = 1000 * s / float64(tokens)
		}
	}
	addProgress(m, epoch, step, all)
	if mb, ok := m["perf/device_memory_peak_mb"]; ok {
		m["perf/max_memory_allocated_gb"] = mb * 1e6 / (1 << 30)
	}
}

// addProgress adds what a step of either stage reports about itself, after its times.
func addProgress(m track.Metrics, epoch, step, tokens int) {
	m["training/global_step"], m["training/epoch"] = float64(step), float64(epoch)
	m["perf/total_num_tokens"] = float64(tokens)
	if s := m["time/step"]; s > 0 {
		m["perf/throughput"] = float64(tokens) / s
	}
}

// addUpdateTime adds the seconds of a pass to those of the actor or of the critic.
func addUpdateTime(m track.Metrics, o *policy.Objective, took time.Duration) {
	who := "update_actor"
	if o.CriticOnly {
		who = "update_critic"
	}
	m["timing_s/"+who] += took.Seconds()
}

// bySource groups trajectories by their data source, or by their environment if they have
// none, in the order of first appearance. named means that the source of entries without data_source, default, is none.
func bySource(ts []*rollout.Trajectory, named bool) (names []string, of map[string][]*rollout.Trajectory) {
	of = map[string][]*rollout.Trajectory{}
	for _, t := range ts {
		name := t.Source
		if name == "" || named && name == "default" {
			name = t.Env
		}
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], t)
	}
	return names, of
}

// describeValidation writes the results of a validation: over all episodes, and for each
// source under the names of VAGEN and verl. n is the number of episodes per level.
func describeValidation(m track.Metrics, ts []*rollout.Trajectory, n int) {
	describe(m, "val/", ts)
	names, of := bySource(ts, false)
	var turns []float64
	for _, name := range names {
		if len(names) > 1 {
			describe(m, "val/by_source/"+name+"/", of[name])
		}
		levels := map[int][]*rollout.Trajectory{}
		for _, t := range of[name] {
			if !t.End.Usable() {
				continue
			}
			turns = append(turns, float64(len(t.Turns)))
			levels[t.Group] = append(levels[t.Group], t)
		}
		for _, v := range variables(of[name]) {
			var groups [][]float64
			for _, k := range slices.Sorted(maps.Keys(levels)) {
				var x []float64
				for _, t := range levels[k] {
					x = append(x, v.of(t))
				}
				groups = append(groups, x)
			}
			summary.AtN(m, name, v.name, groups, n)
		}
	}
	summary.Spread(m, "val-aux/num_turns", turns)
}

// variable is a number of an episode of which a validation has mean and spread.
type variable struct {
	name string
	of   func(*rollout.Trajectory) float64
}

// variables lists those of the episodes of one source, among them the rewards of the sections for which some episode
// was rewarded.
func variables(ts []*rollout.Trajectory) []variable {
	out := []variable{
		{"reward", (*rollout.Trajectory).Return},
		{"traj_success", func(t *rollout.Trajectory) float64 {
			if t.Success {
				return 1
			}
			return 0
		}},
		{"format_correct_rate", func(t *rollout.Trajectory) float64 {
			correct := 0.0
			for _, turn := range t.Turns {
				if turn.Parsed.FormatCorrect {
					correct++
				}
			}
			return correct / float64(max(1, len(t.Turns)))
		}},
		{"model_tokens_per_turn", func(t *rollout.Trajectory) float64 {
			c := rollout.Count([]*rollout.Trajectory{t})
			return float64(c.Tokens) / float64(max(1, c.Turns+c.Summaries))
		}},
	}
	for _, section := range []string{reward.SectionObservation, reward.SectionPrediction} {
		of := func(t *rollout.Trajectory) (sum float64) {
			for _, turn := range t.Turns {
				sum += turn.Reward.Of(section)
			}
			return sum
		}
		if slices.ContainsFunc(ts, func(t *rollout.Trajectory) bool { return t.End.Usable() && of(t) != 0 }) {
			out = append(out, variable{section + "_reward", of})
		}
	}
	return out
}
