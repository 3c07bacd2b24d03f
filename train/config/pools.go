package config

// The values of PoolsConfig.Gate.
const (
	GateNone           = "none"
	GateAdvantageRange = "advantage_range"
)

// PoolsConfig plays start states again by how often they were solved, and leaves groups out that teach nothing.
type PoolsConfig struct {
	Share   float64   `yaml:"share" range:"0,1" doc:"share of the start states that are drawn by difficulty, with replacement, in the place of the next ones: from those of train_files (of an entry with weight: from those of the entry), or with env.name from those that were played. A start state counts with the weight of its pool, which is that of its solve rate: the share of successful episodes when it was played last. Where all weights are 0 the next one is played. 0 draws none"`
	Limits  []float64 `yaml:"solve_rates" default:"[0.25, 0.75]" idle:"data.pools.share is 0" doc:"largest solve rates of the pools, increasing, from the hardest; the last pool has all above"`
	Weights []float64 `yaml:"weights" default:"[0.2, 1, 0.2]" idle:"data.pools.share is 0" doc:"weight of a start state in each pool, one more than solve_rates; [1, 0, 0] repeats hard start states only"`
	Unseen  float64   `yaml:"unseen" default:"1" range:"0,1e6" must:"be in [0, 1e6]" idle:"data.pools.share is 0" noted:"data.train_files is empty" doc:"weight of a start state of train_files that has not been played; 0 draws only from those that were"`

	Gate      string  `yaml:"gate" default:"none" oneof:"none advantage_range" doc:"groups of episodes that are left out of the update: none, or those whose tokens all have advantages from reject_min to reject_max (advantage_range), such as those that all got the same reward; before the filter's scale. Of any start state, drawn or not"`
	RejectMin float64 `yaml:"reject_min" range:"-1e+12,1e+12" idle:"data.pools.gate is none" doc:"advantage_range: the smallest of these advantages"`
	RejectMax float64 `yaml:"reject_max" range:"-1e+12,1e+12" idle:"data.pools.gate is none" doc:"advantage_range: the largest of these advantages"`
}

// pools checks the pools of start states.
func (v *validator) pools(p *PoolsConfig) {
	if len(p.Weights) != len(p.Limits)+1 {
		v.Say("{data.pools.weights} has %d numbers, must have one more than the %d of {data.pools.solve_rates}",
			len(p.Weights), len(p.Limits))
	}
	for i, x := range p.Limits {
		if !(x >= 0 && x < 1) || i > 0 && x <= p.Limits[i-1] {
			v.Say("{data.pools.solve_rates} is %v, must be increasing numbers in [0, 1)", p.Limits)
			break
		}
	}
	if p.RejectMin > p.RejectMax {
		v.Say("{data.pools.reject_min} is %v, must be at most {data.pools.reject_max}, %v", p.RejectMin, p.RejectMax)
	}
	total := p.Unseen
	for _, x := range p.Weights {
		if total += x; !(x >= 0 && x <= 1e6) {
			v.Say("{data.pools.weights} is %v, must be numbers in [0, 1e6]", p.Weights)
			return
		}
	}
	if total == 0 {
		v.Say("{data.pools.weights} and {data.pools.unseen} are all 0, at least one must be positive")
	}
}
