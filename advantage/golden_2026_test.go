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
func each2026(t *testing.T, name string, make func(c golden.Case) (*recorded, Estimator)) {
	t.Helper()
	file := "algorithms_2026/" + name + ".json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r, est := make(c)
		r.compare(tally, est, nil)
	}
}

// scalars returns a case whose rows have one reward each as a batch of one-token rows, with
// the expected scalars as a matrix.
func scalars(t *testing.T, c golden.Case, rewards string) *recorded {
	t.Helper()
	r := &recorded{Case: c, t: t}
	var scores, want []float64
	golden.Need(t, c.Inputs, rewards, &scores)
	golden.Need(t, c.Expected, "advantages", &want)
	r.batch.Rewards = narrow(scores)
	r.batch.Group = make([]int, len(scores))
	matrix := make([][]float64, len(want))
	for i := range scores {
		r.batch.Offsets = append(r.batch.Offsets, i)
		matrix[i] = want[i : i+1]
	}
	r.batch.Offsets = append(r.batch.Offsets, len(scores))
	raw, err := json.Marshal(matrix)
	require.NoError(t, err)
	r.Expected = map[string]json.RawMessage{"advantages": raw}
	return r
}

func TestGoldenMaxRL(t *testing.T) {
	each2026(t, "max_rl_prime", func(c golden.Case) (*recorded, Estimator) {
		return scalars(t, c, "rewards"), MaxRL{Guarded: true}
	})
	each2026(t, "maxrl_skyrl", func(c golden.Case) (*recorded, Estimator) {
		r := record(t, c)
		return r, MaxRL{Epsilon: r.param("epsilon")}
	})
}

func TestGoldenEpisodeGRPO(t *testing.T) {
	each2026(t, "grpo_ragen", func(c golden.Case) (*recorded, Estimator) {
		r := record(t, c)
		next := map[int]int{}
		for _, id := range r.batch.Trajectory {
			r.batch.Turn = append(r.batch.Turn, next[id])
			next[id]++
		}
		return r, EpisodeGRPO{Epsilon: r.param("epsilon"), NormByStd: r.flag("norm_adv_by_std_in_grpo", true)}
	})
}

func TestGoldenLengthGRPO(t *testing.T) {
	each2026(t, "grpo_prime", func(c golden.Case) (*recorded, Estimator) {
		r := scalars(t, c, "rewards_list")
		var kind string
		if golden.Need(t, c.Params, "type", &kind); kind == "hierarchical_grpo" {
			r.batch.Group = agents(t, c)
			return r, LengthGRPO{}
		}
		return lengthened(t, r), LengthGRPO{
			OutputWeight: r.param("num_output_tokens_weight"), InputWeight: r.param("num_input_tokens_weight"),
			TurnWeight: r.param("num_turns_weight"),
		}
	})
}

// agents groups by agent, and by episode those agents that are centred within it.
func agents(t *testing.T, c golden.Case) (group []int) {
	t.Helper()
	var agent, episode, within []string
	golden.Need(t, c.Inputs, "agent", &agent)
	golden.Need(t, c.Inputs, "episode", &episode)
	golden.Need(t, c.Params, "episode_agents", &within)
	var in Interner
	for i, a := range agent {
		key := a
		for _, w := range within {
			if a == w {
				key = fmt.Sprint(a, " in ", episode[i])
			}
		}
		group = append(group, in.ID(key))
	}
	return group
}

// lengthened gives the rows of one token their recorded numbers of tokens and turns. Only shares
// of the longest count, so that all tokens are taken tenfold: some recorded rows have more turns
// than tokens.
func lengthened(t *testing.T, r *recorded) *recorded {
	t.Helper()
	var out, total, turns []int
	golden.Need(t, r.Inputs, "num_output_tokens", &out)
	golden.Need(t, r.Inputs, "num_total_tokens", &total)
	golden.Need(t, r.Inputs, "num_turns", &turns)
	var want [][]float64
	golden.Need(t, r.Expected, "advantages", &want)
	b := Batch{Offsets: []int{0}, Group: r.batch.Group}
	for i, score := range r.batch.Rewards {
		row := make([]float64, 10*total[i])
		for k := range row {
			wrote, reward := k < 10*out[i], float32(0)
			if wrote {
				row[k] = want[i][0]
			}
			if k == 0 {
				reward = score
			}
			b.Rewards, b.Loss = append(b.Rewards, reward), append(b.Loss, wrote)
			b.TurnEnd = append(b.TurnEnd, k < turns[i]-1)
		}
		want[i] = row
		b.Offsets = append(b.Offsets, len(b.Rewards))
	}
	r.batch = b
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	r.Expected["advantages"] = raw
	return r
}

func TestGoldenReinforceSlime(t *testing.T) {
	each2026(t, "reinforce_pp_slime", func(c golden.Case) (*recorded, Estimator) {
		var kind string
		golden.Need(t, c.Params, "advantage_estimator", &kind)
		r := record(t, c)
		gamma := r.param("gamma")
		if kind == "reinforce_plus_plus_baseline" { // every token has the centred score, and nothing is summed
			for i := range r.batch.Loss {
				r.batch.Loss[i] = true
			}
			gamma = 0
		}
		penalised(t, r, gamma == 0)
		r.Expected["returns"] = r.Expected["raw_advantages"]
		delete(r.Expected, "raw_advantages")
		return r, ReinforcePlusPlus{Gamma: gamma, Across: true}
	})
}

// penalised sets the rewards to the scores, of a row's last token or of every one, minus the KL to the reference.
func penalised(t *testing.T, r *recorded, every bool) {
	t.Helper()
	ref, width := flat(t, r.Inputs, "ref_log_prob")
	logProb, _ := flat(t, r.Inputs, "log_prob")
	var scores []float64
	golden.Need(t, r.Inputs, "scores", &scores)
	var kind string
	golden.Need(t, r.Params, "kl_loss_type", &kind)
	for i := range logProb {
		d := logProb[i] - ref[i]
		kl := map[string]float64{"k1": d, "k2": d * d / 2, "k3": math.Exp(-d) + d - 1}[kind]
		if kind == "low_var_kl" {
			kl = min(max(math.Exp(-d)+d-1, -10), 10)
		}
		r.batch.Rewards[i] = 0
		if r.batch.Loss[i] {
			r.batch.Rewards[i] = float32(-r.param("kl_coef") * kl)
		}
	}
	for row, s := range scores {
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
func stepRows(t *testing.T, c golden.Case) *recorded {
	t.Helper()
	r := record(t, c)
	outcome := r.batch.Rewards
	width := r.batch.Offsets[1]
	var rewards []float64
	golden.Need(t, c.Inputs, "rewards", &rewards)
	r.batch.Trajectory = ids(t, c.Inputs, "traj_index")
	var in Interner
	for _, s := range texts(t, c, "anchor_obs") {
		r.batch.States = append(r.batch.States, uint64(in.ID(s)))
	}
	for _, s := range texts(t, c, "next_obs") {
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
	want, _ := flat(t, c.Expected, "advantages")
	var matrix [][]float64
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
		matrix = append(matrix, append(append([]float64{}, want[lo:lo+width]...), 0))
	}
	r.batch = b
	raw, err := json.Marshal(matrix)
	require.NoError(t, err)
	r.Expected = map[string]json.RawMessage{"advantages": raw}
	return r
}

func texts(t *testing.T, c golden.Case, name string) (out []string) {
	t.Helper()
	golden.Need(t, c.Inputs, name, &out)
	return out
}

// normByStd reports whether a case of verl-agent divides by the standard deviation.
func (r *recorded) normByStd() bool {
	r.t.Helper()
	var mode string
	golden.Need(r.t, r.Params, "mode", &mode)
	return mode == "mean_std_norm"
}

func TestGoldenHGPO(t *testing.T) {
	each2026(t, "hgpo", func(c golden.Case) (*recorded, Estimator) {
		r := stepRows(t, c)
		return r, HGPO{
			Gamma: r.param("gamma"), History: int(r.param("history_length")), Alpha: r.param("length_weight_alpha"),
			Base: r.flag("base_group", false), NormByStd: r.normByStd(), Epsilon: r.param("epsilon"),
		}
	})
}

func TestGoldenGraphGPO(t *testing.T) {
	each2026(t, "graphgpo", func(c golden.Case) (*recorded, Estimator) {
		r := stepRows(t, c)
		return r, GraphGPO{
			Gamma: r.param("gamma"), StepWeight: r.param("step_advantage_w"), EpisodeWeight: r.param("episode_advantage_w"),
			Relative: r.flag("normalize_distance", false), NormByStd: r.normByStd(), Epsilon: r.param("epsilon"),
		}
	})
}

func TestGoldenGDPO(t *testing.T) {
	each2026(t, "gdpo_verl", func(c golden.Case) (*recorded, Estimator) {
		r := &recorded{Case: c, t: t}
		mask, width := flat(t, c.Inputs, "response_mask")
		r.batch.Loss, r.batch.Rewards = bools(mask), make([]float32, len(mask))
		for i := 0; i <= len(mask); i += width {
			r.batch.Offsets = append(r.batch.Offsets, i)
		}
		r.batch.Group = ids(t, c.Inputs, "index")
		golden.Need(t, c.Inputs, "component_rewards", &r.batch.Components)
		golden.Decode(t, c.Params, "gdpo_reward_weights", &r.batch.ComponentWeights)
		return r, GDPO{NormByStd: r.flag("norm_adv_by_std_in_grpo", true), Epsilon: r.param("epsilon"), Whiten: true}
	})
	each2026(t, "gdpo_trl", func(c golden.Case) (*recorded, Estimator) {
		var rewards [][]float64
		golden.Need(t, c.Inputs, "rewards_per_func", &rewards)
		c.Inputs["sum"], _ = json.Marshal(make([]float64, len(rewards)))
		r := scalars(t, c, "sum")
		for row := range rewards {
			r.batch.Group[row] = row / int(r.param("num_generations"))
		}
		for k := range rewards[0] {
			of := make([]float32, len(rewards))
			for row := range rewards {
				of[row] = float32(rewards[row][k])
			}
			r.batch.Components = append(r.batch.Components, of)
		}
		golden.Need(t, c.Params, "reward_weights", &r.batch.ComponentWeights)
		var missing [][2]int
		golden.Need(t, c.Inputs, "missing", &missing)
		for _, at := range missing {
			r.batch.Components[at[1]][at[0]] = float32(math.NaN())
		}
		return r, GDPO{OverRows: true}
	})
}

func TestGoldenOptimalBaseline(t *testing.T) {
	each2026(t, "otb", func(c golden.Case) (*recorded, Estimator) {
		r := record(t, c)
		for name, into := range map[string]*[]float32{
			"old_log_probs": &r.batch.LogProbs, "sum_pi_squared": &r.batch.SumPiSquared, "rollout_is_weights": &r.batch.Weights,
		} {
			x, _ := flat(t, c.Inputs, name)
			*into = narrow(x)
		}
		var name string
		golden.Need(t, c.Params, "adv_estimator", &name)
		return r, OptimalBaseline{Packed: name == "tir_optimal_token_baseline", ZeroTail: r.flag("handle_zero_tail", true)}
	})
}

func TestGoldenRAE(t *testing.T) {
	each2026(t, "rae", func(c golden.Case) (*recorded, Estimator) {
		r := scalars(t, c, "rewards_list")
		var agents []string
		var want []float64
		golden.Need(t, c.Inputs, "agents", &agents)
		golden.Need(t, c.Expected, "baselines", &want)
		for _, name := range texts(t, c, "agent") {
			r.batch.Agent = append(r.batch.Agent, slices.Index(agents, name))
		}
		r.batch.Running = make([]float64, len(agents))
		est := RAE{r.param("decay")}
		got := run(t, est, &r.batch).Running
		require.InDeltaSlice(t, want, got, 1e-6, "%s: baselines", c.Name) // rewards are float32
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
	const file = "algorithms_2026/opd_advantage.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		column := func(name string) []float32 {
			x, _ := flat(t, c.Inputs, name)
			return narrow(x)
		}
		adv, mask := column("advantages"), bools(convert[float64](column("response_mask")))
		var flavour string
		if golden.Need(t, c.Params, "flavour", &flavour); flavour == "slime" {
			for i := range mask {
				mask[i] = true
			}
		}
		_, width := flat(t, c.Inputs, "advantages")
		var offsets []int
		for i := 0; i <= len(adv); i += width {
			offsets = append(offsets, i)
		}
		r := &recorded{Case: c, t: t}
		discount := 0.0
		golden.Decode(t, c.Params, "kl_discount_factor", &discount)
		kl, err := Distill(adv, column("old_log_prob"), column("teacher_log_prob"), mask, offsets, r.param("coef"), discount)
		require.NoError(t, err)
		want, _ := flat(t, c.Expected, "advantages")
		tol := golden.Tolerance{Abs: max(c.Tolerance.Abs, 1e-5), Rel: max(c.Tolerance.Rel, 1e-6)} // of float32
		golden.Floats(t, tally, "advantages", convert[float64](adv), want, tol)
		var mean float64
		if golden.Decode(t, c.Expected, "teacher_kl", &mean) {
			tally.Float(t, "teacher_kl", kl, mean, tol)
		}
	}
}
