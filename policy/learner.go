package policy

import "context"

// Rows is a ragged batch of training rows: row i is
// Tokens[Offsets[i]:Offsets[i+1]], with Images[i] for its image placeholders in
// order.
type Rows struct {
	Offsets []int // rows+1 numbers, from 0 to len(Tokens)
	Tokens  []int32
	Images  [][]Image // per row; may be nil when no row has images
}

// Len returns the number of rows.
func (r *Rows) Len() int { return max(0, len(r.Offsets)-1) }

// Wanted says which numbers Score computes.
type Wanted struct {
	LogProbs  bool // under the policy, at the temperature
	Reference bool // log-probs under the reference policy
	Values    bool // of the critic
	Entropy   bool // of the policy's next-token distribution
}

// Scores are per-token numbers, flat like Rows.Tokens, 0 where they were not
// asked for. The number at a token belongs to the state before it: its log-prob
// given what precedes it, the value of what precedes it. A row's first token has
// neither.
type Scores struct {
	LogProbs, Reference, Values, Entropy []float32
}

// Batch is what one optimiser step learns from. Every slice is flat like
// Rows.Tokens; what an Objective does not use may be nil.
type Batch struct {
	Rows
	// Weight is each token's share in the policy loss and ValueWeight in the
	// value loss: mask and normalisation in one, for example 1/Σmask at the
	// tokens of the mask. 0 leaves a token out.
	Weight, ValueWeight []float32
	// AuxWeight is each token's share in the entropy and KL terms; nil is Weight.
	// Losses that insist on an aggregation of their own leave these terms theirs.
	AuxWeight []float32

	OldLogProbs []float32 // under the policy that wrote the rows
	Reference   []float32 // log-probs under the reference policy
	Advantages  []float32
	Returns     []float32
	OldValues   []float32

	// RolloutWeight multiplies a token's policy loss and has no gradient: the
	// importance weights of loss.Correct. nil is 1.
	RolloutWeight []float32
	// Turn is the turn of each token with Weight; turn losses read it alone. Ids
	// start at 0 and do not decrease inside a row.
	Turn []int32
	// Seed decides the random choices of losses that make any (clip_cov).
	Seed uint64
}

// Objective is what an optimiser step minimises:
//
//	Σ w·policy loss + Σ aux·(KLCoef·KL − EntropyCoef·entropy) + ValueCoef·½·Σ wv·(V − R)²
//
// or, when Imitate is set, −Σ w·log-prob alone. The policy losses, and what
// their settings mean, are those of package policy/loss.
type Objective struct {
	Imitate     bool
	Temperature float64 // divides the logits; must be the one of sampling
	// Loss names the policy loss as loss.Builtin does; "" is ppo. Settings below
	// that the loss does not have are ignored, 0 included.
	Loss        string
	ClipLow     float64 // the ratio is clipped to [1 − ClipLow, 1 + ClipHigh]; of gmpo the log-ratio, around 0
	ClipHigh    float64
	ClipDual    float64 // ppo: bound on the loss of negative advantages, in units of −A; 0 is off
	Unclamped   bool    // ppo: leave log-ratios beyond ±20 as they are, as the full VAGEN system does
	TauPos      float64 // sapo: sharpness of the gate where the advantage is positive
	TauNeg      float64 // sapo: elsewhere
	CovRatio    float64 // clip_cov, kl_cov: share of tokens that may be dropped, that are penalised
	CovLow      float64 // clip_cov: covariances between CovLow and CovHigh may be dropped
	CovHigh     float64
	CovCoef     float64 // kl_cov: weight of the penalty
	EntropyCoef float64
	KL          string // KL to the reference as a loss term: a loss.KL, such as k1, abs, k2, k3 or k3+; "" for none
	KLCoef      float64
	ValueCoef   float64 // 0 leaves the critic alone
	ValueClip   float64 // how far a value may move from the old one; 0 is off
	CriticOnly  bool    // train the critic, leave the policy (critic warm-up)
}

// Optimizer sets one step of AdamW.
type Optimizer struct {
	Rate        float64 // of the policy
	CriticRate  float64 // of a critic with weights of its own
	Beta1       float64
	Beta2       float64
	Epsilon     float64
	WeightDecay float64 // decoupled; on every parameter
	GradClip    float64 // global norm; 0 is off
	MaxGradNorm float64 // skip the step at this norm or above; 0 is off
}

// DefaultOptimizer returns AdamW with PyTorch's moments and a gradient clip of 1.
func DefaultOptimizer() Optimizer {
	return Optimizer{Rate: 1e-6, CriticRate: 1e-5, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01, GradClip: 1}
}

// Stats report one optimiser step. Losses are the sums of the Objective before
// coefficients.
type Stats struct {
	PolicyLoss  float64
	ValueLoss   float64
	Entropy     float64
	KL          float64 // to the reference, Σ w·kl
	ApproxKL    float64 // Σ w·(old − new)
	ClipFrac    float64 // share of weight on the clipped branch
	ClipFracLow float64 // share of weight stopped by dual clip
	ValueClip   float64 // share of value weight clipped
	RatioMax    float64
	GradNorm    float64 // before clipping; of the policy and a shared critic
	CriticNorm  float64 // of a critic with weights of its own
	Skipped     bool    // policy or critic stayed as it was: its norm was not finite, or too large
	Tokens      int     // tokens in rows
	// Metrics are further figures of the policy loss under the names that
	// loss.Metrics has for them, such as those of turns; nil when there are none.
	Metrics map[string]float64
}

// Learner is a policy that can be trained.
type Learner interface {
	Policy
	// Score computes log-probs and values at the tokens where want is set.
	Score(ctx context.Context, rows *Rows, want []bool, what Wanted, temperature float64) (*Scores, error)
	// Update takes one optimiser step.
	Update(ctx context.Context, b *Batch, o Objective, opt Optimizer) (Stats, error)
	// Save writes a checkpoint to dir, which must not exist or be empty.
	Save(ctx context.Context, dir string) error
}

// Piece is a run of tokens of one origin.
type Piece struct {
	Tokens   []int32
	Response bool // written by the assistant; else context
}

// Encoder turns a finished conversation, in which the assistant's messages are
// given, into the tokens that the policy would have read and written.
type Encoder interface {
	// Encode returns the pieces in order, responses with their end-of-turn token,
	// and the images of the conversation.
	Encode(messages []Message) ([]Piece, []Image, error)
}

// Snapshotter is a Learner whose checkpoints can be written while it goes on.
type Snapshotter interface {
	// Snapshot copies what Save would write to the host's memory.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is what a learner was at one moment. It may be saved once, from any
// goroutine, whatever the learner does meanwhile.
type Snapshot interface {
	// Save writes the bytes that the learner's Save would have written.
	Save(ctx context.Context, dir string) error
}

// Exporter is a Learner that writes its policy alone, for others to load.
type Exporter interface {
	Export(ctx context.Context, dir string) error
}

// Gauged is a Learner that tells what it takes of its machine.
type Gauged interface {
	// Gauges returns figures by name, such as device_memory_mb in 10⁶ bytes. It does
	// not wait for work that goes on.
	Gauges() map[string]float64
}

// Lender is a Learner that lends its policy, to be sampled from while the learner
// itself goes on to learn.
type Lender interface {
	// Lend returns the policy as it is now.
	Lend(ctx context.Context) (Lent, error)
}

// Lent is a policy that stays as it is. It may be used from another goroutine than
// its learner, and samples what the learner would have sampled when it was lent.
// It must be closed before its learner is.
type Lent interface {
	Policy
	// Close frees what was copied.
	Close() error
}
