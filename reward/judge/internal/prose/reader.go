// Package prose reads the relations between the player and objects that English sentences
// state. Package judge describes what a sentence asserts.
package prose

import (
	"slices"
	"sync"

	"vagen/reward"
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
	tokens   []token
	entities []entity
	uniques  int               // labels given to objects such as "another hole"
	truth    []reward.Relation // the objects of the state
	seen     []uint64          // signatures of the sentences read

	// Of the text so far.
	plural   string // kind of the last "two holes", of which "one" is part
	listed   []int  // the entities of the last list, for former, latter, first and second
	recent   []int  // the entities that a pronoun stands for
	playerAt [2]int
	last     int      // the last object that something was stated of; -1 for none
	nouns    []int    // the entities of the last noun phrase
	nounEnd  int      // the token after it
	listing  string   // kind of "holes:", of which each item of the list after it is one
	asked    bool     // the last sentence was a question
	wasPast  bool     // the last sentence was about an earlier state
	history  bool     // so are the next ones
	saved    []entity // before the last sentence
	savedAt  [2]int
	corrects bool      // what is said replaces what was said
	spokenOf int       // the subject at the end of the last sentence: thePlayer or an object
	open     []mention // of a question such as "what is above me?", for its answer
	located  [2]int    // rows and columns read, where "respectively" shares them
	stated   bool      // the sentence stated something
	turn     int       // number of the sentence

	// Of the sentence.
	muted                               bool
	hushed                              []span // parts that state nothing
	inside                              bool   // of one of them
	notOnly                             bool   // it says "not only"
	respective                          bool   // it says "respectively"
	denied                              bool   // what follows is said not to be true
	base                                int    // reference of directions without their own
	part                                int
	fromTo                              bool // it says "from … to …"
	observer                            bool // the player sees what it says
	ahead                               int  // number of directions before the subject
	fronted                             bool // its subjects follow their directions
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
	numbered uint8 // axis of the line whose number is compared; 0 for none
	possess  bool  // the next directions refer to the player
	together bool  // the player is part of the subject
	silent   bool  // the clause asserts nothing: "there is no hole …"
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
func Read(text string, names Names, truth []reward.Relation) []reward.Relation {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.reset(truth)
	r.tokens = tokenize(r.tokens[:0], plain(text), names)
	for i := 0; i < len(r.tokens); {
		end := i
		for end-i < maxSentence && r.tokens[end].class != stop && r.tokens[end].class != question {
			end++
		}
		if first := &r.tokens[i]; first.class == or || first.class == ignorance && first.a == insteadWord {
			r.retract() // the last sentence was one of several possibilities
		}
		if end == i+1 && r.tokens[i].class == no && !r.asked {
			r.corrects = true
		}
		if end > i && r.retracts(i, end) {
			r.retract()
			r.corrects = true
		} else if end > i && r.speaksOfObjects(i, end) && r.unseen(signature(r.tokens[i:end])) {
			r.sentence(i, end)
		}
		r.asked = r.tokens[end].class == question
		if r.tokens[end].text == "\n" {
			r.history = false
		} else {
			r.listing = ""
		}
		if i = end; r.tokens[i].class == stop || r.tokens[i].class == question {
			i++
		}
	}
	list := r.relations()
	r.truth = nil
	return list
}

// reset forgets the text before, but keeps the memory.
func (r *reader) reset(truth []reward.Relation) {
	*r = reader{last: -1, parent: noReference, spokenOf: noReference, truth: truth, tokens: r.tokens, entities: r.entities[:0], seen: r.seen[:0], listed: r.listed[:0], recent: r.recent[:0],
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
		switch t.class {
		case direction:
			if r.asked {
				return true // an answer
			}
		case object, pronoun, correcting, alternative, ordinal, player, other, number:
			return true
		}
	}
	return false
}

// signature identifies a sentence by what follows "I repeat:" and the like.
func signature(tokens []token) uint64 {
	h := uint64(14695981039346656037)
	mix := func(x uint64) { h = (h ^ x) * 1099511628211 }
	named := false
	for _, t := range tokens {
		named = named || t.class == object || t.class == player
		if t.class == comma && t.text == ":" && !named {
			h = 14695981039346656037
			continue
		}
		mix(uint64(t.class)<<32 | uint64(t.a)<<16 | uint64(t.b)<<8 | uint64(uint8(t.n)))
		for _, s := range [2]string{t.kind, t.text} {
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
	r.muted, r.base, r.part, r.fronted, r.fromTo, r.observer = r.tokens[end].class == question, noReference, 0, false, false, false
	r.doubtful, r.nextDoubtful, r.doubtAt, r.denied = false, false, -1, false
	r.subject, r.mentions = r.subject[:0], r.mentions[:0]
	r.hushed, r.inside, r.respective, r.notOnly = r.hushed[:0], false, false, false
	r.located = [2]int{}
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
	r.muted, r.stated = r.muted || past || r.tokens[i].class == or, false
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

// clear forgets what belongs to a clause, apart from its subject and directions.
func (r *reader) clear() {
	r.negated, r.offer, r.precise, r.placed, r.measured, r.possess, r.silent, r.together, r.likewise = false, false, false, false, false, false, false, false, false
	r.amended, r.numbered, r.divided = 0, 0, false
}
