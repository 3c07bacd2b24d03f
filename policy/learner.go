package policy

import (
	"context"

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

// ScoreRequest selects the numbers that Score computes.
type ScoreRequest struct {
	LogProbs  bool // under the policy, at the temperature
	Reference bool // log-probs under the reference policy
	Values    bool // of the critic
	Entropy   bool // of the policy's next-token distribution
}

// Scores are per-token numbers, flat like Rows.Tokens, 0 where they were not requested.
// The number at a token refers to the state before it: the log-prob of the token given
// the preceding ones, and the value of the preceding ones. A row's first token has
// neither.
type Scores struct {
	LogProbs, Reference, Values, Entropy []float32
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

	OldLogProbs []float32 // under the policy that wrote the rows
	Reference   []float32 // log-probs under the reference policy
	Advantages  []float32
	Returns     []float32
	OldValues   []float32

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
//	Σ w·policy loss + Σ aux·(KLCoef·KL − EntropyCoef·entropy) + ValueCoef·½·Σ wv·(V − R)²
//
// or, with Imitate, −Σ w·log-prob only. The losses are those of package policy/loss.
type Objective struct {
	Imitate     bool
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
	return Optimizer{Rate: 1e-6, CriticRate: 1e-5, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01, GradClip: 1, MaxGradNorm: 1000}
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
	ClipFrac    float64 // share of weight on the clipped branch
	ClipFracLow float64 // share of weight limited by dual clip
	ValueClip   float64 // share of value weight clipped
	RatioMax    float64
	HasEntropy  bool    // Entropy was computed
	GradNorm    float64 // before clipping; of the policy and a shared critic
	HasGradNorm bool    // GradNorm was computed
	CriticNorm  float64 // of a separate critic
	Skipped     bool    // policy or critic was not updated: its norm was not finite, or too large
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

// Encoder converts a finished conversation, including the assistant's messages, to the
// tokens that the policy would have read and written.
type Encoder interface {
	// Encode returns the pieces in order, responses with their end-of-turn token,
	// and the images of the conversation. The text with which the chat template opens a
	// response belongs to the context; a response that does not begin with it is an error,
	// unless it is Unlearned: then the context ends as the template shows a finished response.
	Encode(messages []Message) ([]Piece, []Image, error)
}

// Templated is an Encoder whose chat template is known.
type Templated interface {
	Encoder
	// Opened returns the text with which the template begins every response, such as
	// <think>; "" for none. Completion.Text begins with it.
	Opened() string
	// RewritesHistory reports that the template shows earlier responses otherwise than they
	// were written. The policy reads them as they were written.
	RewritesHistory() bool
	// Response returns the text of a response's tokens, as in Completion.Text.
	Response(tokens []int32) string
}

// Snapshotter is a Learner whose checkpoints can be written while training continues.
type Snapshotter interface {
	// Snapshot copies the state that Save writes to host memory.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is a learner's state at one moment. It may be saved once, from any goroutine,
// while the learner continues.
type Snapshot interface {
	// Save writes the same bytes as the learner's Save at that moment.
	Save(ctx context.Context, dir string) error
}

// Exporter is a Learner that can export its policy alone, for other programs.
type Exporter interface {
	Export(ctx context.Context, dir string) error
}

// InputLister is a Learner that states which files it was opened from.
type InputLister interface {
	// Inputs returns paths of files, and of folders of models, by their use, such as model
	// or tokenizer. Their contents must not change while the learner is open.
	Inputs() map[string]string
}

// MetricsReporter is a Learner that reports its use of the machine.
type MetricsReporter interface {
	// Gauges returns figures by name, such as device_memory_mb in 10⁶ bytes. It does not
	// wait for work in progress.
	Gauges() map[string]float64
}

// EngineSampler is a Learner whose responses are sampled by other programs, so that the
// log-probs of sampling and training differ by more than rounding. A Trainer measures the
// difference in every step.
type EngineSampler interface {
	Learner
	// SampledByEngine has no effect; it marks the learner.
	SampledByEngine()
}

// PolicySnapshotter is a Learner that can copy its policy, so that rollouts are sampled from the
// copy while the learner continues training. With run.max_staleness above 1 several copies, of
// one policy or of several, sample at the same time.
type PolicySnapshotter interface {
	// SnapshotPolicy returns a copy of the current policy.
	SnapshotPolicy(ctx context.Context) (PolicySnapshot, error)
}

// StepTracker is a Learner whose policy writes the training step of its weights into
// Completion.Version.
type StepTracker interface {
	// Trained says that the weights are now those after the update of a training step; 0 is the
	// start of training.
	Trained(step int)
}

// PolicySnapshot is an immutable copy of a policy. It may be used from another goroutine than its
// learner, and samples what the learner would have sampled when it was copied, except with
// run.partial_rollouts, where servers get new weights meanwhile. It must be closed before its
// learner is.
type PolicySnapshot interface {
	Policy
	// Close frees the copy.
	Close() error
}
