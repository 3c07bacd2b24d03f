package train

import (
	"errors"
	"fmt"
	"slices"

	"vagen/advantage"
	"vagen/mask"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// batch contains the trajectories of a step as rows of tokens.
type batch struct {
	rollout.Batch
	kept []int  // indices into Used of the trajectories to train on
	want []bool // tokens to score: those of the losses, or a step of the recursion

	turn    []int32   // per token, within its row; context belongs to the turn after it
	rollout []float32 // importance weights, nil for none

	old, reference, values []float32
	// see policy.Scores; nil unless the loss compares tokens, or all of the vocabulary
	chosen    []int32
	teacher   []float32          // log-probs that the loss compares, several per token; nil for none
	squares   []float32          // sums of squared probabilities, nil unless the estimator reads them
	agents    []string           // those of Steps.Agent
	baselines map[string]float64 // of RAE, after the batch
	entropy   []float32          // nil unless scores are recorded
	result    advantage.Result
}

// newBatch converts usable trajectories to rows, without values and KL shaping.
func newBatch(ts []*rollout.Trajectory, c *config.Config, spec advantage.Spec) (*batch, error) {
	got, err := rollout.NewBatch(ts, masks(c), c.Placement())
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	b := &batch{Batch: *got}
	for i := range b.Used {
		b.kept = append(b.kept, i)
	}
	if b.Rows.Len() == 0 {
		return nil, noRows(ts, "episodes")
	}
	spec.Critic = spec.Critic && c.Critic.Kind != "none" // for a teacher alone there may be none
	b.chooseTokens(spec, c.Algorithm.KLInReward && c.Algorithm.KLMask == config.KLAttention)
	b.numberTurns()
	return b, nil
}

// noRows returns ErrNoRows with the reasons.
func noRows(ts []*rollout.Trajectory, what string) error {
	if n := rollout.Count(ts).Usable; n > 0 {
		return fmt.Errorf("train: %w: the policy returned no tokens in %d usable episodes of %d", ErrNoRows, n, len(ts))
	}
	err := fmt.Errorf("train: %w: none of %d %s can be used", ErrNoRows, len(ts), what)
	if why := rollout.Failures(ts); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// masks returns the masks that the configuration enables.
func masks(c *config.Config) mask.Options {
	return mask.Options{
		NoLossMask: !c.Rollout.LossMask, NoGAEMask: !c.Rollout.GAEMask, ValueAtTurnEnd: c.Critic.OnTurnEnds,
	}
}

// chooseTokens selects the tokens that the learner scores: those with a loss and those that the model wrote,
// forced ones included, which are steps of the estimator's recursion; or on request all tokens. The first token
// of a row is never selected, because nothing predicts it.
func (b *batch) chooseTokens(spec advantage.Spec, all bool) {
	b.want, b.Steps.Attention = make([]bool, len(b.Loss)), make([]bool, len(b.Loss))
	for i := range b.want {
		b.Steps.Attention[i] = true
		b.want[i] = all || b.Loss[i] || b.Response[i] || spec.Critic && spec.Mask == advantage.MaskAttention
	}
	for i := range b.Rows.Len() {
		first := b.Rows.Offsets[i]
		b.Loss[first], b.Value[first], b.want[first], b.Steps.Attention[first] = false, false, false, false
	}
}

// charged returns the tokens that are included in the KL in the reward.
func (b *batch) charged(kind string) []bool {
	if kind == config.KLAttention {
		return b.Steps.Attention
	}
	out := make([]bool, len(b.Response))
	for i := range out {
		out[i] = b.Response[i] && !b.Forced[i] && b.Steps.Attention[i]
	}
	return out
}

// numberTurns numbers the turns of every row from 0.
func (b *batch) numberTurns() {
	b.turn = make([]int32, len(b.Loss))
	for row := range b.Rows.Len() {
		id := int32(0)
		for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
			b.turn[i] = id
			if b.Steps.TurnEnd[i] {
				id++
			}
		}
	}
}

// correct computes importance weights from the difference between log-probs of sampling and
// training, and removes tokens with too large a difference from the policy loss. Tokens that
// the model did not write or choose were not sampled: their weight is 1.
func (b *batch) correct(c *config.CorrectionConfig, m track.Metrics) error {
	correction, on, err := c.Correction()
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if !on {
		return nil
	}
	judged := make([]bool, len(b.Loss))
	for i := range judged {
		judged[i] = b.Loss[i] && b.Response[i] && !b.Forced[i]
	}
	var got loss.Corrected
	err = loss.Correct(&got, correction, &loss.CorrectionBatch[float32]{Offsets: b.Rows.Offsets, Mask: judged,
		Trainer: b.old, Rollout: b.LogProbs})
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	b.rollout = got.Weight
	for i, on := range judged {
		switch {
		case on:
			b.Loss[i] = got.Mask[i]
		case b.Loss[i] && b.rollout != nil:
			b.rollout[i] = 1
		}
	}
	for name, x := range got.Metrics.All() {
		m[name] = x
	}
	return nil
}

// useSampledLogProbs uses the log-probs of sampling as the old log-probs.
func (b *batch) useSampledLogProbs() {
	b.old = make([]float32, len(b.LogProbs))
	for i, x := range b.LogProbs {
		if b.want[i] && b.Response[i] {
			b.old[i] = x
		}
	}
}

// samplingLogProbs returns the log-probs at sampling, and the old ones of tokens that were not sampled.
func (b *batch) samplingLogProbs() []float32 {
	out := slices.Clone(b.old)
	for i, x := range b.LogProbs {
		if b.Response[i] && !b.Forced[i] {
			out[i] = x
		}
	}
	return out
}

func errScores(what string, n, tokens int) error {
	return fmt.Errorf("train: the learner returned %d %s for %d tokens", n, what, tokens)
}

var errNoScores = errors.New("train: the learner returned nil scores")

// setScores stores the scores of the requested tokens. Scores of other tokens are set to 0,
// so that nothing can depend on them.
func (b *batch) setScores(s *policy.Scores, what policy.ScoreRequest) error {
	if s == nil {
		return errNoScores
	}
	for _, column := range []struct {
		name  string
		asked bool
		from  []float32
		into  *[]float32
	}{
		{"log-probs", what.LogProbs, s.LogProbs, &b.old},
		{"reference log-probs", what.Reference, s.Reference, &b.reference},
		{"values", what.Values, s.Values, &b.values},
		{"entropies", what.Entropy, s.Entropy, &b.entropy},
		{"sums of squared probabilities", what.SumPiSquared, s.SumPiSquared, &b.squares},
	} {
		if !column.asked {
			continue
		}
		if len(column.from) != len(b.want) {
			return errScores(column.name, len(column.from), len(b.want))
		}
		for i, on := range b.want {
			if !on {
				column.from[i] = 0
			}
		}
		*column.into = column.from
	}
	b.Steps.Values = b.values
	if what.Choice.By == "" {
		return nil
	}
	n := len(b.want)
	if k := len(s.Teacher); k == 0 || k%n != 0 || what.Choice.K > 0 && (k != n*what.Choice.K || len(s.Chosen) != k) {
		return fmt.Errorf("train: the learner returned %d chosen tokens and %d log-probs of a teacher for %d of %d tokens",
			len(s.Chosen), k, what.Choice.K, n)
	}
	b.chosen, b.teacher = s.Chosen, s.Teacher
	return nil
}

// rowsOf returns the indices of the rows of a mini-batch of trajectories.
func (b *batch) rowsOf(members map[int]bool) []int {
	var rows []int
	for row, t := range b.Of {
		if members[t] {
			rows = append(rows, row)
		}
	}
	return rows
}

// slice returns the numbers of some rows, one or several per token. Of a learner's that are of no number per token, it
// returns all.
func slice[T any](offsets, rows []int, x []T) []T {
	n := max(1, offsets[len(offsets)-1])
	if len(x)%n != 0 || x == nil {
		return x
	}
	k, out := len(x)/n, []T(nil)
	for _, r := range rows {
		out = append(out, x[k*offsets[r]:k*offsets[r+1]]...)
	}
	return out
}

// heard marks what the environment wrote after the first response of each row.
func (b *batch) heard() []bool {
	out := make([]bool, len(b.Response))
	for row := range b.Rows.Len() {
		answered := false
		for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
			answered = answered || b.Response[i]
			out[i] = answered && !b.Response[i]
		}
	}
	return out
}

// miniBatch returns the learner's batch for one optimiser step, with token weights. alpha is the weight of the
// prediction of observations.
func (b *batch) miniBatch(rows []int, a config.Aggregation, alpha float64) (*policy.Batch, error) {
	off := b.Rows.Offsets
	out := &policy.Batch{Rows: policy.Rows{Offsets: []int{0}, Tokens: slice(off, rows, b.Rows.Tokens)}}
	counted := slice(off, rows, b.Loss)
	var prompts []int
	n := 0
	for _, r := range rows {
		withoutFirst(counted[n:], b.Response[off[r]:off[r+1]], a.Skip)
		n += off[r+1] - off[r]
		out.Offsets, out.Images = append(out.Offsets, n), append(out.Images, b.Rows.Images[r])
		prompts = append(prompts, b.Steps.Group[r])
	}
	a.Loss.Prompts, a.Aux.Prompts = prompts, prompts
	var err error
	weights := func(a loss.Aggregation, counted []bool) []float32 {
		w, failed := tokenWeights(a, out.Offsets, counted)
		err = errors.Join(err, failed)
		return w
	}
	out.Weight, out.ValueWeight = weights(a.Loss, counted), weights(loss.Aggregation{}, slice(off, rows, b.Value))
	if a.Apart {
		out.AuxWeight = weights(a.Aux, counted)
	}
	if alpha != 0 {
		out.EchoWeight = weights(loss.Aggregation{}, slice(off, rows, b.heard()))
		for i := range out.EchoWeight {
			out.EchoWeight[i] *= float32(alpha)
		}
	}
	if err != nil {
		return nil, err
	}
	out.Chosen, out.Teacher = slice(off, rows, b.chosen), slice(off, rows, b.teacher)
	out.RolloutWeight, out.Turn = slice(off, rows, b.rollout), slice(off, rows, b.turn)
	out.OldLogProbs, out.Reference, out.OldValues = slice(off, rows, b.old), slice(off, rows, b.reference),
		slice(off, rows, b.values)
	out.Advantages, out.Returns = slice(off, rows, b.result.Advantages), slice(off, rows, b.result.Returns)
	return out, nil
}

// withoutFirst clears a mask at the first n tokens that the policy wrote.
func withoutFirst(mask, written []bool, n int) {
	for i, w := range written {
		if w && n > 0 {
			mask[i], n = false, n-1
		}
	}
}

// tokenWeights turns a mask into each token's share of a loss.
func tokenWeights(a loss.Aggregation, offsets []int, counted []bool) ([]float32, error) {
	weights, err := a.Weights(nil, offsets, counted)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(weights))
	for i, w := range weights {
		out[i] = float32(w)
	}
	return out, nil
}
