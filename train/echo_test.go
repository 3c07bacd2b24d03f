package train

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/golden"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
)

// echoNode is a message of an episode as prime-rl records it.
type echoNode struct {
	Role    string `json:"role"`
	Sampled int    `json:"sampled"`
	N       int    `json:"n"`
	Content []int  `json:"is_content"`
}

// TestGoldenEcho compares the selected tokens, and the policy loss with their prediction beside it. Roles,
// contents and filters, which a run does not tell apart, narrow the selection here.
func TestGoldenEcho(t *testing.T) {
	const file = "algorithms_2026/echo.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		b, weights := echoBatch(t, c)
		counted := numbers(t, c.Expected, "ce_weights")
		golden.Floats(t, tally, "ce_weights", weights, counted, c.Tolerance)

		var rl, ce float64
		golden.Need(t, c.Expected, "rl_scale", &rl)
		golden.Need(t, c.Expected, "ce_scale", &ce)
		sum, grad := echoPolicy(t, c, b)
		for i := range grad {
			grad[i] /= rl
		}
		sum /= rl
		var nll []float64
		for row := range b.Rows.Len() {
			n, total := 0.0, 0.0
			for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
				if weights[i] == 0 {
					continue
				}
				value, slope := loss.NLL(numbers(t, c.Inputs, "log_prob")[i])
				sum += weights[i] * value / ce
				grad[i] += weights[i] * slope / ce
				n, total = n+1, total+value
			}
			if n > 0 {
				nll = append(nll, total/n)
			}
		}
		var want float64
		golden.Need(t, c.Expected, "loss", &want)
		tally.Float(t, "loss", sum, want, c.Tolerance)
		golden.Floats(t, tally, "grad_log_prob", grad, numbers(t, c.Expected, "grad_log_prob"), c.Tolerance)
		var recorded []float64
		golden.Need(t, c.Expected, "nll", &recorded)
		golden.Floats(t, tally, "nll", nll, recorded, c.Tolerance)
	}
}

// numbers returns the numbers of a recorded matrix in one slice.
func numbers(t *testing.T, fields map[string]json.RawMessage, name string) (out []float64) {
	t.Helper()
	var rows [][]float64
	golden.Need(t, fields, name, &rows)
	for _, row := range rows {
		out = append(out, row...)
	}
	return out
}

// echoBatch returns the rows of a case and the weights of the tokens that are predicted.
func echoBatch(t *testing.T, c golden.Case) (*batch, []float64) {
	t.Helper()
	var nodes [][]echoNode
	golden.Need(t, c.Inputs, "nodes", &nodes)
	var roles map[string]float64
	golden.Need(t, c.Params, "roles", &roles)
	width := len(numbers(t, c.Inputs, "log_prob")) / len(nodes)
	b := &batch{Batch: rollout.Batch{Rows: policy.Rows{Offsets: []int{0}}}}
	var role []float64
	for _, row := range nodes {
		for _, n := range row {
			for k := range n.N {
				w := roles[n.Role]
				if n.Content != nil && n.Content[k] == 0 {
					w = 0
				}
				b.Response, role = append(b.Response, n.Sampled != 0), append(role, w)
			}
		}
		b.Rows.Offsets = append(b.Rows.Offsets, b.Rows.Offsets[len(b.Rows.Offsets)-1]+width)
		for len(b.Response) < b.Rows.Offsets[len(b.Rows.Offsets)-1] { // padding
			b.Response, role = append(b.Response, false), append(role, 0)
		}
	}
	var keep [][]float64
	if golden.Decode(t, c.Inputs, "keep", &keep) {
		for r, row := range keep {
			for k, on := range row {
				role[b.Rows.Offsets[r]+k] *= on
			}
		}
	}
	for i, on := range b.heard() {
		if !on {
			role[i] = 0
		}
	}
	return b, role
}

// echoPolicy returns the sum of the policy loss of a case, and its gradient.
func echoPolicy(t *testing.T, c golden.Case, b *batch) (float64, []float64) {
	t.Helper()
	var p loss.PrimeDPPO
	for name, x := range map[string]*float64{"dppo_mask_low": &p.Low, "dppo_mask_high": &p.High, "adv_tau": &p.AdvTau,
		"kl_tau": &p.KLTau} {
		golden.Need(t, c.Params, name, x)
	}
	in := &loss.Batch[float64]{
		Offsets: b.Rows.Offsets, LogProb: numbers(t, c.Inputs, "log_prob"),
		OldLogProb: numbers(t, c.Inputs, "inference_log_prob"), Advantage: numbers(t, c.Inputs, "advantages"),
	}
	ones := numbers(t, c.Inputs, "response_mask")
	for _, m := range ones {
		in.Mask = append(in.Mask, m != 0)
	}
	var r loss.Result
	require.NoError(t, loss.EvalWeighted(&r, p, ones, in))
	return r.Loss, r.Grad
}

// TestStatementsWithoutAScoreAreMissing in the part of the reward that they are for, where the estimator allows it.
func TestStatementsWithoutAScoreAreMissing(t *testing.T) {
	paid := reward.Parts{{Name: "observation", Value: 0.25}, {Name: "format", Value: 0.5}}
	scored := rollout.Turn{Reward: paid, Metrics: env.Metrics{"grounding_reward": 0.25}}
	half := rollout.Turn{Reward: paid, Metrics: env.Metrics{"grounding_reward": 0.25, env.MetricUnjudged: 1}}
	down := rollout.Turn{Reward: paid[1:], Metrics: env.Metrics{env.MetricUnjudged: 2}}
	later := down
	later.Row = 1 // another row
	b := &batch{Batch: rollout.Batch{
		Rows: policy.Rows{Offsets: []int{0, 1, 2, 3}}, Of: []int{0, 1, 2}, Used: []*rollout.Trajectory{
			{Turns: []rollout.Turn{scored, scored, later}}, {Turns: []rollout.Turn{scored, half}},
			{Turns: []rollout.Turn{scored, down, scored}},
		},
	}}
	b.Steps.Turn = []int{0, 0, 0}
	require.Equal(t, []float32{0.5, 0.5, 0.5}, b.component("observation", false))
	got := b.component("observation", true)
	require.Equal(t, []float32{0.5, 0.5}, got[:2])
	require.True(t, math.IsNaN(float64(got[2])))
	got = b.component("prediction", true)
	require.Zero(t, got[0])
	require.True(t, math.IsNaN(float64(got[1]+got[2])))
	require.Equal(t, []float32{1, 1, 1.5}, b.component("format", true))
}

// TestStartStatesHaveEqualWeights with prompt-mean, however many tokens their rows have.
func TestStartStatesHaveEqualWeights(t *testing.T) {
	counted := []bool{false, true, false, true, true, false, true, true, true}
	b := &batch{Batch: rollout.Batch{
		Rows: policy.Rows{Offsets: []int{0, 2, 5, 9}, Tokens: make([]int32, 9), Images: make([][]policy.Image, 3)},
		Loss: counted, Value: counted, Response: counted,
	}}
	b.Steps.Group = []int{4, 7, 4}
	means := config.Aggregation{Loss: loss.Aggregation{Mode: loss.PromptMean}}
	part, err := b.miniBatch([]int{0, 1, 2}, means, 0)
	require.NoError(t, err)
	require.Equal(t, []float32{0, 0.125, 0, 0.25, 0.25, 0, 0.125, 0.125, 0.125}, part.Weight)
	part, err = b.miniBatch([]int{2}, means, 0)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{0, 1. / 3, 1. / 3, 1. / 3}, part.Weight, 1e-6)
}

// TestEchoWeightsAverageOverTheMiniBatch, times alpha, and reach the objective's gradient.
func TestEchoWeightsAverageOverTheMiniBatch(t *testing.T) {
	b := &batch{Batch: rollout.Batch{Rows: policy.Rows{Offsets: []int{0, 5, 7}},
		Response: []bool{false, true, false, false, true, false, true}}}
	require.Equal(t, []bool{false, false, true, true, false, false, false}, b.heard(),
		"not the prompt, not what the model wrote")
	part := &policy.Batch{Rows: policy.Rows{Offsets: b.Rows.Offsets, Tokens: make([]int32, 7)}, Weight: make([]float32, 7)}
	part.EchoWeight = []float32{0, 0, 0.25, 0.75, 0, 0, 0}
	part.OldLogProbs, part.Advantages = make([]float32, 7), make([]float32, 7)
	got, err := (&policy.Objective{}).Eval(part, &policy.Scores{LogProbs: []float32{0, 0, -2, -1, 0, 0, 0}})
	require.NoError(t, err)
	require.InDelta(t, 1.25, got.Echo, 1e-9)
	require.Equal(t, []float64{0, 0, -0.25, -0.75, 0, 0, 0}, got.Slopes.LogProbs)
	var s policy.Stats
	got.Report(&s)
	require.InDelta(t, 1.5, s.Metrics["actor/echo_nll"], 1e-9)
	require.False(t, math.IsNaN(got.Loss))
}

// TestForcedTokensAreScored where nothing but the recursion reads them: without the GAE mask and with a critic on turn
// ends. Their value is the next one of the token before.
func TestForcedTokensAreScored(t *testing.T) {
	b := &batch{Batch: rollout.Batch{
		Rows: policy.Rows{Offsets: []int{0, 5}}, Loss: []bool{false, true, false, true, false},
		Value: []bool{false, false, false, true, false}, Response: []bool{false, true, true, true, false},
	}}
	b.Steps.TurnEnd = b.Value
	b.chooseTokens(advantage.Spec{Mask: advantage.MaskLoss, Critic: true}, false)
	require.Equal(t, b.Response, b.want)
}
