package loss

import (
	"cmp"
	"slices"
)

// M2PO is [PPO] without the tokens whose log-probs at sampling and before the update differ most. With
// v = (sampled − old log-prob)², the k tokens of the batch with the largest v are dropped, k being the smallest number
// for which the mean of v over the others is below Threshold; at least one token is left. The others' losses are
// multiplied by the share that is left, inverted, so that token-mean is the mean over them. Without Batch.Sampled
// nothing is dropped.
//
// arXiv:2510.01161, as in AReaL, where the old log-probs are called prox_logp.
type M2PO struct {
	PPO
	Threshold float64 // not negative; the paper's recipe has 0.04
}

// Local reports that tokens depend on each other: see [Local].
func (M2PO) Local() bool { return false }

// Sampled reports that log-probs at sampling are read: see [Sampled].
func (M2PO) Sampled() bool { return true }

// Terms implements [Policy].
func (p M2PO) Terms(t *Terms, b *Batch[float64]) error {
	if err := ready(t, b, notNegative("m2po", bound{"Threshold", p.Threshold})); err != nil {
		return err
	}
	all := countTrue(b.Mask)
	left := p.choose(t, b)
	rest := *b
	rest.Mask = t.kept
	if err := p.PPO.Terms(t, &rest); err != nil {
		return err
	}
	for i := range t.Loss {
		t.times(i, float64(all)/float64(left))
	}
	t.Clipped += all - left
	return nil
}

// choose sets t.kept to the tokens that are left, and returns their number.
func (p M2PO) choose(t *Terms, b *Batch[float64]) int {
	t.kept, t.order, t.score = append(t.kept[:0], b.Mask...), t.order[:0], zeros(t.score, len(b.Mask))
	sum := 0.0
	for i, m := range b.Mask {
		if m && b.Sampled != nil {
			d := b.Sampled[i] - b.OldLogProb[i]
			t.score[i] = d * d
			t.order = append(t.order, i)
		}
	}
	// Sums from the smallest upwards lose no small numbers next to large ones.
	slices.SortStableFunc(t.order, func(i, j int) int { return cmp.Compare(t.score[i], t.score[j]) })
	left := min(1, len(t.order))
	for n, i := range t.order {
		if sum += t.score[i]; sum/float64(n+1) < p.Threshold {
			left = n + 1
		}
	}
	for _, i := range t.order[left:] {
		t.kept[i] = false
	}
	return countTrue(t.kept)
}

// OffPolicyMask drops the tokens with negative advantage of rows that the policy has moved away from: a row's drift is
// the mean over its counted tokens of the log-prob before minus that now, and its tokens with A < 0 have no loss if
// the drift exceeds Delta. They still count in averages. Before is OldLogProb, or with FromSampling Batch.Sampled if
// that is given.
//
// DeepSeek-V3.2, arXiv:2512.02556; off_policy_mask_threshold of TRL (from sampling), opsm_delta of slime.
type OffPolicyMask struct {
	Policy       Policy  // the loss of the tokens that are left
	Delta        float64 // not negative, nats
	FromSampling bool
}

// Sampled reports whether log-probs at sampling are read: see [Sampled].
func (p OffPolicyMask) Sampled() bool { return p.FromSampling || Sampled(p.Policy) }

// Terms implements [Policy].
func (p OffPolicyMask) Terms(t *Terms, b *Batch[float64]) error {
	if p.Policy == nil {
		return setting("off-policy mask: Policy is nil, must be set")
	}
	if err := ready(t, b, notNegative("off-policy mask", bound{"Delta", p.Delta})); err != nil {
		return err
	}
	if err := t.add(p.Policy, b); err != nil {
		return err
	}
	before := b.before(p.FromSampling)
	for r := range b.Rows() {
		lo, hi := b.Offsets[r], b.Offsets[r+1]
		drift := 0.0
		for i := lo; i < hi; i++ {
			if b.Mask[i] {
				drift += before[i] - b.LogProb[i]
			}
		}
		if !(drift/float64(countTrue(b.Mask[lo:hi])) > p.Delta) { // a row without counted tokens has NaN
			continue
		}
		for i := lo; i < hi; i++ {
			if b.Mask[i] && b.Advantage[i] < 0 {
				if t.Slope[i] != 0 {
					t.Clipped++
				}
				t.Loss[i], t.Slope[i] = 0, 0
				clear(t.chosenOf(i))
			}
		}
	}
	return nil
}

// masked returns the loss in the mask that the options ask for.
func (o Options) masked(p Policy) (Policy, error) {
	delta := o.OPSMDelta
	if o.MaskThreshold != nil {
		if delta != nil {
			return nil, setting("off_policy_mask_threshold is %v and opsm_delta %v, want one of them", *o.MaskThreshold, *delta)
		}
		delta = o.MaskThreshold
	}
	if delta == nil {
		return p, nil
	}
	if Teacher(p) {
		return nil, setting("an off-policy mask reads advantages, but this loss learns from a teacher")
	}
	if l, ok := p.(LUSPO); ok && l.KL != NoKL {
		return nil, setting("an off-policy mask would drop the KL inside luspo, too: set use_bias_correction_kl to false")
	}
	return checked(OffPolicyMask{Policy: p, Delta: *delta, FromSampling: o.MaskThreshold != nil})
}
