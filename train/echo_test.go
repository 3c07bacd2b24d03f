package train

import (
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
	golden.Each(t, "algorithms_2026/echo.json", func(c *golden.Run) {
		b, weights := echoBatch(c)
		golden.Numbers(c, "ce_weights", weights)
		rl, ce := golden.Expected[float64](c, "rl_scale"), golden.Expected[float64](c, "ce_scale")
		sum, grad := echoPolicy(c, b)
		for i := range grad {
			grad[i] /= rl
		}
		sum /= rl
		logProbs := c.Flat(c.Inputs, "log_prob")
		var nll []float64
		for row := range b.Rows.Len() {
			n, total := 0.0, 0.0
			for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
				if weights[i] == 0 {
					continue
				}
				value, slope := loss.NLL(logProbs[i])
				sum += weights[i] * value / ce
				grad[i] += weights[i] * slope / ce
				n, total = n+1, total+value
			}
			if n > 0 {
				nll = append(nll, total/n)
			}
		}
		c.Number("loss", sum)
		golden.Numbers(c, "grad_log_prob", grad)
		golden.Numbers(c, "nll", nll)
	})
}

// echoBatch returns the rows of a case and the weights of the tokens that are predicted.
func echoBatch(c *golden.Run) (*batch, []float64) {
	c.Helper()
	nodes, roles := golden.Input[[][]echoNode](c, "nodes"), golden.Param[map[string]float64](c, "roles")
	width := len(c.Flat(c.Inputs, "log_prob")) / len(nodes)
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
	for r, row := range golden.InputOr[[][]float64](c, "keep", nil) {
		for k, on := range row {
			role[b.Rows.Offsets[r]+k] *= on
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
func echoPolicy(c *golden.Run, b *batch) (float64, []float64) {
	c.Helper()
	p := loss.PrimeDPPO{Low: c.Param("dppo_mask_low"), High: c.Param("dppo_mask_high"), AdvTau: c.Param("adv_tau"),
		KLTau: c.Param("kl_tau")}
	in := &loss.Batch[float64]{
		Offsets: b.Rows.Offsets, LogProb: c.Flat(c.Inputs, "log_prob"),
		OldLogProb: c.Flat(c.Inputs, "inference_log_prob"), Advantage: c.Flat(c.Inputs, "advantages"),
	}
	ones := c.Flat(c.Inputs, "response_mask")
	for _, m := range ones {
		in.Mask = append(in.Mask, m != 0)
	}
	var r loss.Result
	require.NoError(c, loss.EvalWeighted(&r, p, ones, in))
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
