package advantage

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// each2026 compares all cases of a file of 2026 with the estimator that make returns.
func each2026(t *testing.T, name string, make func(c *golden.Run) (*recorded, Estimator)) {
	t.Helper()
	golden.Each(t, "algorithms_2026/"+name+".json", func(c *golden.Run) {
		r, est := make(c)
		r.compare(est, nil)
	})
}

// scalars returns a case whose rows have one reward each as a batch of one-token rows.
func scalars(c *golden.Run, rewards string) *recorded {
	c.Helper()
	r := &recorded{Run: c}
	r.batch.Rewards = golden.Input[[]float32](c, rewards)
	r.batch.Group = make([]int, len(r.batch.Rewards))
	for i := range len(r.batch.Rewards) + 1 {
		r.batch.Offsets = append(r.batch.Offsets, i)
	}
	return r
}

func TestGoldenMaxRL(t *testing.T) {
	each2026(t, "max_rl_prime", func(c *golden.Run) (*recorded, Estimator) {
		return scalars(c, "rewards"), MaxRL{Guarded: true}
	})
	each2026(t, "maxrl_skyrl", func(c *golden.Run) (*recorded, Estimator) {
		r := record(c)
		return r, MaxRL{Epsilon: r.Param("epsilon")}
	})
}

func TestGoldenEpisodeGRPO(t *testing.T) {
	each2026(t, "grpo_ragen", func(c *golden.Run) (*recorded, Estimator) {
		r := record(c)
		next := map[int]int{}
		for _, id := range r.batch.Trajectory {
			r.batch.Turn = append(r.batch.Turn, next[id])
			next[id]++
		}
		byStd := golden.ParamOr(c, "norm_adv_by_std_in_grpo", true)
		return r, EpisodeGRPO{Epsilon: r.Param("epsilon"), NormByStd: byStd}
	})
}

func TestGoldenLengthGRPO(t *testing.T) {
	each2026(t, "grpo_prime", func(c *golden.Run) (*recorded, Estimator) {
		r := scalars(c, "rewards_list")
		if golden.Param[string](c, "type") == "hierarchical_grpo" {
			r.batch.Group = agents(c)
			return r, LengthGRPO{}
		}
		return lengthened(r), LengthGRPO{
			OutputWeight: r.Param("num_output_tokens_weight"), InputWeight: r.Param("num_input_tokens_weight"),
			TurnWeight: r.Param("num_turns_weight"),
		}
	})
}

// expect replaces the recorded advantages by those of other rows.
func (r *recorded) expect(advantages []float64) {
	raw, err := json.Marshal(advantages)
	require.NoError(r, err)
	r.Expected = map[string]json.RawMessage{"advantages": raw}
}

// agents groups by agent, and by episode those agents that are centred within it.
func agents(c *golden.Run) (group []int) {
	c.Helper()
	episode, within := golden.Input[[]string](c, "episode"), golden.Param[[]string](c, "episode_agents")
	var in Interner
	for i, a := range golden.Input[[]string](c, "agent") {
		key := a
		if slices.Contains(within, a) {
			key = fmt.Sprint(a, " in ", episode[i])
		}
		group = append(group, in.ID(key))
	}
	return group
}

// lengthened gives the rows of one token their recorded numbers of tokens and turns. Only shares
// of the longest count, so that all tokens are taken tenfold: some recorded rows have more turns
// than tokens.
func lengthened(r *recorded) *recorded {
	r.Helper()
	out, total := golden.Input[[]int](r.Run, "num_output_tokens"), golden.Input[[]int](r.Run, "num_total_tokens")
	turns, want := golden.Input[[]int](r.Run, "num_turns"), r.Flat(r.Expected, "advantages")
	var all []float64
	b := Batch{Offsets: []int{0}, Group: r.batch.Group}
	for i, score := range r.batch.Rewards {
		for k := range 10 * total[i] {
			wrote, reward, advantage := k < 10*out[i], float32(0), 0.0
			if wrote {
				advantage = want[i]
			}
			if k == 0 {
				reward = score
			}
			all = append(all, advantage)
			b.Rewards, b.Loss = append(b.Rewards, reward), append(b.Loss, wrote)
			b.TurnEnd = append(b.TurnEnd, k < turns[i]-1)
		}
		b.Offsets = append(b.Offsets, len(b.Rewards))
	}
	r.batch = b
	r.expect(all)
	return r
}

func TestGoldenReinforceSlime(t *testing.T) {
	each2026(t, "reinforce_pp_slime", func(c *golden.Run) (*recorded, Estimator) {
		r := record(c)
		gamma := r.Param("gamma")
		// In one form every token has the centred score, and nothing is summed.
		if golden.Param[string](c, "advantage_estimator") == "reinforce_plus_plus_baseline" {
			for i := range r.batch.Loss {
				r.batch.Loss[i] = true
			}
			gamma = 0
		}
		penalised(r, gamma == 0)
		r.Expected["returns"] = r.Expected["raw_advantages"]
		delete(r.Expected, "raw_advantages")
		return r, ReinforcePlusPlus{Gamma: gamma, Across: true}
	})
}

// penalised sets the rewards to the scores, of a row's last token or of every one, minus the KL to the reference.
func penalised(r *recorded, every bool) {
	r.Helper()
	ref, width := flat(r, r.Inputs, "ref_log_prob")
	logProb, kind := r.Flat(r.Inputs, "log_prob"), golden.Param[string](r.Run, "kl_loss_type")
	for i := range logProb {
		d := logProb[i] - ref[i]
		kl := map[string]float64{"k1": d, "k2": d * d / 2, "k3": math.Exp(-d) + d - 1}[kind]
		if kind == "low_var_kl" {
			kl = min(max(math.Exp(-d)+d-1, -10), 10)
		}
		r.batch.Rewards[i] = 0
		if r.batch.Loss[i] {
			r.batch.Rewards[i] = float32(-r.Param("kl_coef") * kl)
		}
	}
	for row, s := range r.Flat(r.Inputs, "scores") {
		for i := range width {
			if every {
				r.batch.Rewards[row*width+i] += float32(s)
			}
		}
		if every {
			continue
		}
		last := row*width + lastTrue(r.batch.Loss[row*width:(row+1)*width])
		r.batch.Rewards[last] += float32(s)
	}
}

// stepRows returns a case with one row for each step of an episode. The outcome of an episode
// that differs from the sum of its steps' rewards is completed on a token off the mask.
func stepRows(c *golden.Run) *recorded {
	c.Helper()
	r := record(c)
	outcome := r.batch.Rewards
	width := r.batch.Offsets[1]
	rewards := c.Flat(c.Inputs, "rewards")
	r.batch.Trajectory = ids(c, c.Inputs, "traj_index")
	var in Interner
	for _, s := range golden.Input[[]string](c, "anchor_obs") {
		r.batch.States = append(r.batch.States, uint64(in.ID(s)))
	}
	for _, s := range golden.Input[[]string](c, "next_obs") {
		key := uint64(in.ID(s))
		if s == "success" {
			key = SuccessState
		}
		r.batch.Next = append(r.batch.Next, key)
	}
	missing, turn := map[int]float64{}, map[int]int{}
	for row, id := range r.batch.Trajectory {
		missing[id] -= rewards[row]
		if turn[id] == 0 {
			missing[id] += sum(outcome[row*width : (row+1)*width])
		}
		r.batch.Turn = append(r.batch.Turn, turn[id])
		turn[id]++
	}
	b := Batch{
		Offsets: []int{0}, Group: r.batch.Group, Trajectory: r.batch.Trajectory, Turn: r.batch.Turn,
		States: r.batch.States, Next: r.batch.Next,
	}
	want := c.Flat(c.Expected, "advantages")
	var all []float64
	for row, id := range b.Trajectory {
		lo := row * width
		// The row's tokens, then one off the mask.
		b.Loss = append(append(b.Loss, r.batch.Loss[lo:lo+width]...), false)
		b.Rewards = append(b.Rewards, make([]float32, width+1)...)
		b.Offsets = append(b.Offsets, len(b.Rewards))
		b.Rewards[b.Offsets[row]+lastTrue(r.batch.Loss[lo:lo+width])] = float32(rewards[row])
		if b.Turn[row] == 0 {
			b.Rewards[len(b.Rewards)-1] = float32(missing[id])
		}
		all = append(append(all, want[lo:lo+width]...), 0)
	}
	r.batch = b
	r.expect(all)
	return r
}

// normByStd reports whether a case of verl-agent divides by the standard deviation.
func (r *recorded) normByStd() bool {
	r.Helper()
	return golden.Param[string](r.Run, "mode") == "mean_std_norm"
}

func TestGoldenHGPO(t *testing.T) {
	each2026(t, "hgpo", func(c *golden.Run) (*recorded, Estimator) {
		r := stepRows(c)
		return r, HGPO{
			Gamma: r.Param("gamma"), History: int(r.Param("history_length")), Alpha: r.Param("length_weight_alpha"),
			Base: golden.ParamOr(r.Run, "base_group", false), NormByStd: r.normByStd(), Epsilon: r.Param("epsilon"),
		}
	})
}

func TestGoldenGraphGPO(t *testing.T) {
	each2026(t, "graphgpo", func(c *golden.Run) (*recorded, Estimator) {
		r := stepRows(c)
		return r, GraphGPO{
			Gamma: r.Param("gamma"), Epsilon: r.Param("epsilon"), NormByStd: r.normByStd(),
			StepWeight: r.Param("step_advantage_w"), EpisodeWeight: r.Param("episode_advantage_w"),
			Relative: golden.ParamOr(c, "normalize_distance", false),
		}
	})
}

func TestGoldenGDPO(t *testing.T) {
	each2026(t, "gdpo_verl", func(c *golden.Run) (*recorded, Estimator) {
		r := &recorded{Run: c}
		mask, width := flat(c, c.Inputs, "response_mask")
		r.batch.Loss, r.batch.Rewards = bools(mask), make([]float32, len(mask))
		for i := 0; i <= len(mask); i += width {
			r.batch.Offsets = append(r.batch.Offsets, i)
		}
		r.batch.Group = ids(c, c.Inputs, "index")
		r.batch.Components = golden.Input[[][]float32](c, "component_rewards")
		golden.Decode(c, c.Params, "gdpo_reward_weights", &r.batch.ComponentWeights)
		byStd := golden.ParamOr(c, "norm_adv_by_std_in_grpo", true)
		return r, GDPO{NormByStd: byStd, Epsilon: r.Param("epsilon"), Whiten: true}
	})
	each2026(t, "gdpo_trl", func(c *golden.Run) (*recorded, Estimator) {
		rewards := golden.Input[[][]float64](c, "rewards_per_func")
		c.Inputs["sum"], _ = json.Marshal(make([]float64, len(rewards)))
		r := scalars(c, "sum")
		for row := range rewards {
			r.batch.Group[row] = row / int(r.Param("num_generations"))
		}
		for k := range rewards[0] {
			of := make([]float32, len(rewards))
			for row := range rewards {
				of[row] = float32(rewards[row][k])
			}
			r.batch.Components = append(r.batch.Components, of)
		}
		r.batch.ComponentWeights = golden.Param[[]float64](c, "reward_weights")
		for _, at := range golden.Input[[][2]int](c, "missing") {
			r.batch.Components[at[1]][at[0]] = float32(math.NaN())
		}
		return r, GDPO{OverRows: true}
	})
}

func TestGoldenOptimalBaseline(t *testing.T) {
	each2026(t, "otb", func(c *golden.Run) (*recorded, Estimator) {
		r := record(c)
		for name, into := range map[string]*[]float32{
			"old_log_probs": &r.batch.LogProbs, "sum_pi_squared": &r.batch.SumPiSquared, "rollout_is_weights": &r.batch.Weights,
		} {
			x, _ := flat(c, c.Inputs, name)
			*into = narrow(x)
		}
		packed := golden.Param[string](c, "adv_estimator") == "tir_optimal_token_baseline"
		return r, OptimalBaseline{Packed: packed, ZeroTail: golden.ParamOr(r.Run, "handle_zero_tail", true)}
	})
}

func TestGoldenRAE(t *testing.T) {
	each2026(t, "rae", func(c *golden.Run) (*recorded, Estimator) {
		r := scalars(c, "rewards_list")
		agents := golden.Input[[]string](c, "agents")
		for _, name := range golden.Input[[]string](c, "agent") {
			r.batch.Agent = append(r.batch.Agent, slices.Index(agents, name))
		}
		r.batch.Running = make([]float64, len(agents))
		est := RAE{r.Param("decay")}
		got := run(c, est, &r.batch).Running
		require.InDeltaSlice(c, c.Flat(c.Expected, "baselines"), got, 1e-6, "baselines") // rewards are float32
		return r, est
	})
}

// TestRAEContinuesWhereABatchEnded: two batches with the baselines of the first are one.
func TestRAEContinuesWhereABatchEnded(t *testing.T) {
	rewards, agents := []float32{1, 0.5, -1, 2, 3}, []int{0, 1, 0, 0, 1}
	part := func(from, to int, running []float64) *Result {
		b := &Batch{Rewards: rewards[from:to], Agent: agents[from:to], Running: running}
		for i := range to - from + 1 {
			b.Offsets = append(b.Offsets, i)
		}
		return run(t, RAE{0.5}, b)
	}
	whole := part(0, 5, []float64{0, 0})
	first := part(0, 2, []float64{0, 0})
	second := part(2, 5, first.Running)
	require.Equal(t, whole.Advantages, append(slices.Clone(first.Advantages), second.Advantages...))
	require.Equal(t, whole.Running, second.Running, "baselines")
	var out Result
	b := &Batch{Offsets: []int{0, 1}, Rewards: []float32{1}, Agent: []int{2}, Running: []float64{0, 0}}
	refuse(t, "an agent without a baseline", RAE{0.5}.Estimate(&out, b), ErrLength, "agent: row 0: 2, but running has 2")
}

func TestGoldenDistill(t *testing.T) {
	golden.Each(t, "algorithms_2026/opd_advantage.json", func(c *golden.Run) {
		column := func(name string) []float32 { return narrow(c.Flat(c.Inputs, name)) }
		adv, mask := column("advantages"), bools(c.Flat(c.Inputs, "response_mask"))
		if golden.Param[string](c, "flavour") == "slime" {
			for i := range mask {
				mask[i] = true
			}
		}
		_, width := flat(c, c.Inputs, "advantages")
		var offsets []int
		for i := 0; i <= len(adv); i += width {
			offsets = append(offsets, i)
		}
		kl, err := Distill(adv, column("old_log_prob"), column("teacher_log_prob"), mask, offsets, c.Param("coef"),
			c.Optional("kl_discount_factor", 0))
		require.NoError(c, err)
		c.Tolerance.Abs, c.Tolerance.Rel = max(c.Tolerance.Abs, 1e-5), max(c.Tolerance.Rel, 1e-6) // of float32
		golden.Numbers(c, "advantages", adv)
		if c.Expected["teacher_kl"] != nil {
			c.Number("teacher_kl", kl)
		}
	})
}
