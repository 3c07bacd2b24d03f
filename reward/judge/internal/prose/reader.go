// Package prose reads the relations between the player and objects that English sentences
// state. Package judge describes what a sentence asserts.
package prose

import (
	"slices"
	"sync"

	"vagen/reward"
	"vagen/reward/judge/internal/plain"
	"vagen/reward/judge/internal/words"
)

// reference of a direction: an index of an entity or one of these.
const (
	noReference      = -1
	thePlayer        = -2
	otherwiseLocated = -3 // something that is neither the player nor an object
)

// mention is a direction within a clause.
type mention struct {
	v, h    uint8
	exact   bool // the other direction is the same, unless the clause states it
	ref     int
	negated bool
	offered bool // one of several that "or" joins
	part    int  // number of the part of the sentence, as comma and "and" separate them
	group   int  // number of the object that "respectively" gives it to
}

// reader reads the relations between the player and objects from sentences. It
// follows a sentence from left to right: a noun phrase that no direction refers to is
// the subject of the directions after it.
type reader struct {
	tokens   []words.Token
	entities []entity
	uniques  int               // labels given to objects such as "another hole"
	truth    []reward.Relation // the objects of the state
	seen     []uint64          // signatures of the sentences read

	// Of the text so far.
	plural    string // kind of the last "two holes", of which "one" is part
	listed    []int  // the entities of the last list, for former, latter, first and second
	recent    []int  // the entities that a pronoun stands for
	playerAt  [2]int
	last      int      // the last object that something was stated of; -1 for none
	nouns     []int    // the entities of the last noun phrase
	nounEnd   int      // the token after it
	lately    [2]int   // the last two objects named, from 1; 0 without
	heading   int      // the object, or thePlayer, of a line such as "goal:" before a list; noReference without
	listing   string   // kind of a line such as "holes:", of which each item of the list after it is one
	asked     bool     // the last sentence was a question
	wasPast   bool     // the last sentence was about an earlier state
	history   bool     // so are the next ones
	saved     []entity // before the last sentence
	savedAt   [2]int
	corrected bool      // corrects before "no wait" in the clause
	corrects  bool      // what is said replaces what was said
	spokenOf  int       // the subject at the end of the last sentence: thePlayer or an object
	open      []mention // of a question such as "what is above me?", for its answer
	located   [2]int    // rows and columns read, where "respectively" shares them
	stated    bool      // the sentence stated something
	turn      int       // number of the sentence

	// Of the sentence.
	muted                               bool
	hushed                              []span  // parts that state nothing
	inside                              bool    // of one of them
	notOnly                             bool    // it says "not only"
	scope                               mention // of "in my row, …", which later clauses share; zero without
	respective                          bool    // it says "respectively"
	denied                              bool    // what follows is said not to be true
	base                                int     // reference of directions without their own
	part                                int
	joint                               int     // part that the last comma with "and" after it starts; 0 without
	owner                               int     // whose left or right is next, as in "the box's left"; noReference without
	fromTo                              bool    // it says "from … to …"
	observer                            bool    // the player sees what it says
	verbAt                              int     // the last verb; 0 without
	ahead                               int     // number of directions before the subject
	path                                mention // of "going left, the box is …", which later objects share; zero without
	fronted                             bool    // its subjects follow their directions
	doubtful, wasDoubtful, nextDoubtful bool
	doubtAt                             int // len(mentions) when the doubt was read, after a comma or "and"; -1 otherwise

	// Of the clause.
	subject  []int // thePlayer alone, or entities
	mentions []mention
	negated  bool
	offer    bool // the next direction is joined to the last by "or"
	precise  bool
	placed   bool  // a verb followed the subject
	measured bool  // a distance was read
	axis     uint8 // of "the player's row is"; 0 without
	numbered uint8 // axis of the line whose number is compared; 0 for none
	possess  bool  // the next directions refer to the player
	together bool  // the player is part of the subject
	steps    bool  // the directions of motions lead to the subject
	silent   bool  // the clause asserts nothing: "there is no hole …"
	so       bool  // the subject follows "so is"
	likewise bool  // the same holds as for the last object
	parent   int   // the objects that "one" after them is of; noReference without
	single   bool  // plural is of "a hole", not of several
	divided  bool  // each direction has an object of its own
	amended  int   // len(mentions) when "no wait" was read; 0 without
}

// readers are kept for their memory.
var readers = sync.Pool{New: func() any { return new(reader) }}

// Read returns the relations that a text states in words about objects with
// these names. truth is used for the number of objects in phrases such as "all holes".
func Read(text string, names words.Names, truth []reward.Relation) []reward.Relation {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.reset(truth)
	r.tokens = words.Tokenize(r.tokens[:0], words.Rephrase(plain.Text(text)), names)
	for i := 0; i < len(r.tokens); {
		end := i
		for end-i < maxSentence && r.tokens[end].Class != words.Stop && r.tokens[end].Class != words.Question {
			end++
		}
		if first := &r.tokens[i]; first.Class == words.Or || first.Class == words.Ignorance && first.A == words.InsteadWord {
			r.retract() // the last sentence was one of several possibilities
		}
		if !r.asked && r.refuses(i, end) {
			r.corrects = true
		}
		if end > i && r.retracts(i, end) {
			r.retract()
			r.corrects = true
		} else if end > i && r.speaksOfObjects(i, end) && (r.unseen(r.inContext(i, end)) || r.heading != noReference || r.listing != "") {
			r.sentence(i, end)
			if r.tokens[end].Text == "\n" && !r.stated {
				r.titled(i, end)
			}
		}
		r.asked = r.tokens[end].Class == words.Question
		if r.tokens[end].Text == "\n" {
			r.history = false
		} else {
			r.listing, r.heading = "", noReference
		}
		if i = end; r.tokens[i].Class == words.Stop || r.tokens[i].Class == words.Question {
			i++
		}
	}
	list := r.relations()
	r.truth = nil
	return list
}

// reset forgets the text before, but keeps the memory.
func (r *reader) reset(truth []reward.Relation) {
	*r = reader{last: -1, heading: noReference, parent: noReference, spokenOf: noReference, truth: truth, tokens: r.tokens, entities: r.entities[:0], seen: r.seen[:0], listed: r.listed[:0], recent: r.recent[:0],
		subject: r.subject[:0], mentions: r.mentions[:0], hushed: r.hushed[:0], open: r.open[:0], saved: r.saved[:0], nouns: r.nouns[:0]}
}

// maxSentence limits the words of a sentence, which bounds the work of looking ahead. A
// longer one is read in pieces.
const maxSentence = 300

// maxSeen limits the sentences that are remembered, to find repeated ones.
const maxSeen = 256

// unseen reports whether a sentence is new.
func (r *reader) unseen(signature uint64) bool {
	if slices.Contains(r.seen, signature) {
		return false
	}
	if len(r.seen) < maxSeen {
		r.seen = append(r.seen, signature)
	}
	return true
}

// speaksOfObjects reports whether a sentence can state something.
func (r *reader) speaksOfObjects(i, end int) bool {
	for _, t := range r.tokens[i:end] {
		switch t.Class {
		case words.Direction:
			if r.asked || r.heading != noReference || r.listing != "" || r.tokens[i].Class == words.No {
				return true // an answer, or an item of a list
			}
		case words.Line, words.Toward, words.Placing, words.Same, words.Precise:
			if r.heading != noReference || r.listing != "" {
				return true
			}
		case words.Object, words.Pronoun, words.Correcting, words.Alternative, words.Ordinal, words.Player, words.Other, words.Number:
			return true
		}
	}
	return false
}

// refuses reports whether a sentence is "no", "hmm, no" or "let me correct myself".
func (r *reader) refuses(i, end int) bool {
	if end == i || end > i+5 {
		return false
	}
	for k := i; k < end; k++ {
		switch t := &r.tokens[k]; t.Class {
		case words.Foreign, words.Filler, words.Comma, words.Player:
			if t.Text == "correct" && k+1 < end && r.tokens[k+1].Class == words.Player && r.tokens[k+1].A == words.Reflexive {
				return true
			}
		case words.No:
			return k == end-1
		default:
			return false
		}
	}
	return false
}

// inContext identifies a sentence; one without an object by the object spoken of, too.
func (r *reader) inContext(i, end int) uint64 {
	h := signature(r.tokens[i:end])
	if len(r.recent) > 0 && r.firstObject(i, end) == "" {
		h = (h ^ uint64(r.recent[0]+1)) * 1099511628211
	}
	return h
}

// signature identifies a sentence by what follows "I repeat:" and the like.
func signature(tokens []words.Token) uint64 {
	h := uint64(14695981039346656037)
	mix := func(x uint64) { h = (h ^ x) * 1099511628211 }
	named := false
	for _, t := range tokens {
		named = named || t.Class == words.Object || t.Class == words.Player
		if t.Class == words.Comma && t.Text == ":" && !named {
			h = 14695981039346656037
			continue
		}
		mix(uint64(t.Class)<<32 | uint64(t.A)<<16 | uint64(t.B)<<8 | uint64(uint8(t.N)))
		for _, s := range [2]string{t.Kind, t.Text} {
			for k := 0; k < len(s); k++ {
				mix(uint64(s[k]))
			}
		}
	}
	return h
}

// sentence reads the tokens from i to end.
func (r *reader) sentence(i, end int) {
	i0 := i
	if r.listing != "" && r.firstObject(i, end) != "" {
		r.listing = ""
	}
	r.muted, r.base, r.part, r.fronted, r.fromTo, r.observer = r.tokens[end].Class == words.Question && !r.tagged(i, end), noReference, 0, false, false, false
	r.doubtful, r.nextDoubtful, r.doubtAt, r.denied = false, false, -1, false
	r.joint, r.owner, r.path, r.steps, r.verbAt = 0, noReference, mention{}, false, 0
	r.subject, r.mentions = r.subject[:0], r.mentions[:0]
	if r.heading != noReference {
		r.underHeading(i, end)
	}
	r.hushed, r.inside, r.respective, r.notOnly = r.hushed[:0], false, false, false
	r.located, r.scope = [2]int{}, mention{}
	r.turn++
	r.clear()
	if now := r.now(i, end); now && r.wasPast {
		r.retract()
	} else if now {
		r.history = false
	}
	r.remember()
	r.muted = r.muted || r.assertsNothing(i, end)
	past := r.past(i, end) || r.history
	r.muted, r.stated = r.muted || past || r.tokens[i].Class == words.Or, false
	for i < end {
		if len(r.hushed) > 0 {
			r.quiet(i)
		}
		i = r.read(i, end)
	}
	r.implySubject(i0, end)
	r.answer(i0, end)
	r.flush()
	if r.stated {
		r.corrects = false
	}
	r.spokenOf, r.parent = noReference, noReference
	if len(r.subject) > 0 {
		r.spokenOf = r.subject[0]
	}
}

// tagged reports whether a sentence ends with ", isn't it?", which states what stands before.
func (r *reader) tagged(i, end int) bool {
	return end > i+4 && r.tokens[end-4].Class == words.Comma && r.tokens[end-3].Class == words.Verb && r.tokens[end-2].Class == words.Not && r.tokens[end-1].Class == words.Pronoun
}

// clear forgets what belongs to a clause, apart from its subject and directions.
func (r *reader) clear() {
	r.negated, r.offer, r.precise, r.placed, r.measured, r.possess, r.silent, r.together, r.likewise = false, false, false, false, false, false, false, false, false
	r.amended, r.numbered, r.divided, r.so, r.axis = 0, 0, false, false, 0
}
