package loss

// Taught adds a teacher's loss to one that reads advantages: ℓ is that of Policy plus Coef times that of Distill, both
// averaged as Policy is. Clip fractions are those of Policy.
//
// verl's distillation_loss with use_task_rewards.
type Taught struct {
	Policy  Policy
	Distill Policy  // a Distill
	Coef    float64 // not negative
}

// Local reports whether tokens are independent: see [Local].
func (p Taught) Local() bool { return Local(p.Policy) && Local(p.Distill) }

// Sampled reports whether log-probs at sampling are read: see [Sampled].
func (p Taught) Sampled() bool { return Sampled(p.Policy) || Sampled(p.Distill) }

// Compares implements what [ChoiceOf] asks for.
func (p Taught) Compares() Choice { return ChoiceOf(p.Distill) }

// Teacher reports that p learns from a teacher: see [Teacher].
func (Taught) Teacher() bool { return true }

// Terms implements [Policy].
func (p Taught) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, p.check()); err != nil {
		return err
	}
	if t.beside == nil {
		t.beside = new(Terms)
	}
	if err := t.evaluate(p.Policy, b); err != nil {
		return err
	}
	if err := t.beside.evaluate(p.Distill, b); err != nil {
		return err
	}
	t.Weighted = true
	t.own.Teacher = t.beside.own.Teacher
	for i, m := range b.Mask {
		if m {
			t.beside.times(i, p.Coef)
			t.Loss[i] += t.beside.Loss[i]
			t.Slope[i] += t.beside.Slope[i]
		}
	}
	t.Chosen = append(t.Chosen, t.beside.Chosen...)
	return nil
}

func (p Taught) check() error {
	if p.Policy == nil || !Teacher(p.Distill) {
		return setting("a loss with a teacher: Policy and Distill are %T and %T, want a loss and a Distill",
			p.Policy, p.Distill)
	}
	if Teacher(p.Policy) {
		return setting("a loss with a teacher: Policy is %T, which has a teacher itself, want one that reads advantages",
			p.Policy)
	}
	return notNegative("a loss with a teacher", bound{"Coef", p.Coef})
}

// taught returns a loss with the teacher that the options ask for.
func (o Options) taught(p Policy) (Policy, error) {
	if o.DistillCoef == 0 {
		return p, nil
	}
	if Teacher(p) {
		return nil, setting("distillation_loss_coef is %v, but this loss learns from a teacher alone, want 0", o.DistillCoef)
	}
	d, err := checked(o.distillation())
	if err != nil {
		return nil, err
	}
	return checked(Taught{Policy: p, Distill: d, Coef: o.DistillCoef})
}
