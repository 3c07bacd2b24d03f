package policy

import (
	"context"
	"errors"
	"fmt"

	"vagen/policy/loss"
)

// Rows is a ragged batch of training rows: row i is
// Tokens[Offsets[i]:Offsets[i+1]], with Images[i] for its image placeholders in order.
type Rows struct {
	Offsets []int // rows+1 numbers, from 0 to len(Tokens)
	Tokens  []int32
	Images  [][]Image // per row; may be nil when no row has images
}

// Len returns the number of rows.
func (r *Rows) Len() int { return max(0, len(r.Offsets)-1) }

// Check returns an error unless every token is in a row, and Images is nil or has an entry for each row.
func (r *Rows) Check() error {
	if r == nil {
		return errors.New("policy: the rows are nil")
	}
	n := len(r.Tokens)
	if len(r.Offsets) == 0 || r.Offsets[0] != 0 || r.Offsets[r.Len()] != n {
		return fmt.Errorf("policy: row offsets must go from 0 to the number of tokens, %d", n)
	}
	for i := range r.Len() {
		if r.Offsets[i+1] < r.Offsets[i] {
			return fmt.Errorf("policy: row %d: offset %d after %d, must not decrease", i, r.Offsets[i+1], r.Offsets[i])
		}
	}
	if r.Images != nil && len(r.Images) != r.Len() {
		return fmt.Errorf("policy: images for %d rows, but there are %d rows", len(r.Images), r.Len())
	}
	return nil
}

// ScoreRequest selects the numbers that Score computes.
type ScoreRequest struct {
	LogProbs  bool // under the policy, at the temperature
	Reference bool // log-probs under the reference policy
	Values    bool // of the critic
	Entropy   bool // of the policy's next-token distribution

	SumPiSquared bool // sum of the squares of its probabilities

	// Choice are the tokens whose log-probs under the reference policy are returned, for losses that compare them.
	// loss.ByItself returns those under the policy, and needs no reference.
	Choice loss.Choice
}

// Scores are per-token numbers, flat like Rows.Tokens, 0 where they were not requested.
// The number at a token refers to the state before it: the log-prob of the token given
// the preceding ones, and the value of the preceding ones. A row's first token has
// neither.
type Scores struct {
	LogProbs, Reference, Values, Entropy, SumPiSquared []float32

	// Chosen are the tokens of a ScoreRequest.Choice, K for each token of the rows, nil for the whole vocabulary, and
	// Teacher their log-probs under the reference policy. ChosenLogProbs are those under the policy; an Objective reads
	// them, and Score does not set them.
	Chosen                  []int32
	Teacher, ChosenLogProbs []float32
}

// Batch is the training data of one optimiser step. Every slice is flat like
// Rows.Tokens; what an Objective does not use may be nil.
type Batch struct {
	Rows
	// Weight is each token's factor in the policy loss and ValueWeight in the value
	// loss: mask and normalisation combined, for example 1/Σmask at the tokens of the
	// mask. 0 excludes a token.
	Weight, ValueWeight []float32
	// AuxWeight is each token's factor in the entropy and KL terms; nil means Weight.
	// Losses with a fixed aggregation of their own do not change these terms' aggregation.
	AuxWeight []float32
	// EchoWeight is each token's factor in −log-prob, which is added to the policy loss: of tokens that the environment
	// wrote, so that the policy learns to predict them. They need no Weight. nil is none.
	EchoWeight []float32

	OldLogProbs []float32 // under the policy that wrote the rows
	Reference   []float32 // log-probs under the reference policy
	Chosen      []int32   // Scores.Chosen and Scores.Teacher, for losses that compare them
	Teacher     []float32
	Sampled     []float32 // log-probs when the tokens were sampled; only for losses that say so, see loss.Sampled
	Advantages  []float32
	Returns     []float32
	OldValues   []float32 // of the critic before the update; only for ValueClip

	// RolloutWeight multiplies a token's policy loss and has no gradient: the
	// importance weights of loss.Correct. nil is 1.
	RolloutWeight []float32
	// Turn is the turn of each token with Weight; only turn losses read it. Ids start at
	// 0 and do not decrease inside a row.
	Turn []int32
	// Seed determines the random choices of losses that have any (clip_cov).
	Seed uint64
}

// Objective is the function that an optimiser step minimises:
//
//	Σ w·policy loss − Σ echo·log-prob + Σ aux·(KLCoef·KL − EntropyCoef·entropy) + ValueCoef·½·Σ wv·(V − R)²
//
// or, with Imitate, Σ w·loss.NLL only. The losses are those of package policy/loss.
type Objective struct {
	Imitate     bool
	DFT         bool    // of loss.NLL
	Temperature float64 // divides the logits; must be the one of sampling
	// Policy is the policy loss, built-in or custom; nil is loss.DefaultPPO.
	Policy      loss.Policy
	EntropyCoef float64
	KL          loss.KL // KL to the reference as a loss term; loss.NoKL for none
	KLCoef      float64
	ValueCoef   float64 // 0: the critic is not trained
	ValueClip   float64 // how far a value may move from the old one; 0 is off
	CriticOnly  bool    // train only the critic (critic warm-up)
}

// Optimizer sets one step of AdamW.
type Optimizer struct {
	Rate        float64 // of the policy
	CriticRate  float64 // of a separate critic
	Beta1       float64
	Beta2       float64
	Epsilon     float64
	WeightDecay float64 // decoupled; on every parameter
	GradClip    float64 // global norm; 0 is off
	MaxGradNorm float64 // skip the step at this norm or above; 0 is off
}

// DefaultOptimizer returns AdamW with PyTorch's moments, a gradient clip of 1 and steps
// skipped from a norm of 1000.
func DefaultOptimizer() Optimizer {
	return Optimizer{Rate: 1e-6, CriticRate: 1e-5, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01, GradClip: 1,
		MaxGradNorm: 1000}
}

// Stats are the results of one optimiser step. Losses are the sums of the Objective
// without coefficients.
//
// A learner that does not compute the entropy or the norm of the gradient leaves HasEntropy or
// HasGradNorm false. Then they are not among the metrics, and no alarm is about them.
type Stats struct {
	PolicyLoss  float64
	ValueLoss   float64
	Entropy     float64
	KL          float64 // to the reference, Σ w·kl
	ApproxKL    float64 // Σ w·(old − new)
	ClipFrac    float64 // share of tokens on the clipped branch
	ClipFracLow float64 // share of tokens limited by dual clip
	ValueClip   float64 // share of value weight clipped
	RatioMax    float64
	HasEntropy  bool    // Entropy was computed
	GradNorm    float64 // before clipping; of the policy and a shared critic
	HasGradNorm bool    // GradNorm was computed
	CriticNorm  float64 // of a separate critic
	Skipped     bool    // policy or critic was not updated: norm not finite or too large, or neither had a gradient
	Tokens      int     // tokens in rows
	// Metrics are further statistics of the policy loss, such as those of turns, under
	// the names that loss.Metrics uses; nil if there are none.
	Metrics map[string]float64
}

// Learner is a policy that can be trained.
type Learner interface {
	Policy
	// Score computes log-probs and values at the tokens where want is set.
	Score(ctx context.Context, rows *Rows, want []bool, what ScoreRequest, temperature float64) (*Scores, error)
	// Accumulate adds the gradient of the objective on a batch to that of the next optimiser step, and returns
	// the losses. The weights stay as they are.
	Accumulate(ctx context.Context, b *Batch, o Objective) (Stats, error)
	// Step takes an optimiser step with the sum of the gradients since the last one, and returns its norms. Without
	// any, or with ones that are not finite, it is skipped. The sum is then 0 again.
	Step(ctx context.Context, opt Optimizer) (Stats, error)
	// Update is Accumulate and Step. It may need less memory than the two: policy and separate critic can
	// take their steps one after the other.
	Update(ctx context.Context, b *Batch, o Objective, opt Optimizer) (Stats, error)
	// Save writes a checkpoint to dir, which must not exist or be empty.
	Save(ctx context.Context, dir string) error
}

// AccumulateAndStep is Update for learners for which it is nothing else.
func AccumulateAndStep(ctx context.Context, l Learner, b *Batch, o Objective, opt Optimizer) (Stats, error) {
	if l == nil {
		return Stats{}, errors.New("policy: the learner is nil")
	}
	stats, err := l.Accumulate(ctx, b, o)
	if err != nil {
		return stats, err
	}
	step, err := l.Step(ctx, opt)
	stats.GradNorm, stats.HasGradNorm, stats.CriticNorm, stats.Skipped = step.GradNorm, step.HasGradNorm, step.CriticNorm,
		step.Skipped
	return stats, err
}
