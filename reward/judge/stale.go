package judge

import "vagen/reward"

// lead returns by how much a statement fits the present truth better than the truth of one
// turn earlier, as a share of what the present truth itself does:
//
//	(now − then) / most, within [0, 1]
//
// now and then are the statement's scores against the two truths, and most is the
// difference of the present truth's own. The present truth has 1, and a copy of the earlier
// one has 0. If nothing changed, most is 0, and so is every lead: what was true already shows
// no knowledge of the present.
func lead(now, then, most float64) float64 {
	if !(most > 0) {
		return 0
	}
	return min(1, max(0, (now-then)/most))
}

// above returns the part of a reading's score that is above Base and, if Guarded is set, no
// more than the statement's lead.
func (p *Scoring) above(score float64, r *reward.Reading, s reward.Scorer) float64 {
	paid := reward.AboveBase(score, p.Base)
	if c := &r.Claim; p.Guarded && c.HasEarlier() {
		most := s.Compare(c.Truth, c.Truth) - s.Compare(c.Truth, c.Earlier)
		paid = min(paid, lead(s.Compare(r.Relations, c.Truth), s.Compare(r.Relations, c.Earlier), most))
	}
	return paid
}

// aboveNumbers is above for a claim about a state without directions; text is what it states.
func (p *Scoring) aboveNumbers(text string, c *reward.Claim) float64 {
	now := compareNumbers(text, c.State)
	paid := reward.AboveBase(now, p.Base)
	if p.Guarded && c.HasEarlier() {
		paid = min(paid, lead(now, compareNumbers(text, c.EarlierState), 1-compareNumbers(c.State, c.EarlierState)))
	}
	return paid
}
