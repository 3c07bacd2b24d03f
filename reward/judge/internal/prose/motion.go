package prose

import "vagen/reward/judge/internal/words"

// A motion says where an object is if it leads from the player to the object: "to reach the goal
// I have to go down". Other motions are plans, whose directions state nothing.

// leads reports whether the directions of the motion at i lead to the subject.
func (r *reader) leads(i int) bool {
	if r.steps || r.fromTo {
		return true
	}
	if len(r.subject) == 0 || r.subject[0] < 0 || i == 0 || r.tokens[i-1].Text != "by" {
		return false
	}
	for k := i - 2; k > max(0, i-30) && r.tokens[k].Class != words.Stop; k-- {
		if r.tokens[k].Text == "reached" {
			return true // the goal can be reached by going down
		}
	}
	return false
}

// course reads the directions of a motion from i on, and returns the index after them.
func (r *reader) course(i, end int) (m mention, next int) {
	m.ref = thePlayer
	for next = i; next < end; next++ {
		switch t := &r.tokens[next]; t.Class {
		case words.Filler, words.Number, words.Unit, words.Cell, words.Toward, words.Precise:
		case words.Direction:
			if t.A&0xf != 0 && m.v != 0 || t.B != 0 && m.h != 0 {
				return m, next
			}
			m.v, m.h = m.v|t.A&0xf, m.h|t.B
		case words.And:
			if j := r.skip(next+1, end); r.tokens[j].Class != words.Direction && (r.tokens[j].Class != words.Number || !r.leadsToPlace(j, end)) {
				return m, next
			}
		case words.Foreign:
			if t.Text != "twice" && t.Text != "times" {
				return m, next
			}
		default:
			return m, next
		}
	}
	return m, next
}

// travelled reads "going left from me, you meet the box": a motion before an object that it ends
// at. It returns the index after the object, or 0.
func (r *reader) travelled(i, end int) int {
	if len(r.subject) > 0 || len(r.mentions) > 0 || r.tokens[i].Class == words.Acting && r.tokens[i].B != words.GoingWord {
		return 0
	}
	m, k := r.course(i+1, end)
	if m.v|m.h == 0 {
		return 0
	}
	if ref, next := r.reference(k, end, false); ref == thePlayer {
		k = next
	} else if ref != noReference {
		return 0
	}
	comma, meets := false, false
	for ; k < end; k++ {
		switch t := &r.tokens[k]; t.Class {
		case words.Filler, words.Player, words.Number, words.Ordinal, words.Verb, words.Toward, words.Placing, words.Linking, words.Possessive:
			if t.Class == words.Filler || t.Class == words.Ordinal || t.Class == words.Number {
				if ids, next := r.phrase(k, end); ids != nil {
					return r.met(m, ids, next, end, comma, meets)
				}
			}
		case words.Comma:
			if comma {
				return 0
			}
			comma = true
		case words.Foreign:
			meets = meets || meeting[t.Text]
		case words.Seeing:
			meets = true
		case words.Beside:
			meets = t.A == words.ReachWord
		case words.Object:
			if ids, next := r.phrase(k, end); ids != nil {
				return r.met(m, ids, next, end, comma, meets)
			}
			return 0
		default:
			return 0
		}
	}
	return 0
}

// met gives the course m to the objects before next, if the clause states nothing else of them.
func (r *reader) met(m mention, ids []int, next, end int, comma, meets bool) int {
	if !meets && !(comma && next < end && r.tokens[next].Class == words.Verb) {
		return 0
	}
	far := meets
	for k := next; k < end; k++ {
		switch c := r.tokens[k].Class; c {
		case words.Comma, words.And, words.But, words.Stop:
			k = end
		case words.Direction, words.Same, words.Line, words.Level, words.Not, words.Acting, words.Possessive, words.Foreign:
			if c != words.Foreign || !far {
				return 0
			}
		case words.Unit, words.Cell:
			far = true
		}
	}
	if !far {
		return 0
	}
	r.mentions = append(r.mentions, m)
	r.begin(ids, true)
	r.path = m
	return next
}

// meeting are words for the end of a motion.
var meeting = map[string]bool{"hit": true, "meet": true, "encounter": true, "run": true, "bump": true, "come": true, "arrive": true, "get": true, "reaches": true, "meets": true, "brings": true, "leads": true, "lead": true, "lands": true}

// purpose reads "to reach the goal" and "to get to the goal" at i, with the directions of the motion
// for it in the same sentence. It returns the index after the object, or 0.
func (r *reader) purpose(i, end int) int {
	if len(r.mentions) > 0 || len(r.subject) > 0 {
		return 0
	}
	ids, next := r.destination(i, end)
	if ids == nil {
		return 0
	}
	must := false
	for k := next; k < end; k++ {
		switch t := &r.tokens[k]; t.Class {
		case words.Foreign:
			must = must || necessity[t.Text]
		case words.Seeing:
			must = must || (t.Text == "has" || t.Text == "have") && r.tokens[k+1].Class == words.Toward
		case words.Object, words.Doubt, words.Not, words.Ignorance, words.Or, words.Line, words.Same:
			return 0
		case words.Acting:
			if t.A == words.TakesObject {
				return 0
			}
			must = must || t.A == 0 && r.tokens[k-1].Class == words.Comma // to reach the goal, go down
		case words.Direction:
			if !must {
				return 0
			}
			r.begin(ids, false)
			r.steps = true
			return next
		}
	}
	return 0
}

// destination returns the objects of "to reach the goal" or "to get to the goal" at i; nil
// without.
func (r *reader) destination(i, end int) ([]int, int) {
	k := i + 1
	if k+1 >= end {
		return nil, i
	}
	switch t := &r.tokens[k]; {
	case t.Class == words.Beside && t.A == words.ReachWord:
	case t.Class == words.Foreign && (t.Text == "get" || t.Text == "arrive") && (r.tokens[k+1].Class == words.Toward || r.tokens[k+1].Class == words.Placing):
		k++
	default:
		return nil, i
	}
	ids, next := r.phrase(k+1, end)
	if ids == nil || r.tokens[next].Class == words.Possessive || r.tokens[next].Class == words.Object {
		return nil, i
	}
	return ids, next
}

// necessity are words that make a motion the way to an object, not a choice.
var necessity = map[string]bool{"need": true, "needs": true, "must": true, "takes": true, "take": true, "requires": true, "require": true, "necessary": true}

// required reads "go down twice to get to the goal", after a word of necessity. It returns the
// index after the object, or 0.
func (r *reader) required(i, end int) int {
	if r.tokens[i].A == words.TakesObject || len(r.mentions) > 0 || len(r.subject) > 0 && r.subject[0] >= 0 {
		return 0
	}
	must := false
	for k := i - 1; k >= max(0, i-4) && r.tokens[k].Class != words.Stop; k-- {
		t := &r.tokens[k]
		must = must || necessity[t.Text] || (t.Text == "have" || t.Text == "has") && r.tokens[k+1].Class == words.Toward
	}
	m, next := r.course(i+1, end)
	if !must || m.v|m.h == 0 {
		return 0
	}
	if r.tokens[next-1].Class == words.Toward {
		next--
	}
	ids, after := r.destination(next, end)
	if ids == nil || !r.closes(after, end) {
		return 0
	}
	r.begin(ids, false)
	r.state(m)
	return after
}
