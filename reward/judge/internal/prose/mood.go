package prose

import "vagen/reward/judge/internal/words"

// assertsNothing finds the words by which a whole sentence asserts nothing: it is for
// the judge, a condition, or says that something is not known or not true.
func (r *reader) assertsNothing(i, end int) bool {
	for k := i; k < end; k++ {
		switch r.tokens[k].Class {
		case words.Address:
			if r.tokens[k].A == words.PointWord && k+1 < end && r.tokens[k+1].Class == words.Direction {
				continue // an arrow points up
			}
			return true
		case words.Ignorance:
			before := k - 1
			for before > i && r.tokens[before].Class == words.Filler {
				before--
			}
			if k > i && (r.tokens[before].Class == words.No || r.tokens[before].Class == words.Without) {
				continue // without any doubt
			}
			if r.planned(k, end) || r.looking(k, end) {
				continue
			}
			if r.tokens[k].A == words.ClaimWord || r.unknown(k, i, end) {
				return true
			}
		case words.Filler:
			if k == i && r.tokens[k].B == words.WhenWord && r.moved(k, end) {
				continue
			}
			if k == i && (r.tokens[k].B == words.ShouldWord || r.tokens[k].B == words.WhenWord) {
				return true
			}
			r.respective = r.respective || r.tokens[k].B == words.RespectWord
		case words.Either:
			if r.choice(k, i, end) {
				return true
			}
		case words.Denial:
			if c := r.tokens[k+1].Class; c == words.Unit || c == words.Acting {
				continue // one false step
			}
			r.denied = true
		case words.Foreign:
			if n := &r.tokens[k+1]; n.Class == words.Filler && n.B == words.ThatWord && r.tokens[k].Text == "said" && k > i && r.tokens[k-1].Class == words.Verb {
				return true // it is said that
			}
			if n := &r.tokens[k+1]; k == i && n.Class == words.Filler && (r.tokens[k].Text == "let" || r.tokens[k].Text == "given" && n.A == words.Indefinite) {
				return true // let the goal be above me, given a goal above me
			}
		case words.Void:
			for _, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.Class == words.Sureness || t.Class == words.Seeing || t.Class == words.Filler && t.B == words.ThatWord {
					return true // nobody would say, nothing suggests that
				}
			}
		case words.Sureness:
			if k > i && r.tokens[k].A == words.Truth && r.tokens[k-1].Class == words.Placing { // in case
				return true
			}
			if r.tokens[k].A == words.SayWord && (k == i || k > i+1 && r.tokens[k-1].Class == words.Possessive && r.tokens[k-2].Text == "let") {
				return true // say the goal is …, let's say
			}
			if k > i && r.tokens[k].A == words.SayWord && r.othersSay(k, i) {
				return true // they say
			}
			if k > i && r.tokens[k-1].Text == "make" {
				return true // make sure that
			}
			if n := &r.tokens[k+1]; r.tokens[k].A == words.PossibleWord && (n.Class == words.Cell || n.Class == words.Filler && n.B == words.ThatWord) {
				return true // possible that, possible positions
			}
		case words.Hard:
			if n := &r.tokens[k+1]; n.Class == words.Filler && n.B == words.ThatWord {
				return true // impossible that
			}
			for _, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.Class == words.Sureness || t.Class == words.Seeing || t.Class == words.Address {
					if r.concedes(k, i, end) || r.hardBut(k, i, end) {
						break
					}
					return true
				}
			}
		case words.Not, words.No:
			for n, t := range r.tokens[k+1 : min(k+4, end)] {
				if t.Class == words.Seeing && r.tokens[k+2+n].Class == words.Direction {
					break // do not look right
				}
				if t.Class == words.Comma || t.Class == words.Direction || t.Class == words.But || t.Class == words.Object {
					break
				}
				if t.Class == words.Sureness && t.A == words.Truth {
					r.denied = true
					break
				}
				if (t.Class == words.Sureness || t.Class == words.Seeing) && n < 3 {
					if r.unknown(k+1+n, i, end) {
						return true
					}
					break
				}
			}
		}
	}
	return false
}

// moved hushes "when I have moved" at k, which dates a prediction and is no condition, up to its
// comma, and reports whether it does.
func (r *reader) moved(k, end int) bool {
	if k+3 >= end || r.tokens[k+1].Class != words.Player || r.tokens[k+2].Text != "have" || r.tokens[k+3].Class != words.Acting {
		return false
	}
	for j := k + 4; j < end; j++ {
		if r.tokens[j].Class == words.Comma {
			r.hush(k, j)
			return true
		}
	}
	return false
}

// planned hushes "I want to reach the goal" at k, up to a relative clause about one of its
// objects, and reports whether there is one.
func (r *reader) planned(k, end int) bool {
	if r.tokens[k].A != words.WantWord || r.tokens[k+1].Class != words.Toward {
		return false
	}
	switch r.tokens[k+2].Class {
	case words.Foreign, words.Acting, words.Beside:
	default:
		return false
	}
	for j := k + 3; j < end; j++ {
		if r.tokens[j].Class == words.Object && r.relativeClause(j+1, end) > 0 {
			r.hush(k, j)
			return true
		}
	}
	return false
}

// relativeClause returns the index of the verb of "which is" or "that lies" at i, and 0 without one.
func (r *reader) relativeClause(i, end int) int {
	if i < end && r.tokens[i].Class == words.Comma {
		i++
	}
	if i+1 < end && r.tokens[i].Class == words.Filler && (r.tokens[i].B == words.WhichWord || r.tokens[i].B == words.ThatWord) && r.tokens[i+1].Class == words.Verb {
		return i + 1
	}
	return 0
}

// looking hushes "if I look to the right" and "if you ask me" at k, which is a way to look and no condition, up to
// its comma, and reports whether it is one.
func (r *reader) looking(k, end int) bool {
	if r.tokens[k].A != words.IfWord || r.tokens[k+1].Class != words.Player {
		return false
	}
	if t := &r.tokens[k+2]; t.Text != "look" && t.Text != "draw" && t.Text != "ask" {
		return false
	}
	for j := k + 3; j < end; j++ {
		if r.tokens[j].Class == words.Comma {
			r.hush(k, j)
			return true
		}
	}
	return false
}

// choice hushes "either the goal is above me or it is left of me" from k on, up to "but". It
// reports whether that is the whole sentence.
func (r *reader) choice(k, i, end int) bool {
	if k > i {
		switch r.tokens[k-1].Class {
		case words.Comma, words.And, words.But, words.Filler:
		default:
			return false
		}
	}
	switch r.tokens[r.skip(k+1, end)].Class {
	case words.Object, words.Pronoun, words.Player, words.Number, words.Other:
	default:
		return false
	}
	joined := false
	for j := k + 1; j < end; j++ {
		switch r.tokens[j].Class {
		case words.Or:
			joined = true
		case words.But:
			if joined {
				r.hush(k, j)
				return false
			}
		}
	}
	if joined && k == i {
		return true
	}
	if joined {
		r.hush(k, end)
	}
	return false
}

// othersSay reports whether "say" at k has a subject other than the player.
func (r *reader) othersSay(k, i int) bool {
	if c := r.tokens[k-1].Class; c == words.Pronoun || c == words.Other {
		return true
	}
	for _, t := range r.tokens[i:k] {
		if t.Class == words.Player {
			return false
		}
	}
	return r.tokens[k-1].Class == words.Foreign
}

// hardBut hushes "it is hard to see, but …" up to "but", where it names no object. It reports
// whether there is such a part with k in it.
func (r *reader) hardBut(k, i, end int) bool {
	for j := k; j < end; j++ {
		switch r.tokens[j].Class {
		case words.But:
			r.hush(i, j)
			return r.firstObject(j, end) != ""
		case words.Object, words.Direction:
			return false
		}
	}
	return false
}

// concedes hushes a part that starts the sentence with "although" or the like, up to its comma. It reports
// whether there is such a part with k in it.
func (r *reader) concedes(k, i, end int) bool {
	first, second := &r.tokens[i], &r.tokens[i+1]
	switch {
	case first.Class == words.But && first.A == words.AlthoughWord:
	case first.Class == words.Filler && first.B == words.EvenWord && second.Class == words.Ignorance: // even if
	case first.Class == words.Ignorance && first.A == words.ConcedeWord && k == i:
	case first.Class == words.Ignorance && second.Class == words.Or && r.tokens[min(i+2, end)].Class == words.Not: // whether or not
	default:
		return false
	}
	for j := k; j < end; j++ {
		if r.tokens[j].Class == words.Comma {
			r.hush(i, j)
			return true
		}
	}
	return false
}

// doubts marks the clause, or the next one where the doubt stands before its subject.
func (r *reader) doubts(i, end int) {
	if r.tokens[i].A == words.CouldWord && r.tokens[min(i+1, end)].Class == words.Seeing {
		return // "I could see that …" states it
	}
	if n := i + 2; r.tokens[i].Text == "may" && n < len(r.tokens) && r.tokens[i+1].Class == words.Verb && (r.tokens[n].Text == "found" || r.tokens[n].Text == "seen") {
		return // "a hole may be found above me"
	}
	for k := i - 1; k >= max(0, i-5) && len(r.subject) == 0; k-- {
		if r.tokens[k].Text == "contrary" {
			return // contrary to what I assumed
		}
	}
	if i > 0 && r.tokens[i-1].Class == words.Number && r.tokens[min(i+1, end)].Class == words.Seeing {
		return // contrary to what one may think
	}
	if len(r.subject) == 0 {
		r.nextDoubtful = true
		return
	}
	if before := r.tokens[max(i-1, 0)].Class; before == words.Comma || before == words.And || before == words.But {
		r.doubtAt, r.wasDoubtful = len(r.mentions), r.doubtful
	}
	r.doubtful = true
}

// alike reads "likewise" and "so is the hole": the next subject, or else this one, is where
// the last object is.
func (r *reader) alike(i, end int) int {
	k := i + 1
	if k < end && (r.tokens[k].Class == words.Verb || r.tokens[k].Text == "does") {
		k++
	}
	if ids, next := r.phrase(k, end); ids != nil {
		r.begin(ids, false)
		r.likewise, r.so = true, true
		return next
	}
	r.likewise = true
	return i + 1
}
