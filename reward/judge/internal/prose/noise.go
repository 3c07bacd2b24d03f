package prose

import "vagen/reward/judge/internal/words"

// ofNoun makes a word that is not known the subject of the direction at i: "the wall above
// me".
func (r *reader) ofNoun(i int) {
	k := i - 1
	for k >= 0 && (r.tokens[k].Class == words.Foreign || r.tokens[k].Class == words.Part) {
		k--
	}
	if k < 0 || k == i-1 || r.tokens[k].Class != words.Filler || r.tokens[k].B != 0 || len(r.subject) > 0 || len(r.mentions) > 0 {
		return
	}
	r.begin([]int{r.entity("", 0, 1)}, false)
}

// ofLine reports whether the direction at i says which row or column is meant: "the row
// directly above mine".
func (r *reader) ofLine(i int) bool {
	for i--; i >= 0; i-- {
		switch r.tokens[i].Class {
		case words.Precise, words.Filler, words.Toward:
			continue
		case words.Direction:
			if r.tokens[i].A == 0 && r.tokens[i].B == words.After { // the row right below me
				continue
			}
		}
		return r.tokens[i].Class == words.Line && (i == 0 || r.tokens[i-1].Class != words.Same && r.tokens[i-1].Class != words.Number)
	}
	return false
}

// noise reports whether "left" or "right" at i is not a direction: "nothing left to eat".
func (r *reader) noise(i, end int) bool {
	t := &r.tokens[i]
	if t.A>>4 == words.OverWord && i+1 < end && (r.tokens[i+1].Class == words.Toward || r.tokens[i+1].Class == words.Placing || r.tokens[i+1].Class == words.Direction || r.tokens[i+1].Class == words.Filler && r.tokens[i+1].B == words.HereWord) {
		return true // over to the left
	}
	if t.A>>4 == words.EdgeWord {
		if i+1 < end && r.tokens[i+1].Text == "direction" || i > 0 && r.tokens[i-1].Class == words.Possessive && i+1 < end && r.tokens[i+1].Text == "side" {
			return false // in the top direction, on my top side
		}
		near := func(k int) bool {
			return k >= 0 && k < end && r.tokens[k].Class == words.Direction && r.tokens[k].B != 0
		}
		return !near(i-1) && !near(i+1) && !r.mySide(i, end)
	}
	if i > 0 && r.tokens[i-1].Class == words.Foreign && described[r.tokens[i-1].Text] && !r.referred(i+1, end) {
		return true // as described above
	}
	if t.A != 0 && t.B == 0 && i+1 < end && r.tokens[i+1].Class == words.Foreign && r.tokens[i+1].Text == "ahead" {
		return true // up ahead
	}
	if t.A != 0 && t.B == 0 && t.A>>4 == 0 && i > 0 && r.tokens[i-1].Class == words.Foreign && phrasal[r.tokens[i-1].Text] {
		return true // to sum up
	}
	if t.A != 0 || t.B == 0 {
		return t.A>>4 == 0 && i > 0 && i+1 < end && r.tokens[i+1].Class == words.Object && r.tokens[i-1].Class == words.Filler && r.tokens[i-1].B == 0
	}
	if t.B == words.After && i+1 < end {
		switch n := &r.tokens[i+1]; {
		case r.possess:
		case n.Class == words.Beside, n.Class == words.Filler && n.B == words.NowWord, n.Class == words.Filler && n.B == words.HereWord && r.tokens[i+2].Class != words.Verb, n.Class == words.Placing && i+2 < end && r.tokens[i+2].Class == words.Foreign, n.Class == words.Foreign && n.Text == "ahead":
			return true // right next to, right here
		}
	}
	if i+1 >= end {
		return i > 0 && r.tokens[i-1].Class == words.Object && r.follows(i)
	}
	if n := &r.tokens[i+1]; t.B == words.After && i > 0 && r.tokens[i-1].Class == words.Filler && (n.Class == words.Filler && n.B == words.TimeWord || n.Class == words.Acting || n.Class == words.Unit) {
		return true // the right time, the right move
	}
	switch n := &r.tokens[i+1]; n.Class {
	case words.Foreign:
		if i > 1 && r.tokens[i-1].Class == words.Filler && r.tokens[i-2].Class != words.Toward && r.tokens[i-2].Class != words.Placing || i == 1 && r.tokens[0].Class == words.Filler {
			return true // the left sock
		}
		return n.Text == "away" || t.B == words.After && n.Text == "answer"
	case words.Possessive:
		return i > 0 && r.tokens[i-1].Class == words.Player
	case words.Filler:
		return i > 0 && r.tokens[i-1].Class == words.Player && r.tokens[i-1].Text == "" && t.B == words.Before && n.A != words.Indefinite
	case words.Object:
		return t.A>>4 != words.TakesReference && i > 0 && r.tokens[i-1].Class == words.Filler && r.tokens[i-1].B == 0 // the upper hole
	case words.Toward:
		if i+2 >= end {
			return false
		}
		switch c := r.tokens[i+2].Class; c {
		case words.Verb, words.Foreign, words.Seeing, words.Acting, words.Address, words.Sureness:
			return true // two holes left to think about
		}
	}
	return false
}

// mySide reports whether "top" or "bottom" at i is a side of the player: "on the top side of
// me".
func (r *reader) mySide(i, end int) bool {
	if i == 0 {
		return false
	}
	k := i + 1
	if k < end && r.tokens[k].Text == "side" {
		if k++; k >= end || r.tokens[k].Class == words.Comma || r.tokens[k].Class == words.And {
			return len(r.mentions) > 0 && r.mentions[len(r.mentions)-1].ref < 0
		}
	} else if r.before(i) == words.Placing && r.tokens[i-1].Class != words.Filler {
		return false // on top of me
	}
	return k < end && r.tokens[k].Class == words.Linking && r.tokens[r.skip(k+1, end)].Class == words.Player
}

// described are words after which "above" and "below" mean a place in the text.
var described = map[string]bool{"described": true, "stated": true, "mentioned": true, "listed": true, "shown": true, "explained": true, "written": true, "noted": true,
	"given": true, "discussed": true, "defined": true, "specified": true, "said": true, "see": true}

// phrasal are verbs that "up" and "down" belong to.
var phrasal = map[string]bool{"sum": true, "summing": true, "wrap": true, "wrapping": true, "add": true, "adding": true, "set": true, "give": true, "giving": true, "calm": true, "slow": true,
	"write": true, "break": true, "breaking": true}
