package prose

import "vagen/reward/judge/internal/words"

// titled notes the subject of a line such as "goal:", for the items of the list after it.
func (r *reader) titled(i, end int) {
	if len(r.subject) != 1 || len(r.mentions) > 0 || r.listing != "" || r.muted {
		return
	}
	if r.tokens[end-1].Class != words.Comma {
		for _, t := range r.tokens[i:end] {
			if t.Class != words.Filler && t.Class != words.Object && t.Class != words.Number {
				return
			}
		}
	}
	r.heading = r.subject[0]
}

// underHeading makes the object of the line before the list the subject of an item that names
// none.
func (r *reader) underHeading(i, end int) {
	for k := i; k < end; k++ {
		switch t := &r.tokens[k]; t.Class {
		case words.Object:
			r.heading = noReference
			return
		case words.Player:
			if k == i || r.tokens[k+1].Class == words.Verb {
				r.heading = noReference
				return
			}
		}
	}
	r.subject = append(r.subject, r.heading)
}

// item starts the next object of a list such as "holes: above me, left of me".
func (r *reader) item() {
	r.uniques++
	r.begin([]int{r.entity(r.listing, -r.uniques, 1)}, false)
}

// implySubject gives directions without a subject to the object that the question before
// asked for, or to the next item of a list.
func (r *reader) implySubject(i, end int) {
	if len(r.subject) > 0 || len(r.mentions) == 0 {
		return
	}
	if r.listing != "" {
		kept := append([]mention(nil), r.mentions...)
		r.mentions = r.mentions[:0]
		r.item()
		r.mentions = append(r.mentions, kept...)
		return
	}
	if !r.asked && !r.corrects || len(r.recent) == 0 || r.inside {
		return
	}
	for _, t := range r.tokens[i:end] {
		if t.Class == words.Foreign || t.Class == words.Acting || t.Class == words.Address {
			return
		}
	}
	r.subject = append(r.subject[:0], r.recent...)
}

// fresh reports whether the noun at i stands without an article after the colon of "above
// me: hole", where it means a hole.
func (r *reader) fresh(i int) bool {
	return i > 1 && r.tokens[i-1].Class == words.Comma && r.tokens[i-1].Text == ":" && len(r.mentions) > 0 && (len(r.subject) == 0 || r.mentions[len(r.mentions)-1].part == r.part-1)
}

// entry reports whether the noun at i names a row of a table or, where the state has several of
// its kind, an item of a list such as "- hole: left".
func (r *reader) entry(i, next, end int) bool {
	if i > 0 && r.tokens[i-1].Class == words.Comma && r.tokens[i-1].Text == "|" {
		return i == 1 || r.tokens[i-2].Class == words.Stop
	}
	return (i == 0 || r.tokens[i-1].Class == words.Stop && r.tokens[i-1].Text == "\n") && next < end && r.tokens[next].Class == words.Comma && r.tokens[next].Text == ":" && r.inState(r.tokens[i].Kind) > 1
}
