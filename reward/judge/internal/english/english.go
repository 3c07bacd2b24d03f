// Package english reads the relations between the player and objects that English sentences state.
// Package judge describes what a sentence asserts.
//
// words.txt holds the words and phrases, each of a class, and phrases that others replace. A sentence
// is cut into noun phrases, phrases for places and the words that join them; then each place is given
// to a noun. What no rule reads is left out. The rules:
//
//   - baseAt: "from the hole," what places without a reference are relative to
//   - positionAt: rows, columns and pairs of numbers
//   - onAt: the player on an object
//   - spotAt: phrases for places, of directions (directionsAt), of rows and columns (lineAt, sameAt,
//     alongAt, alignedAt) and of sizes of their numbers (moreAt), with a reference
//   - nameAt: noun phrases, of names (thingAt), pronouns (pronounAt), parts (partAt, ownedAt) and
//     numbers (oneOf, amongAt)
//   - nearAt: what is next to an object states no direction
//   - equalAt: "its row is the same as mine"
//   - silences: hedges, conditions, what was true before and what is for a judge
//   - repeats: a sentence counts once
//   - shareReferences: "above and left of me"
//   - offers: what "or" joins is not stated
//   - placed, inverts and named: which noun has a place
//   - likewise: "so is the box"
//   - carry: headings and questions
package english

import (
	"cmp"
	"sync"

	"vagen/reward"
	"vagen/reward/judge/internal/plain"
)

// thing is an object that a text speaks of.
type thing struct {
	kind         string
	label        int
	said, denied place
	exact        bool
	fixed        int // the end of the sentence that replaced what was said
}

// reader reads a text sentence by sentence.
type reader struct {
	tokens []token
	truth  []reward.Relation
	things []thing
	chunks []chunk  // of the sentence
	seen   []string // sentences
	begin  int      // of the sentence
	end    int
	clause

	recent   []int          // what a pronoun stands for
	listed   []int          // what former, latter, first and second stand for
	group    string         // the kind that "one" is of
	plural   bool           // the text names several of it
	topic    *chunk         // the noun of a question or a heading
	front    []chunk        // the places of one
	last     []chunk        // the places given last
	held     []given        // of a question, until its answer
	asking   bool           // the sentence is a question
	replace  bool           // what is said replaces what was said
	numbered map[int][2]int // rows and columns, from 1
}

// readers are kept for their memory.
var readers = sync.Pool{New: func() any { return new(reader) }}

// Read returns the relations that a text states in words about objects with these names. truth
// is used for the number of objects in phrases such as "all holes".
func Read(text string, names Names, truth []reward.Relation) []reward.Relation {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	*r = reader{truth: truth, tokens: r.tokens, things: r.things[:0], chunks: r.chunks[:0], seen: r.seen[:0]}
	r.tokens = tokenize(r.tokens[:0], plain.Text(text), names)
	for r.end < len(r.tokens) {
		for r.begin = r.end; r.end < len(r.tokens)-1 && r.end-r.begin < maxSentence && !r.tokens[r.end].ends(); {
			r.end++
		}
		if r.end > r.begin {
			r.sentence()
		}
		if r.tokens[r.end].ends() || r.end == len(r.tokens)-1 {
			r.end++
		}
	}
	return r.relations()
}

// maxSentence limits the words of a sentence; a longer one is read in pieces.
const maxSentence = 200

func (t *token) ends() bool { return t.class.in(stop, ask, line) }

// add returns a new thing, or the target if the state has one.
func (r *reader) add(kind string, label int) int {
	for k := range r.things {
		if label == 0 && r.only(kind) && r.things[k].kind == kind {
			return k
		}
	}
	if len(r.things) < maxThings {
		r.things = append(r.things, thing{kind: kind, label: label})
	}
	return len(r.things) - 1
}

const maxThings = 256

// several returns n new things.
func (r *reader) several(kind string, n int) (list []int) {
	for range min(max(n, 1), maxCount) {
		list = append(list, r.add(kind, 0))
	}
	return list
}

// maxCount limits the things of a number.
const maxCount = 16

// only reports whether a kind is the target and the state has one.
func (r *reader) only(kind string) bool { return kind == "target" && r.count(kind) == 1 }

func (r *reader) count(kind string) (n int) {
	for _, t := range r.truth {
		if t.Object == kind {
			n++
		}
	}
	return n
}

// find returns the thing with a label, or the last of its kind.
func (r *reader) find(kind string, label int) int {
	at := -1
	for k := range r.things {
		if t := &r.things[k]; t.kind == kind && (t.label == label || at < 0 || r.things[at].label != label) {
			at = k
		}
	}
	if at < 0 || label != 0 && r.things[at].label != label {
		return r.add(kind, label)
	}
	return at
}

// every returns all things of a kind: those named, or as many as the state has.
func (r *reader) every(kind string) (list []int) {
	for k := range r.things {
		if r.things[k].kind == kind {
			list = append(list, k)
		}
	}
	if len(list) > 1 {
		return list
	}
	return r.several(kind, max(2, r.count(kind)))
}

// started reports whether something was said of a thing.
func (r *reader) started(k int) bool {
	return k >= 0 && (r.things[k].said != place{} || r.things[k].denied != place{})
}

// assert adds a place to what is said of a thing.
func (r *reader) assert(k int, at place, isExact, denied bool) {
	t := &r.things[k]
	if r.replace && t.fixed != r.end {
		t.said, t.denied, t.exact, t.fixed = place{}, place{}, false, r.end
	}
	for a, v := range at {
		if denied {
			t.denied[a] |= v
		} else {
			t.said[a] |= v
		}
	}
	t.exact = t.exact || isExact && !denied
}

// relations returns what was said of each thing.
func (r *reader) relations() []reward.Relation {
	list := []reward.Relation{}
	for k := range r.things {
		t := &r.things[k]
		for a := range t.said {
			if mine, its := r.numbered[player], r.numbered[k]; mine[a] > 0 && its[a] > 0 {
				t.said[a] = [3]uint8{less, equal, after}[cmp.Compare(its[a], mine[a])+1]
			}
			if t.said[a] == 0 && t.denied[a]&beside == beside {
				t.said[a] = equal
			}
		}
		for a, v := range t.said {
			if t.exact && v&beside != 0 && t.said[1-a]&beside != 0 {
				t.said[1], t.exact = 0, false // directly above and to the left
			}
			if t.exact && (t.said[1-a] == less || t.said[1-a] == after) {
				t.said[a] = equal
			}
		}
		if v, h := verticals[t.said[0]], horizontals[t.said[1]]; v != "" || h != "" {
			list = append(list, reward.Relation{Object: t.kind, Vertical: v, Horizontal: h})
		}
	}
	return list
}

// Asserts reports whether a sentence states something: it is no question, condition, guess or
// alternative, and has no negation if it is to be positive.
func Asserts(sentence string, names Names, positive bool) bool {
	for _, t := range tokenize(nil, plain.Text(sentence), names) {
		switch t.class {
		case ask, or, hedge, silent, condition, past:
			return false
		case not, no, void:
			if positive {
				return false
			}
		}
	}
	return true
}
