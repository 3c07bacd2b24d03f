package prose

import (
	"slices"

	"vagen/reward"
)

// class is what a word contributes to a sentence.
type class uint8

const (
	foreign     class = iota // any word that is not in the lexicon
	filler                   // articles, adverbs and other words without meaning here
	verb                     // forms of to be, and verbs of place
	linking                  // of, from, than, as: what follows is a reference
	placing                  // at, on, in
	and                      //
	or                       //
	nor                      //
	neither                  //
	not                      //
	no                       //
	but                      //
	comma                    //
	stop                     // end of a sentence
	question                 // end of a question
	toward                   // to
	relating                 // relative, compared
	beside                   // next, near: the object that follows is a reference without a direction
	hard                     //
	doubt                    // maybe, might: the clause asserts nothing
	ignorance                // unsure, unclear, if: the sentence asserts nothing
	without                  // without, instead: what follows is not stated
	void                     // nothing
	alike                    // likewise, so
	either                   //
	denial                   // false
	sureness                 // sure, know, tell: with a negation, the sentence asserts nothing
	address                  // judge, score: the sentence is for the judge
	player                   //
	possessive               // my, your, 's
	acting                   // verbs of motion: their directions are not positions
	seeing                   // verbs after which the object, not the observer, is placed
	object                   // with the id of its kind
	pronoun                  // it, they
	alternative              // former, latter, other
	ordinal                  //
	number                   //
	unit                     // step, tile: a distance
	line                     // row or column
	cell                     // square or position; a unit after a number
	direction                //
	precise                  // directly, due: the other direction is the same
	same                     //
	level                    // level, aligned
	along                    // vertically, horizontally
	share                    // shares
	several                  // both, all
	other                    // another
	part                     // corner, edge: a place on the board, not a relation
	correcting               // wait, sorry: what follows replaces what was said
	magnitude                // smaller, larger: of the number of a row or column
	bygone                   // previously, ago: what is said was true before
)

// The values of the two directions of a lexeme. Both axes use 0 for "not stated".
const (
	before = 1 // above, left
	after  = 2 // below, right
	equal  = 3 // same row, same column
)

// Marks of single words of a class.
const (
	indefinite   = 1  // of filler: a, an
	origin       = 1  // of linking: from
	onlyWord     = 1  // second mark, of filler: only
	ownWord      = 2  // second mark, of filler: own
	endWord      = 1  // second mark, of verb: end
	takesObject  = 1  // of acting: push
	reflexive    = 1  // of player: myself
	withWord     = 3  // second mark, of filler: with
	shouldWord   = 4  // second mark, of filler: should, a condition at the start
	hereWord     = 5  // second mark, of filler: here
	whenWord     = 6  // second mark, of filler: when, a condition at the start
	wellWord     = 7  // second mark, of filler: well
	whichWord    = 8  // second mark, of filler: which
	asWord       = 2  // of linking: as
	soWord       = 1  // of alike: so
	ofTwo        = 1  // of several: both
	equalsWord   = 2  // second mark, of verb: equals
	truth        = 1  // of sureness: true
	own          = 1  // second mark, of pronoun: its
	aligned      = 1  // of level: needs a word such as vertically
	respectWord  = 9  // second mark, of filler: respectively
	tooWord      = 10 // second mark, of filler: too
	farWord      = 11 // second mark, of filler: far
	nowWord      = 12 // second mark, of filler: now
	timeWord     = 13 // second mark, of filler: time
	goingWord    = 14 // second mark, of filler: going
	indexWord    = 15 // second mark, of filler: index
	beforeWord   = 16 // second mark, of filler: before
	thatWord     = 17 // second mark, of filler: that
	forWord      = 18 // second mark, of filler: for
	wonderWord   = 19 // second mark, of filler: how, where, what
	highWord     = 20 // second mark, of filler: high, low
	afterWord    = 22 // second mark, of filler: after
	beingWord    = 21 // second mark, of filler: being
	exceptWord   = 4  // of not: except
	thoughtWord  = 1  // of doubt: thought
	couldWord    = 2  // of doubt: could
	althoughWord = 1  // of but: although
	evenWord     = 24 // second mark, of filler: even
	wouldWord    = 23 // second mark, of filler: would
	anyWord      = 3  // of not: anything
	ratherWord   = 1  // of without: rather
	meanWord     = 1  // of correcting: mean
	dropWord     = 2  // of correcting: scratch, forget
	lastWord     = 1  // of bygone: last, when a turn follows
	claimWord    = 1  // of ignorance: says, claims
	insteadWord  = 2  // of ignorance: alternatively
	sayWord      = 3  // of sureness: say
	pastWord     = 3  // second mark, of verb: was
	possibleWord = 2  // of sureness: possible
	goesWord     = 2  // of acting: goes, which may mean "holds"
)

// axes of lines.
const (
	rowAxis    = 1
	columnAxis = 2
)

// lexeme is the meaning of a word: its class, and by class the directions it states
// (vertical, horizontal), the axis of a line, or a number.
type lexeme struct {
	class class
	a, b  uint8
}

// values of a lexeme's directions as reward has them.
var (
	verticals   = [4]string{"", reward.Above, reward.Below, reward.Same}
	horizontals = [4]string{"", reward.Left, reward.Right, reward.Same}
)

// Prepositions of place take their reference without "of".
const (
	takesReference = 1
	edgeWord       = 3 // top and bottom are directions beside left and right only
	overWord       = 2 // "over" also stands in "over to the left"
)

var lexicon = makeLexicon()

func makeLexicon() map[string]lexeme {
	m := make(map[string]lexeme, 400)
	add := func(l lexeme, words ...string) {
		for _, w := range words {
			m[w] = l
		}
	}
	add(lexeme{class: filler}, "the", "teh", "hte", "these", "those", "further", "farther", "more", "much", "lot",
		"then", "still", "again", "just", "only", "quite", "slightly", "bit", "little", "own",
		"diagonal", "diagonally", "once", "side", "hand", "direction", "way", "away", "clearly", "about", "roughly",
		"with", "by", "yes", "ok", "okay", "indeed", "namely", "thus", "new", "been", "having",
		"seen", "viewed", "while", "counting", "count", "sideways", "altogether", "somewhat", "nearby",
		"lying", "standing", "sitting", "will", "shall", "can", "any", "somewhere", "anywhere",
		"counted", "therefore", "hence", "very", "afterwards")
	add(lexeme{class: filler, b: afterWord}, "after", "since", "following")
	add(lexeme{class: filler, b: wouldWord}, "would")
	add(lexeme{class: filler, b: thatWord}, "that", "this")
	add(lexeme{class: filler, b: farWord}, "far")
	add(lexeme{class: filler, b: tooWord}, "too", "also")
	add(lexeme{class: filler, b: evenWord}, "even")
	add(lexeme{class: filler, b: nowWord}, "now", "currently", "current", "present", "presently")
	add(lexeme{class: filler, b: forWord}, "for")
	add(lexeme{class: filler, b: respectWord}, "respectively")
	add(lexeme{class: filler, b: wonderWord}, "where", "who", "what", "how")
	add(lexeme{class: filler, b: beingWord}, "being")
	add(lexeme{class: filler, b: timeWord}, "time")
	add(lexeme{class: filler, b: indexWord}, "number", "index", "indices", "coordinate")
	add(lexeme{class: filler, b: goingWord}, "going")
	add(lexeme{class: filler, b: beforeWord}, "before")
	add(lexeme{class: filler, b: highWord}, "high", "low")
	add(lexeme{class: filler, a: indefinite}, "a", "an", "some")
	add(lexeme{class: filler, b: hereWord}, "there", "here")
	add(lexeme{class: filler, b: whenWord}, "when")
	add(lexeme{class: without}, "without", "used")
	add(lexeme{class: void}, "nothing", "nobody")
	add(lexeme{class: filler, b: wellWord}, "well")
	add(lexeme{class: filler, b: whichWord}, "which")
	add(lexeme{class: alike}, "likewise", "similarly")
	add(lexeme{class: alike, a: soWord}, "so")
	add(lexeme{class: either}, "either")
	add(lexeme{class: filler, b: onlyWord}, "only", "just", "merely")
	add(lexeme{class: filler, b: shouldWord}, "should", "were", "had")
	add(lexeme{class: filler, b: ownWord}, "own")
	add(lexeme{class: filler, b: withWord}, "with")
	add(lexeme{class: toward}, "to", "toward", "towards")
	add(lexeme{class: relating}, "relative", "compared", "respect")
	add(lexeme{class: beside}, "next", "beside", "besides", "adjacent", "near", "nearer", "close", "closer", "closest", "between", "facing", "touching", "against", "opposite", "reach", "past", "around", "surrounded", "bordered", "unlike")
	add(lexeme{class: hard}, "hard", "difficult", "impossible", "tricky", "tough", "reason")
	add(lexeme{class: verb, b: pastWord}, "was", "lay", "stood", "sat")
	add(lexeme{class: verb}, "is", "are", "am", "lies", "lie", "sits", "sit", "stands", "stand", "located", "found", "situated", "remains", "remain",
		"stays", "stay", "rests", "rest", "appears", "appear", "becomes", "positioned", "placed", "waits", "be", "occupy", "occupies")
	add(lexeme{class: verb, b: equalsWord}, "equals", "matches")
	add(lexeme{class: verb, b: endWord}, "end", "ends", "ended")
	add(lexeme{class: acting}, "go", "move", "moves", "moving", "moved", "walk", "walking", "head", "heading", "travel", "travelling", "turn", "turning", "advance", "proceed", "slide", "sliding")
	add(lexeme{class: acting, a: goesWord}, "goes", "holds", "applies")
	add(lexeme{class: acting, a: takesObject}, "push", "pushes", "pushing", "pushed", "pull", "pulling", "kick", "drag", "shove", "bring", "shift")
	add(lexeme{class: linking}, "of", "than")
	add(lexeme{class: linking, a: asWord}, "as")
	add(lexeme{class: linking, a: origin}, "from")
	add(lexeme{class: placing}, "at", "on", "in", "inside", "within", "onto", "upon")
	add(lexeme{class: and}, "and", "&", "plus", "whereas")
	add(lexeme{class: or}, "or")
	add(lexeme{class: nor}, "nor")
	add(lexeme{class: neither}, "neither")
	add(lexeme{class: not}, "not", "n't", "never", "cannot", "isnt", "arent", "nowhere", "hardly", "scarcely", "barely", "fails", "fail", "ceases", "ceased", "stopped", "lacks")
	add(lexeme{class: not, a: exceptWord}, "except")
	add(lexeme{class: not, a: anyWord}, "anything")
	add(lexeme{class: no}, "no", "none")
	add(lexeme{class: without, a: ratherWord}, "rather")
	add(lexeme{class: without}, "instead")
	add(lexeme{class: but}, "but", "however", "yet")
	add(lexeme{class: but, a: althoughWord}, "although", "though")
	add(lexeme{class: doubt}, "maybe", "perhaps", "possibly", "might", "may", "probably", "likely", "presumably", "conceivably", "supposedly", "perchance", "potentially", "believed", "rumoured", "presumed", "assumed", "supposed")
	add(lexeme{class: doubt, a: couldWord}, "could")
	add(lexeme{class: doubt, a: thoughtWord}, "thought", "thoughts")
	add(lexeme{class: ignorance}, "if", "unless", "whether", "unsure", "unclear", "uncertain", "unknown", "guess", "guessing", "wonder", "suppose", "supposing", "assuming", "assume", "imagine",
		"provided", "doubt", "doubtful", "pick", "choose", "whichever", "whatever", "incorrect", "ambiguous", "undecided", "hypothetically", "dunno", "wherever", "suspect", "hope", "hopefully", "wish", "ought", "whenever", "want", "chance", "chances", "probability", "odds", "possibility", "unlikely", "improbable", "told", "rumour", "rumor", "hearsay", "event", "deny", "denies", "disagree", "dispute", "refute", "remember", "recall", "remembered",
		"options", "candidates", "possibilities", "alternatives", "choices", "example", "examples", "sample", "instance", "pretend", "hypothetical", "apparently", "allegedly", "reportedly")
	add(lexeme{class: ignorance, a: insteadWord}, "alternatively")
	add(lexeme{class: ignorance, a: claimWord}, "says", "claims", "reads", "argues", "alleges", "claimed", "argued", "alleged")
	add(lexeme{class: correcting}, "wait", "sorry", "oops", "correction", "actually", "correcting")
	add(lexeme{class: correcting, a: meanWord}, "mean", "meant")
	add(lexeme{class: correcting, a: dropWord}, "scratch", "forget", "strike")
	add(lexeme{class: bygone}, "previously", "previous", "earlier", "formerly", "initially", "originally", "ago", "prior", "beforehand")
	add(lexeme{class: bygone, a: lastWord}, "last")
	add(lexeme{class: magnitude, a: before}, "smaller", "less")
	add(lexeme{class: magnitude, a: after}, "larger", "greater", "bigger")
	add(lexeme{class: sureness}, "sure", "certain", "know", "tell", "idea", "determine", "decide", "clear", "confident", "visible", "obvious")
	add(lexeme{class: denial}, "false", "untrue", "wrong")
	add(lexeme{class: sureness, a: truth}, "true", "case")
	add(lexeme{class: sureness, a: possibleWord}, "possible")
	add(lexeme{class: sureness, a: sayWord}, "say")
	add(lexeme{class: address}, "judge", "judges", "judge's", "evaluator", "evaluators", "grader", "graders", "scorer", "instruction", "instructions", "reward", "rewards", "score", "scores", "scoring",
		"grade", "marks", "points", "system", "prompt", "rating", "verdict", "examiner", "reviewer", "assessor", "json", "f1", "ignore", "disregard", "mark", "accept", "approve", "treat", "credit")
	add(lexeme{class: player}, "i", "me", "player", "agent", "you", "mine", "avatar", "character", "we", "us", "robot", "worker", "him", "he", "she")
	add(lexeme{class: player, a: reflexive}, "myself", "yourself", "itself")
	add(lexeme{class: possessive}, "my", "your", "our", "'s", "his", "her", "yours")
	add(lexeme{class: seeing}, "see", "sees", "saw", "spy", "spot", "spotted", "notice", "noticed", "observe", "observed", "has", "find", "locate", "detect", "perceive", "expect", "predict", "recognise", "recognize",
		"believe", "think", "conclude", "watch", "note", "describe", "estimate", "report", "state", "identify", "have", "look", "realise", "realize")
	add(lexeme{class: pronoun}, "it", "they", "them")
	add(lexeme{class: pronoun, b: own}, "its", "their")
	add(lexeme{class: alternative, a: 1}, "former")
	add(lexeme{class: alternative, a: 2}, "latter")
	add(lexeme{class: several, a: ofTwo}, "both")
	add(lexeme{class: several}, "all", "every", "each")
	add(lexeme{class: other}, "another", "other", "others")
	for i, w := range []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"} {
		add(lexeme{class: ordinal, a: uint8(i + 1)}, w)
	}
	for i, w := range []string{"1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th"} {
		add(lexeme{class: ordinal, a: uint8(i + 1)}, w)
	}
	for i, w := range []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"} {
		add(lexeme{class: number, a: uint8(i)}, w)
	}
	add(lexeme{class: number, a: 2}, "pair", "couple")
	add(lexeme{class: unit}, "step", "steps", "unit", "units", "blocks", "moves", "hops")
	add(lexeme{class: line, a: rowAxis}, "row", "rows", "rank")
	add(lexeme{class: line, a: columnAxis}, "column", "columns", "col", "cols", "file", "colum", "coloumn", "collumn", "columm")
	add(lexeme{class: cell}, "cell", "cells", "tile", "tiles", "square", "squares", "position", "positions", "location", "place", "space", "spaces", "field", "fields", "coordinates", "spots", "places")
	add(lexeme{class: part}, "corner", "edge", "half", "border", "centre", "center", "middle", "quadrant", "boundary", "part", "wall", "walls")
	dir := func(v, h, how uint8, words ...string) {
		add(lexeme{class: direction, a: v | how<<4, b: h}, words...)
	}
	dir(before, 0, takesReference, "above", "atop", "overhead")
	dir(before, 0, overWord, "over")
	dir(after, 0, takesReference, "below", "beneath", "beneth", "under", "underneath")
	dir(before, 0, 0, "up", "upward", "upwards", "north", "northward", "northwards", "northern", "northerly", "higher", "upper")
	dir(before, 0, edgeWord, "top")
	dir(after, 0, 0, "down", "downward", "downwards", "south", "southward", "southwards", "southern", "southerly", "lower")
	dir(after, 0, edgeWord, "bottom")
	dir(0, before, 0, "left", "leftward", "leftwards", "west", "westward", "westwards", "western", "westerly", "lefthand")
	dir(0, after, 0, "right", "rightward", "rightwards", "east", "eastward", "eastwards", "eastern", "easterly", "righthand")
	dir(before, before, 0, "northwest", "northwestern", "upleft", "nw")
	dir(before, after, 0, "northeast", "northeastern", "upright", "ne")
	dir(after, before, 0, "southwest", "southwestern", "sw")
	dir(after, after, 0, "southeast", "southeastern", "se")
	add(lexeme{class: precise}, "directly", "straight", "exactly", "due", "immediately", "immediate", "precisely", "perfectly", "strictly", "squarely", "dead")
	add(lexeme{class: same}, "same", "identical", "shared", "common")
	add(lexeme{class: level}, "level", "height")
	add(lexeme{class: level, a: aligned}, "aligned", "lined", "alignment", "line")
	add(lexeme{class: along, a: columnAxis}, "vertically", "vertical")
	add(lexeme{class: along, a: rowAxis}, "horizontally", "horizontal")
	add(lexeme{class: share}, "share", "shares", "sharing")
	for _, w := range []string{"above", "below", "beneath", "left", "right", "player", "column"} {
		for _, slip := range slips(w) {
			if _, ok := m[slip]; !ok {
				m[slip] = m[w]
			}
		}
	}
	return m
}

// slips are the usual ways to mistype a word: two letters in the other order, one twice,
// or the last one missing. Those that are words of their own are left out.
func slips(w string) []string {
	var list []string
	for i := 1; i < len(w); i++ {
		list = append(list, w[:i-1]+w[i:i+1]+w[i-1:i]+w[i+1:], w[:i]+w[i-1:])
	}
	list = append(list, w[:len(w)-1])
	return slices.DeleteFunc(list, func(s string) bool { return s == w || s == "lef" || s == "playe" })
}
