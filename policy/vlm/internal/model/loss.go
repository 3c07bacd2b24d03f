package model

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/loss"
)

// Column names a column of the matrix of per-token numbers that a loss reads.
type Column int

// The columns of the loss's input [n, Columns] float32.
const (
	OldLogProb    Column = iota // log-prob under the policy that is being updated from
	RefLogProb                  // log-prob under the reference policy
	Advantage                   //
	Weight                      // weight of the token's policy terms; 0 leaves the token out
	OldValue                    // the critic's value before the update
	Return                      //
	ValueWeight                 // weight of the token's value term
	AuxWeight                   // weight of the token's entropy and KL terms, with Loss.Aux
	RolloutWeight               // importance weight without gradient, with Loss.Rollout
	Slope                       // derivative by the log-prob, with Loss.Given
	Columns                     // how many there are
)

// HyperParam names an entry of the vector of numbers that may change from step
// to step without a new executable.
type HyperParam int

// The entries of the vector [HyperParams] float32.
const (
	Temperature HyperParam = iota
	ClipLow                // ε below: ratios under 1 − ε are clipped
	ClipHigh               // ε above
	ClipDual               // c of dual clip; 0 turns it off
	EntropyCoef
	KLCoef
	ValueClip // 0 turns clipping of the value off
	ValueCoef
	TauPos  // sharpness of SAPO's gate where the advantage is positive
	TauNeg  // elsewhere
	CovCoef // weight of KLCov's penalty
	HyperParams
)

// Hyper returns one entry of the vector as a scalar.
func Hyper(hyper *Node, p HyperParam) *Node {
	return Reshape(Slice(hyper, AxisRange(int(p), int(p)+1)))
}

// Stat names an entry of the vector of sums that an update reports. All but the
// counts are weighted like the loss.
type Stat int

// The entries of the statistics [Stats] float32.
const (
	StatPolicy     Stat = iota // Σ w·policy loss
	StatEntropy                // Σ w·entropy
	StatKL                     // Σ w·KL to the reference
	StatApproxKL               // Σ w·(old − new)
	StatClipped                // Σ w where the clipped branch was taken
	StatClippedLow             // Σ w where dual clip was taken
	StatValue                  // ½ Σ wv·value loss
	StatValueClip              // Σ wv where the clipped value was taken
	StatRatioMax               // largest ratio with weight
	Stats
)

// Loss is a loss whose value at a token depends on that token alone, or whose
// policy part was evaluated before (Given).
type Loss struct {
	Imitate bool    // maximise the log-probs of the targets; everything else is ignored
	Policy  bool    // the policy loss of this kind, with the two terms below
	Value   bool    // squared value error, clipped
	KL      loss.KL // KL to the reference
	Entropy bool    // entropy bonus

	PolicyLoss      // of one token
	Rollout    bool // the policy loss has importance weights
	Aux        bool // entropy and KL have weights of their own
	// Given means that policy loss and KL were evaluated before: the column Slope
	// is their derivative by the log-prob.
	Given bool
}

// AfterJoint is the remaining loss after a JointLoss was evaluated. Its graph is
// the same for all policy losses.
func (l *Loss) AfterJoint() *Loss {
	return &Loss{Policy: true, Given: true, Value: l.Value, Entropy: l.Entropy, Aux: l.Aux}
}

// Key identifies the loss among compiled programs.
func (l *Loss) Key() string { return fmt.Sprintf("%+v", *l) }

// gradients evaluates the loss and returns its derivatives with respect to each
// token's log-prob, entropy and value (nil where they are zero), and the
// statistics.
func (l *Loss) gradients(s *scores, cols, hyper *Node) (dLogProb, dEntropy, dValue, stats *Node) {
	t := terms{s: s, cols: cols, hyper: hyper, stats: make([]*Node, Stats)}
	if s.LogProb != nil {
		w := t.column(Weight)
		switch {
		case l.Imitate:
			dLogProb = Neg(w)
			t.put(StatPolicy, Mul(w, Neg(s.LogProb)))
			t.put(StatEntropy, Mul(w, s.Entropy))
		case l.Policy:
			if l.Aux {
				w = t.column(AuxWeight)
			}
			dLogProb = t.policy(l, w)
			t.put(StatEntropy, Mul(w, s.Entropy))
			if l.Entropy {
				dEntropy = Neg(Mul(Hyper(hyper, EntropyCoef), w))
			}
		}
	}
	if l.Value && s.Value != nil {
		dValue = t.value()
	}
	return dLogProb, dEntropy, dValue, t.vector()
}

// terms holds the inputs and statistics that the parts of a loss share.
type terms struct {
	s           *scores
	cols, hyper *Node
	stats       []*Node
}

func (t *terms) column(c Column) *Node {
	n := dim(t.cols, 0)
	return Reshape(columns(t.cols, int(c), int(c)+1), n)
}

func (t *terms) put(s Stat, perToken *Node) { t.stats[s] = ReduceAllSum(perToken) }

func (t *terms) vector() *Node {
	g := t.cols.Graph()
	out := make([]*Node, Stats)
	for i, s := range t.stats {
		if s == nil {
			s = ScalarZero(g, dtypes.Float32)
		}
		out[i] = Reshape(s, 1)
	}
	return Concatenate(out, 0)
}

// policy evaluates policy loss and KL and returns their derivative by each
// token's log-prob.
func (t *terms) policy(l *Loss, aux *Node) *Node {
	if l.Given {
		return t.column(Slope)
	}
	w := t.column(Weight)
	on := NotEqual(w, ZerosLike(w))
	in := PolicyInput{LogProb: t.s.LogProb, Old: t.column(OldLogProb), Advantage: t.column(Advantage), Hyper: t.hyper}
	if l.Rollout {
		in.Rollout = t.column(RolloutWeight)
	}
	p := l.Terms(in)
	t.put(StatPolicy, where(on, Mul(w, p.Loss)))
	t.put(StatApproxKL, Neg(where(on, Mul(w, p.LogRatio))))
	if p.Clipped != nil {
		t.put(StatClipped, where(p.Clipped, w))
	}
	if p.ClippedLow != nil {
		t.put(StatClippedLow, where(p.ClippedLow, w))
	}
	t.stats[StatRatioMax] = ReduceAllMax(where(on, cappedRatio(p.LogRatio)))
	d := where(on, Mul(w, p.Slope))
	if l.KL == loss.NoKL {
		return d
	}
	kl, slope := klTerm(l.KL, Sub(t.s.LogProb, t.column(RefLogProb)))
	t.put(StatKL, Mul(aux, kl))
	return Add(d, Mul(Mul(Hyper(t.hyper, KLCoef), aux), slope))
}

// cappedRatio is exp of the clamped log-ratio, for statistics: an outlier cannot
// make them infinite.
func cappedRatio(logRatio *Node) *Node {
	v, _ := clamp(logRatio, num(logRatio, -maxLogRatio), num(logRatio, maxLogRatio))
	return Exp(v)
}

// klTerm estimates the KL from the reference at one token, with d = new − ref
// (Schulman, "Approximating KL divergence", 2020), and its derivative:
//
//	k1 d    abs |d|    k2 d²/2    k3 exp(−d) + d − 1, at most 10
//
// under any of the names that package policy/loss has for them. With a trailing
// "+" the derivative is that of k2.
func klTerm(kind loss.KL, d *Node) (kl, slope *Node) {
	if base, ok := strings.CutSuffix(string(kind), "+"); ok {
		kl, _ = klTerm(loss.KL(base), d)
		return kl, d
	}
	c := func(x float64) *Node { return num(d, x) }
	switch kind {
	case "k1", "kl":
		return d, OnesLike(d)
	case "abs":
		return Abs(d), Sign(d)
	case "k2", "mse":
		return MulScalar(Mul(d, d), 0.5), d
	case "k3", "low_var_kl":
		r := Expm1(Min(Max(Neg(d), c(-20)), c(20))) // exp(−d) − 1, exact for small d
		k := Add(r, d)
		return Min(k, c(10)), Where(LessOrEqual(k, BroadcastToShape(c(10), k.Shape())), Neg(r), ZerosLike(d))
	}
	panic(fmt.Errorf("model: unknown KL kind %q", kind))
}

// value is ½·max((V−R)², (clip(V, Vold±c)−R)²) times the coefficient; it returns
// the derivative with respect to V.
func (t *terms) value() *Node {
	v, old, ret := t.s.Value, t.column(OldValue), t.column(Return)
	w := t.column(ValueWeight)
	c := Hyper(t.hyper, ValueClip)
	g := v.Graph()
	wide := Where(GreaterThan(c, ScalarZero(g, dtypes.Float32)), c, Scalar(g, dtypes.Float32, 1e30))
	clipped := Min(Max(v, Sub(old, wide)), Add(old, wide))
	e1, e2 := Sub(v, ret), Sub(clipped, ret)
	byClip := GreaterThan(Mul(e2, e2), Mul(e1, e1))
	loss := Max(Mul(e1, e1), Mul(e2, e2))
	t.put(StatValue, MulScalar(Mul(w, loss), 0.5))
	t.put(StatValueClip, Where(byClip, w, ZerosLike(w)))
	// Where the clipped error is the larger one, V is outside the clip range and
	// the loss does not depend on it.
	return Mul(Mul(Hyper(t.hyper, ValueCoef), w), Where(byClip, ZerosLike(e1), e1))
}
