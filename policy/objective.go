package policy

import (
	"cmp"
	"fmt"
	"maps"
	"math"

	"vagen/internal/floats"
	"vagen/policy/loss"
)

// PolicyLoss returns the policy loss: Policy, or loss.DefaultPPO if it is nil.
func (o *Objective) PolicyLoss() loss.Policy {
	if o.Policy == nil {
		return loss.DefaultPPO()
	}
	return o.Policy
}

// Local reports whether the objective's value at a token depends on that token alone, so that the tokens of a
// batch can be evaluated in parts: see loss.Local.
func (o *Objective) Local() bool { return o.Imitate || o.CriticOnly || loss.Local(o.PolicyLoss()) }

// Compares returns the number of tokens at each position whose log-probs the policy loss reads: 0 for most losses.
func (o *Objective) Compares(b *Batch) int {
	if b == nil || o.Imitate || o.CriticOnly || loss.ChoiceOf(o.PolicyLoss()).By == "" || len(b.Tokens) == 0 {
		return 0
	}
	return len(b.Teacher) / len(b.Tokens)
}

// Check returns an error if a coefficient is not finite, ValueClip is negative, the policy loss rejects its
// settings, or the KL is unknown. Errors wrap loss.ErrSetting and loss.ErrUnknown.
func (o *Objective) Check() error {
	if err := o.checkNumbers(); err != nil {
		return fmt.Errorf("policy: objective: %w", err)
	}
	if _, err := loss.ModeOf(o.PolicyLoss()); err != nil {
		return fmt.Errorf("policy: objective: Policy: %w", err)
	}
	if err := o.KL.Check(); err != nil {
		return fmt.Errorf("policy: objective: KL: %w", err)
	}
	return nil
}

// checkNumbers refuses numbers with which an Evaluation would have derivatives that are not finite.
func (o *Objective) checkNumbers() error {
	for _, c := range []struct {
		name string
		x    float64
	}{{"EntropyCoef", o.EntropyCoef}, {"KLCoef", o.KLCoef}, {"ValueCoef", o.ValueCoef}, {"ValueClip", o.ValueClip}} {
		if !floats.Finite(c.x) {
			return fmt.Errorf("%s is %v, must be finite: %w", c.name, c.x, loss.ErrSetting)
		}
	}
	if o.ValueClip < 0 {
		return fmt.Errorf("ValueClip is %v, must not be negative: %w", o.ValueClip, loss.ErrSetting)
	}
	return nil
}

// Evaluation is the value of an Objective and its derivatives, in plain Go.
type Evaluation struct {
	Loss    float64 // Σ w·policy loss, or Σ w·loss.NLL with Imitate
	Echo    float64 // −Σ echo·log-prob
	KL      float64 // Σ aux·KL
	Entropy float64 // Σ aux·entropy
	Value   float64 // ½·Σ wv·(V − R)², clipped
	// Slopes are the derivatives of the objective by each token's log-prob, entropy and value, flat like
	// Rows.Tokens; 0 at tokens without weight, nil where the derivative is 0 everywhere.
	Slopes   Slopes
	ApproxKL float64      // Σ w·(old − new)
	Metrics  loss.Metrics // of the policy loss; zero with Imitate

	hasEntropy                          bool
	echoed, surprise                    float64 // tokens with EchoWeight, and the sum of their −log-probs
	weight, aux, valueWeight, valueClip float64 // sums of weights; valueClip of tokens whose value is clipped
}

// Slopes are derivatives by what a model returns for each token. Those of Chosen are by Scores.ChosenLogProbs.
type Slopes struct{ LogProbs, Entropy, Values, Chosen []float64 }

// Eval evaluates the objective for what the model returns for the batch's tokens now, flat like Rows.Tokens. The
// terms of the policy are left out without LogProbs, that of the critic without Values. Only tokens
// with weight are read. NaN and infinity there give loss.ErrNotFinite, columns of other lengths loss.ErrLength,
// an entropy term without Entropy loss.ErrMissing, numbers of the objective that Check refuses loss.ErrSetting.
func (o *Objective) Eval(b *Batch, s *Scores) (*Evaluation, error) {
	e := &Evaluation{}
	err := o.checkNumbers()
	if err == nil {
		err = o.checkColumns(b, s)
	}
	if err == nil && o.hasPolicy(s) {
		err = o.evalPolicy(e, b, s)
	}
	if err == nil && o.hasValue(s) {
		err = o.evalValue(e, b, s.Values)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: objective: %w", err)
	}
	for _, sum := range []float64{e.Loss, e.Echo, e.KL, e.Entropy, e.Value} {
		if !floats.Finite(sum) {
			return nil, fmt.Errorf("policy: objective: the sum over the batch is %v: %w", sum, loss.ErrNotFinite)
		}
	}
	return e, nil
}

func (o *Objective) hasPolicy(s *Scores) bool { return s.LogProbs != nil && !o.CriticOnly }
func (o *Objective) hasValue(s *Scores) bool {
	return s.Values != nil && o.ValueCoef != 0 && !o.Imitate
}

// checkColumns checks the columns that package loss does not.
func (o *Objective) checkColumns(b *Batch, s *Scores) error {
	if b == nil || s == nil {
		return fmt.Errorf("batch or scores: nil: %w", loss.ErrMissing)
	}
	actor, rl, critic := o.hasPolicy(s), o.hasPolicy(s) && !o.Imitate, o.hasValue(s)
	if rl && o.EntropyCoef != 0 && s.Entropy == nil {
		return fmt.Errorf("entropies: %w", loss.ErrMissing)
	}
	n := len(b.Tokens)
	for _, c := range []struct {
		name   string
		length int
		need   bool
	}{
		{"log-probs", len(s.LogProbs), actor}, {"entropies", len(s.Entropy), actor && s.Entropy != nil},
		{"Weight", len(b.Weight), actor}, {"AuxWeight", len(b.AuxWeight), rl && b.AuxWeight != nil},
		{"EchoWeight", len(b.EchoWeight), rl && b.EchoWeight != nil},
		{"Reference", len(b.Reference), rl && o.KL != loss.NoKL}, {"Turn", len(b.Turn), rl && b.Turn != nil},
		{"values", len(s.Values), critic}, {"ValueWeight", len(b.ValueWeight), critic},
		{"Returns", len(b.Returns), critic}, {"OldValues", len(b.OldValues), critic && o.ValueClip > 0},
	} {
		if c.need && c.length != n {
			return fmt.Errorf("%s has %d numbers for %d tokens: %w", c.name, c.length, n, loss.ErrLength)
		}
	}
	return nil
}

// evalPolicy evaluates imitation, or policy loss, KL and entropy.
func (o *Objective) evalPolicy(e *Evaluation, b *Batch, s *Scores) error {
	n := len(b.Tokens)
	aux := b.Weight
	if o.Imitate {
		e.Slopes.LogProbs = make([]float64, n)
		e.Loss, _, _ = e.imitate(b.Weight, s.LogProbs, o.supervised())
	} else {
		if err := o.evalLoss(e, b, s); err != nil {
			return err
		}
		if b.AuxWeight != nil {
			aux = b.AuxWeight
		}
		e.Echo, e.surprise, e.echoed = e.imitate(b.EchoWeight, s.LogProbs, loss.NLL)
	}
	if e.hasEntropy = s.Entropy != nil; e.hasEntropy && o.EntropyCoef != 0 && !o.Imitate {
		e.Slopes.Entropy = make([]float64, n)
	}
	for i, w := range b.Weight {
		if w == 0 {
			continue
		}
		a := float64(aux[i])
		e.weight, e.aux = e.weight+float64(w), e.aux+a
		if e.hasEntropy {
			e.Entropy += a * float64(s.Entropy[i])
		}
		if e.Slopes.Entropy != nil {
			e.Slopes.Entropy[i] = -o.EntropyCoef * a
		}
		if o.Imitate || o.KL == loss.NoKL {
			continue
		}
		kl, slope, err := o.KL.Of(float64(s.LogProbs[i]), float64(b.Reference[i]))
		if err != nil {
			return err
		}
		e.KL += a * kl
		e.Slopes.LogProbs[i] += o.KLCoef * a * slope
	}
	return nil
}

// evalLoss evaluates the policy loss.
func (o *Objective) evalLoss(e *Evaluation, b *Batch, s *Scores) error {
	mask := make([]bool, len(b.Tokens))
	for i, w := range b.Weight {
		mask[i] = w != 0
	}
	var r loss.Result
	if err := loss.EvalWeighted(&r, o.PolicyLoss(), b.Weight, &loss.Batch[float32]{
		Offsets: b.Offsets, Mask: mask, LogProb: s.LogProbs, OldLogProb: b.OldLogProbs, Advantage: b.Advantages,
		Weight: b.RolloutWeight, Ref: b.Reference, Sampled: b.Sampled, Turn: b.Turn, Seed: b.Seed,
		Chosen: s.ChosenLogProbs, Teacher: b.Teacher,
	}); err != nil {
		return err
	}
	e.Loss, e.Slopes.LogProbs, e.Slopes.Chosen, e.Metrics = r.Loss, r.Grad, r.GradChosen, r.Metrics
	for i, m := range mask {
		if m {
			e.ApproxKL += float64(b.Weight[i]) * (float64(b.OldLogProbs[i]) - float64(s.LogProbs[i]))
		}
	}
	return nil
}

func (o *Objective) supervised() func(logProb float64) (value, slope float64) {
	if o.DFT {
		return loss.DFT
	}
	return loss.NLL
}

// imitate adds a supervised loss of the tokens with a weight to the slopes, and returns its weighted and plain
// sums and the number of these tokens.
func (e *Evaluation) imitate(
	weights, logProbs []float32, f func(float64) (float64, float64),
) (weighted, plain, tokens float64) {
	for i, w := range weights {
		if w == 0 {
			continue
		}
		x, slope := f(float64(logProbs[i]))
		weighted, plain, tokens = weighted+float64(w)*x, plain+x, tokens+1
		e.Slopes.LogProbs[i] += float64(w) * slope
	}
	return weighted, plain, tokens
}

// evalValue evaluates the value loss.
func (o *Objective) evalValue(e *Evaluation, b *Batch, values []float32) error {
	v := loss.Value{Clip: o.ValueClip}
	if o.ValueClip == 0 {
		v.Clip = math.Inf(1)
	}
	e.Slopes.Values = make([]float64, len(values))
	for i, w := range b.ValueWeight {
		if w == 0 {
			continue
		}
		old := 0.0
		if o.ValueClip > 0 {
			if old = float64(b.OldValues[i]); !floats.Finite(old) { // the clip would ignore NaN
				return fmt.Errorf("OldValues: token %d: %v: %w", i, old, loss.ErrNotFinite)
			}
		}
		l, slope, clipped := v.Of(float64(values[i]), old, float64(b.Returns[i]))
		e.Slopes.Values[i] = o.ValueCoef * float64(w) * slope
		e.Value, e.valueWeight = e.Value+float64(w)*l, e.valueWeight+float64(w)
		if clipped {
			e.valueClip += float64(w)
		}
	}
	return nil
}

// Report sets the statistics of a step that the evaluation has.
func (e *Evaluation) Report(s *Stats) {
	s = cmp.Or(s, new(Stats))
	if e.Slopes.LogProbs != nil {
		s.PolicyLoss, s.KL, s.ApproxKL = e.Loss, e.KL, share(e.ApproxKL, e.weight)
		if s.HasEntropy = e.hasEntropy; e.hasEntropy {
			s.Entropy = share(e.Entropy, e.aux)
		}
	}
	if e.Slopes.Values != nil {
		s.ValueLoss, s.ValueClip = e.Value, share(e.valueClip, e.valueWeight)
	}
	if m := e.Metrics; m.Tokens > 0 {
		s.ClipFrac, s.ClipFracLow, s.RatioMax = m.ClipFraction, m.ClipFractionLower, m.RatioMax
		s.Metrics = maps.Collect(m.All())
	}
	if e.echoed > 0 {
		if s.Metrics == nil {
			s.Metrics = map[string]float64{}
		}
		s.Metrics["actor/echo_loss"], s.Metrics["actor/echo_nll"] = e.Echo, e.surprise/e.echoed
	}
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
