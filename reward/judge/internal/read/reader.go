package read

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

// readSentences returns the relations that a text states in words about objects with
// these names. truth is used for the number of objects in phrases such as "all holes".
func readSentences(text string, names objectNames, truth []reward.Relation) []reward.Relation {
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

// read reads the token at i, with what belongs to it, and returns the next index.
func (r *reader) read(i, end int) int {
	t := &r.tokens[i]
	if r.tokens[i].class != direction && t.class != filler && t.class != toward && t.class != placing && t.class != linking && t.class != precise && t.class != number && t.class != unit {
		r.possess = r.possess && t.class == and
	}
	switch t.class {
	case stop, question:
	case foreign:
		return r.like(i, end)
	case comma:
		return r.comma(i, end)
	case and, but:
		return r.joined(i, end)
	case or:
		if n := &r.tokens[i+1]; n.class == without && n.a == ratherWord {
			return r.amend(i + 2) // or rather
		}
		if i+2 < end && r.tokens[i+1].class == filler && r.tokens[i+2].class == precise {
			return i + 3 // or more precisely
		}
		if r.tokens[i+1].class == several { // above me, left of me, or both
			for k := range r.mentions {
				r.mentions[k].offered = true
			}
		}
		r.offer = true
	case correcting:
		if t.a == 0 || t.a == meanWord && i > 0 && r.tokens[i-1].class == player {
			return r.amend(i + 1)
		}
	case not:
		if t.a == exceptWord {
			c := r.tokens[i+1].class
			r.negated = r.negated || c == direction || c == toward || c == placing
			break
		}
		if t.a == anyWord {
			if r.tokens[i+1].class == but { // anything but above me
				r.negated = true
				return i + 2
			}
			break
		}
		if i+1 < end && r.tokens[i+1].text == "" && r.tokens[i+1].class == filler && r.only(i+1) {
			r.notOnly = true
			return i + 2
		}
		if ids, next := r.phrase(i+1, end); ids != nil { // "there is not a hole …"
			if i > 0 && r.tokens[i-1].class == comma && len(r.subject) > 0 && r.subject[0] >= 0 && len(r.mentions) == 0 && next < end && r.tokens[next].class == comma {
				return next + 1 // the goal, not the hole, is …
			}
			r.begin(ids, false)
			r.silent = true
			return next
		}
		r.negated = true
	case without: // "rather than below me", and "rather" alone
		if j := r.skip(i+1, end); r.tokens[j].class == ignorance || r.tokens[j].class == doubt {
			return j + 1 // without any doubt
		}
		if next := r.tokens[i+1].class; t.text == "" && (next == linking || next == filler || next == direction || next == toward || next == placing) {
			r.negated = true
			return i + 2
		}
		r.negated = false
	case alike:
		if t.a != soWord || i+1 < end && r.tokens[i+1].class == verb {
			return r.alike(i, end)
		}
	case either:
		r.doubtful = r.doubtful || !r.negated && len(r.subject) > 0 && len(r.mentions) == 0
	case void:
		r.begin([]int{r.entity("", 0, 1)}, r.afterVerb(i))
	case neither, nor:
		return r.neither(i, end)
	case no:
		return r.none(i, end)
	case doubt:
		if t.a == thoughtWord && i > 0 && r.tokens[i-1].class == ordinal {
			return r.amend(i + 1) // on second thought
		}
		r.doubts(i, end)
	case verb:
		r.elsewhere(i)
		r.placed = true
		if t.b == endWord && i+1 < end && r.tokens[i+1].class == direction {
			return i + 2 // ends up
		}
	case acting:
		return r.action(i, end)
	case precise:
		r.precise = r.leadsToDirection(i+1, end)
	case direction:
		return r.direction(i, end)
	case same:
		return r.equal(i, end)
	case level, along:
		return r.level(i, end)
	case share:
		return r.shares(i, end)
	case line:
		return r.line(i, end)
	case player, possessive:
		return r.playerWord(i, end)
	case relating:
		return r.relate(i, end)
	case beside:
		if next := r.nearer(i, end); next > 0 {
			return next
		}
		return r.skipReference(i+1, end)
	case linking:
		switch {
		case t.a == origin:
			return r.from(i, end)
		case t.a == asWord && r.tokens[i+1].b == wellWord && r.tokens[i+1].class == filler && r.tokens[min(i+2, end)].class == linking:
			return i + 3 // as well as
		case t.a == asWord && r.tokens[i+1].b == wellWord && r.tokens[i+1].class == filler:
			r.likewise = true
		case t.a == asWord && r.tokens[i+1].class == verb:
			return r.alike(i, end) // as is the box
		case t.a == asWord:
			return r.asFar(i, end)
		}
	case toward, placing:
		return r.toward(i, end)
	case magnitude:
		return r.magnitude(i, end)
	case filler:
		switch {
		case t.b == farWord && r.tokens[i+1].class == linking && r.tokens[i+1].a == origin && r.tokens[min(i+2, end)].b == beingWord && r.tokens[min(i+2, end)].class == filler:
			r.negated = true // far from being above me
			return i + 3
		case t.b == tooWord && r.bare(i, end):
			r.likewise = true
			return i + 1
		case t.b == wouldWord && r.tokens[i+1].class == verb:
			r.doubts(i, end)
			return i + 1
		case t.b == goingWord && r.leadsToDirection(i+1, end):
			return r.action(i, end)
		}
		return r.noun(i, end)
	case object, ordinal, number, other, several, alternative, pronoun:
		return r.noun(i, end)
	}
	return i + 1
}

// only reports whether the filler at i is the word of "not only".
func (r *reader) only(i int) bool { return r.tokens[i].b == onlyWord }

// comma separates parts of a sentence. A pair of numbers in brackets is a position.
func (r *reader) comma(i, end int) int {
	if (r.tokens[i].text == "(" || r.tokens[i].text == "[") && i+4 < end && r.tokens[i+1].class == number && r.tokens[i+2].class == comma && r.tokens[i+3].class == number {
		r.locate(rowAxis, r.tokens[i+1].n+1)
		r.locate(columnAxis, r.tokens[i+3].n+1)
		return i + 5
	}
	if r.relative(i, end) {
		return i + 2
	}
	if r.tokens[i].text == ":" && r.listing == "" && len(r.subject) == 1 && r.subject[0] >= 0 && len(r.mentions) == 0 && r.tokens[i-1].class == object && r.tokens[i-1].many {
		r.listing = r.tokens[i-1].kind
	} else if r.listing != "" && len(r.mentions) > 0 {
		r.item()
	}
	r.part++
	r.negated = false
	if r.denied && r.tokens[i+1].class == pronoun { // "it is false that it is above me, it is below me"
		r.flush()
		r.denied, r.corrects = false, true
	}
	return i + 1
}

// joined reads "and" or "but".
func (r *reader) joined(i, end int) int {
	r.part++
	switch {
	case r.tokens[i].class == but:
		r.negated = false
		if r.denied {
			r.flush()
			r.denied = false
		}
		if r.silent { // "there is no hole above me, but there is one to my left"
			r.flush()
			r.subject = r.subject[:0]
		}
	case i+1 < end:
		switch r.tokens[r.skip(i+1, end)].class {
		case direction, toward, placing, same, precise:
		default:
			r.negated = false
		}
	}
	return i + 1
}

// none reads "no": before a noun nothing is there, before rows the row is the same.
func (r *reader) none(i, end int) int {
	j := r.skip(i+1, end)
	if r.tokens[j].class == correcting {
		return i + 1 // no wait
	}
	if r.tokens[j].class == comma {
		r.corrects = r.corrects || !r.asked && r.before(i) == stop && i+2 < end && r.tokens[i+2].class == pronoun // "no, it is …"
		return i + 1                                                                                              // an answer
	}
	if r.tokens[j].class == line || r.tokens[j].class == unit {
		return r.distance(j, end)
	}
	if r.tokens[i+1].class == linking {
		i++
	}
	if ids, next := r.phrase(i+1, end); ids != nil {
		r.begin(ids, false)
		r.silent = true
		r.plural, r.single = r.entities[ids[0]].kind, true // "no hole …, but there is one …"
		return next
	}
	r.negated = true
	return i + 1
}

// skip returns the index of the first token from i that is not a filler.
func (r *reader) skip(i, end int) int {
	for i < end && r.tokens[i].class == filler {
		i++
	}
	return i
}

// leadsToDirection reports whether a direction is next, as in "directly to the left".
func (r *reader) leadsToDirection(i, end int) bool {
	for ; i < end; i++ {
		switch r.tokens[i].class {
		case filler, toward, placing, possessive, cell:
		case level:
			if r.tokens[i-1].class != precise {
				return false
			}
		default:
			return r.tokens[i].class == direction
		}
	}
	return false
}
