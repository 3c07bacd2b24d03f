package words

import (
	"slices"

	"vagen/reward"
)

// Class is what a word contributes to a sentence.
type Class uint8

const (
	Foreign     Class = iota // any word that is not in the lexicon
	Filler                   // articles, adverbs and other words without meaning here
	Verb                     // forms of to be, and verbs of place
	Linking                  // of, from, than, as: what follows is a reference
	Placing                  // at, on, in
	And                      //
	Or                       //
	Nor                      //
	Neither                  //
	Not                      //
	No                       //
	But                      //
	Comma                    //
	Stop                     // end of a sentence
	Question                 // end of a question
	Toward                   // to
	Relating                 // relative, compared
	Beside                   // next, near: the object that follows is a reference without a direction
	Hard                     //
	Doubt                    // maybe, might: the clause asserts nothing
	Ignorance                // unsure, unclear, if: the sentence asserts nothing
	Without                  // without, instead: what follows is not stated
	Void                     // nothing
	Alike                    // likewise, so
	Either                   //
	Denial                   // false
	Sureness                 // sure, know, tell: with a negation, the sentence asserts nothing
	Address                  // judge, score: the sentence is for the judge
	Player                   //
	Possessive               // my, your, 's
	Acting                   // verbs of motion: their directions are not positions
	Seeing                   // verbs after which the object, not the observer, is placed
	Object                   // with the id of its kind
	Pronoun                  // it, they
	Alternative              // former, latter, other
	Ordinal                  //
	Number                   //
	Unit                     // step, tile: a distance
	Line                     // row or column
	Cell                     // square or position; a unit after a number
	Direction                //
	Precise                  // directly, due: the other direction is the same
	Same                     //
	Level                    // level, aligned
	Along                    // vertically, horizontally
	Share                    // shares
	Several                  // both, all
	Other                    // another
	Part                     // corner, edge: a place on the board, not a relation
	Correcting               // wait, sorry: what follows replaces what was said
	Magnitude                // smaller, larger: of the number of a row or column
	Bygone                   // previously, ago: what is said was true before
)

// The values of the two directions of a lexeme. Both axes use 0 for "not stated".
const (
	Before = 1 // above, left
	After  = 2 // below, right
	Equal  = 3 // same row, same column
)

// Marks of single words of a class.
const (
	Indefinite   = 1  // of filler: a, an
	Origin       = 1  // of linking: from
	OnlyWord     = 1  // second mark, of filler: only
	OwnWord      = 2  // second mark, of filler: own
	EndWord      = 1  // second mark, of verb: end
	TakesObject  = 1  // of acting: push
	Reflexive    = 1  // of player: myself
	WithWord     = 3  // second mark, of filler: with
	ShouldWord   = 4  // second mark, of filler: should, a condition at the start
	HereWord     = 5  // second mark, of filler: here
	WhenWord     = 6  // second mark, of filler: when, a condition at the start
	WellWord     = 7  // second mark, of filler: well
	WhichWord    = 8  // second mark, of filler: which
	AsWord       = 2  // of linking: as
	SoWord       = 1  // of alike: so
	OfTwo        = 1  // of several: both
	EqualsWord   = 2  // second mark, of verb: equals
	Truth        = 1  // of sureness: true
	Own          = 1  // second mark, of pronoun: its
	Aligned      = 1  // of level: needs a word such as vertically
	RespectWord  = 9  // second mark, of filler: respectively
	TooWord      = 10 // second mark, of filler: too
	FarWord      = 11 // second mark, of filler: far
	NowWord      = 12 // second mark, of filler: now
	TimeWord     = 13 // second mark, of filler: time
	GoingWord    = 14 // second mark, of filler: going
	IndexWord    = 15 // second mark, of filler: index
	BeforeWord   = 16 // second mark, of filler: before
	ThatWord     = 17 // second mark, of filler: that
	ForWord      = 18 // second mark, of filler: for
	WonderWord   = 19 // second mark, of filler: how, where, what
	HighWord     = 20 // second mark, of filler: high, low
	AfterWord    = 22 // second mark, of filler: after
	BeingWord    = 21 // second mark, of filler: being
	ExceptWord   = 4  // of not: except
	ThoughtWord  = 1  // of doubt: thought
	CouldWord    = 2  // of doubt: could
	AlthoughWord = 1  // of but: although
	EvenWord     = 24 // second mark, of filler: even
	MoreWord     = 25 // second mark, of filler: further
	WouldWord    = 23 // second mark, of filler: would
	AnyWord      = 3  // of not: anything
	RatherWord   = 1  // of without: rather
	MeanWord     = 1  // of correcting: mean
	DropWord     = 2  // of correcting: scratch, forget
	PointWord    = 1  // of address: points, which an arrow does, too
	LastWord     = 1  // of bygone: last, when a turn follows
	ClaimWord    = 1  // of ignorance: says, claims
	InsteadWord  = 2  // of ignorance: alternatively
	IfWord       = 3  // of ignorance: if
	WhetherWord  = 4  // of ignorance: whether
	ConcedeWord  = 6  // of ignorance: whatever, a concession at the start
	WantWord     = 5  // of ignorance: want, what follows is a plan
	SayWord      = 3  // of sureness: say
	PastWord     = 3  // second mark, of verb: was
	PossibleWord = 2  // of sureness: possible
	BetweenWord  = 1  // of beside: between
	ReachWord    = 2  // of beside: reach
	ExactWord    = 1  // of precise: exactly, which before a number makes only it precise
	OntoWord     = 1  // of placing: onto, where something is moved
	Nominative   = 1  // second mark, of player: I, the subject of a verb after it
	NounWord     = 2  // second mark, of player: player, agent, which an adjective may precede
	GoesWord     = 2  // of acting: goes, which may mean "holds"
)

// axes of lines.
const (
	RowAxis    = 1
	ColumnAxis = 2
)

// Lexeme is the meaning of a word: its class, and by class the directions it states
// (vertical, horizontal), the axis of a line, or a number.
type Lexeme struct {
	Class   Class
	A, B    uint8
	written bool // a token has it as written, since single rules need the word
}

// Values of a lexeme's directions as reward has them.
var (
	Verticals   = [4]string{"", reward.Above, reward.Below, reward.Same}
	Horizontals = [4]string{"", reward.Left, reward.Right, reward.Same}
)

// Prepositions of place take their reference without "of".
const (
	TakesReference = 1
	EdgeWord       = 3 // top and bottom are directions beside left and right only
	OverWord       = 2 // "over" also stands in "over to the left"
)

// Lexicon holds the meanings of words in lower case.
var Lexicon = makeLexicon()

func makeLexicon() map[string]Lexeme {
	m := make(map[string]Lexeme, 400)
	add := func(l Lexeme, words ...string) {
		for _, w := range words {
			m[w] = l
		}
	}
	add(Lexeme{Class: Filler}, "the", "teh", "hte", "these", "those", "more", "much", "lot",
		"then", "still", "again", "just", "only", "quite", "slightly", "bit", "little", "own",
		"diagonal", "diagonally", "once", "side", "hand", "direction", "way", "away", "clearly", "about", "roughly",
		"with", "by", "yes", "ok", "okay", "indeed", "namely", "thus", "new", "been", "having",
		"seen", "viewed", "while", "few", "several", "counting", "count", "sideways", "altogether", "somewhat", "nearby",
		"lying", "standing", "sitting", "will", "shall", "can", "any", "somewhere", "anywhere",
		"counted", "therefore", "hence", "very", "afterwards")
	add(Lexeme{Class: Filler, B: AfterWord}, "after", "since", "following")
	add(Lexeme{Class: Filler, B: MoreWord}, "further", "farther")
	add(Lexeme{Class: Filler, B: WouldWord}, "would")
	add(Lexeme{Class: Filler, B: ThatWord}, "that", "this")
	add(Lexeme{Class: Filler, B: FarWord}, "far")
	add(Lexeme{Class: Filler, B: TooWord}, "too", "also")
	add(Lexeme{Class: Filler, B: EvenWord}, "even")
	add(Lexeme{Class: Filler, B: NowWord}, "now", "currently", "current", "present", "presently")
	add(Lexeme{Class: Filler, B: ForWord}, "for")
	add(Lexeme{Class: Filler, B: RespectWord}, "respectively")
	add(Lexeme{Class: Filler, B: WonderWord}, "where", "who", "what", "how")
	add(Lexeme{Class: Filler, B: BeingWord}, "being")
	add(Lexeme{Class: Filler, B: TimeWord}, "time")
	add(Lexeme{Class: Filler, B: IndexWord}, "number", "index", "indices", "coordinate")
	add(Lexeme{Class: Filler, B: GoingWord}, "going")
	add(Lexeme{Class: Filler, B: BeforeWord}, "before")
	add(Lexeme{Class: Filler, B: HighWord}, "high", "low")
	add(Lexeme{Class: Filler, A: Indefinite}, "a", "an", "some")
	add(Lexeme{Class: Filler, B: HereWord}, "there", "here", "theres")
	add(Lexeme{Class: Filler, B: WhenWord}, "when")
	add(Lexeme{Class: Without}, "without", "used")
	add(Lexeme{Class: Void}, "nothing", "nobody")
	add(Lexeme{Class: Filler, B: WellWord}, "well")
	add(Lexeme{Class: Filler, B: WhichWord}, "which")
	add(Lexeme{Class: Alike}, "likewise", "similarly")
	add(Lexeme{Class: Alike, A: SoWord}, "so")
	add(Lexeme{Class: Either}, "either")
	add(Lexeme{Class: Filler, B: OnlyWord}, "only", "just", "merely")
	add(Lexeme{Class: Filler, B: ShouldWord}, "should", "were", "had")
	add(Lexeme{Class: Filler, B: OwnWord}, "own")
	add(Lexeme{Class: Filler, B: WithWord}, "with")
	add(Lexeme{Class: Toward}, "to", "toward", "towards")
	add(Lexeme{Class: Relating}, "relative", "compared", "compare", "comparing", "respect", "wrt")
	add(Lexeme{Class: Beside}, "next", "beside", "besides", "adjacent", "near", "nearer", "close", "closer", "closest", "facing", "touching", "against", "opposite", "past", "around", "surrounded", "bordered", "unlike")
	add(Lexeme{Class: Beside, A: BetweenWord}, "between")
	add(Lexeme{Class: Beside, A: ReachWord}, "reach")
	add(Lexeme{Class: Hard}, "hard", "difficult", "impossible", "tricky", "tough", "reason")
	add(Lexeme{Class: Verb, B: PastWord}, "was", "lay", "stood", "sat")
	add(Lexeme{Class: Verb}, "is", "are", "am", "lies", "lie", "sits", "sit", "stands", "stand", "located", "found", "situated", "remains", "remain",
		"stays", "stay", "rests", "rest", "appears", "appear", "becomes", "positioned", "placed", "waits", "be", "occupy", "occupies")
	add(Lexeme{Class: Verb, B: EqualsWord}, "equals", "matches")
	add(Lexeme{Class: Verb, B: EndWord}, "end", "ends", "ended")
	add(Lexeme{Class: Acting}, "go", "move", "moves", "moved", "walk", "head", "travel", "turn", "turning", "advance", "proceed", "slide")
	add(Lexeme{Class: Acting, B: GoingWord}, "moving", "walking", "heading", "travelling", "sliding")
	add(Lexeme{Class: Acting, A: GoesWord}, "goes", "holds", "applies")
	add(Lexeme{Class: Acting, A: TakesObject}, "push", "pushes", "pushing", "pushed", "pull", "pulling", "kick", "drag", "shove", "bring", "shift")
	add(Lexeme{Class: Linking}, "of", "than")
	add(Lexeme{Class: Linking, A: AsWord}, "as")
	add(Lexeme{Class: Linking, A: Origin}, "from")
	add(Lexeme{Class: Placing}, "at", "on", "in", "inside", "within", "upon")
	add(Lexeme{Class: Placing, A: OntoWord}, "onto")
	add(Lexeme{Class: And}, "and", "&", "plus", "whereas")
	add(Lexeme{Class: Or}, "or")
	add(Lexeme{Class: Nor}, "nor")
	add(Lexeme{Class: Neither}, "neither")
	add(Lexeme{Class: Not}, "not", "n't", "never", "cannot", "isnt", "arent", "nowhere", "hardly", "scarcely", "barely", "fails", "fail", "ceases", "ceased", "stopped", "lacks")
	add(Lexeme{Class: Not, A: ExceptWord}, "except")
	add(Lexeme{Class: Not, A: AnyWord}, "anything")
	add(Lexeme{Class: No}, "no", "none")
	add(Lexeme{Class: Without, A: RatherWord}, "rather")
	add(Lexeme{Class: Without}, "instead")
	add(Lexeme{Class: Comma}, "because")
	add(Lexeme{Class: But}, "but", "however", "yet")
	add(Lexeme{Class: But, A: AlthoughWord}, "although", "though")
	add(Lexeme{Class: Doubt}, "maybe", "perhaps", "possibly", "might", "may", "probably", "likely", "presumably", "conceivably", "conceivable", "supposedly", "perchance", "potentially", "believed", "rumoured", "presumed", "assumed", "supposed")
	add(Lexeme{Class: Doubt, A: CouldWord}, "could")
	add(Lexeme{Class: Doubt, A: ThoughtWord}, "thought", "thoughts")
	add(Lexeme{Class: Ignorance, A: IfWord}, "if")
	add(Lexeme{Class: Ignorance, A: WhetherWord}, "whether")
	add(Lexeme{Class: Ignorance, A: ConcedeWord}, "whatever", "wherever")
	add(Lexeme{Class: Ignorance, A: WantWord}, "want", "wish", "hope")
	add(Lexeme{Class: Ignorance}, "unless", "unsure", "unclear", "uncertain", "unknown", "guess", "guessing", "wonder", "suppose", "supposing", "assuming", "assume", "imagine",
		"provided", "doubt", "doubtful", "pick", "choose", "whichever", "incorrect", "ambiguous", "undecided", "hypothetically", "dunno", "suspect", "hopefully", "ought", "whenever", "chance", "chances", "probability", "odds", "possibility", "unlikely", "improbable", "told", "rumour", "rumor", "hearsay", "event", "deny", "denies", "disagree", "dispute", "refute", "remember", "recall", "remembered",
		"options", "candidates", "possibilities", "alternatives", "choices", "example", "examples", "sample", "instance", "pretend", "hypothetical", "apparently", "allegedly", "reportedly")
	add(Lexeme{Class: Ignorance, A: InsteadWord}, "alternatively")
	add(Lexeme{Class: Ignorance, A: ClaimWord}, "says", "claims", "reads", "argues", "alleges", "claimed", "argued", "alleged")
	add(Lexeme{Class: Correcting}, "wait", "sorry", "oops", "correction", "actually", "correcting")
	add(Lexeme{Class: Correcting, A: MeanWord}, "mean", "meant")
	add(Lexeme{Class: Correcting, A: DropWord}, "scratch", "forget", "strike")
	add(Lexeme{Class: Bygone}, "previously", "previous", "earlier", "formerly", "initially", "originally", "ago", "prior", "beforehand")
	add(Lexeme{Class: Bygone, A: LastWord}, "last")
	add(Lexeme{Class: Magnitude, A: Before}, "smaller", "less")
	add(Lexeme{Class: Magnitude, A: After}, "larger", "greater", "bigger")
	add(Lexeme{Class: Sureness}, "sure", "certain", "know", "tell", "idea", "determine", "decide", "clear", "confident", "visible", "obvious")
	add(Lexeme{Class: Denial}, "false", "untrue", "wrong")
	add(Lexeme{Class: Sureness, A: Truth}, "true", "case")
	add(Lexeme{Class: Sureness, A: PossibleWord}, "possible")
	add(Lexeme{Class: Sureness, A: SayWord}, "say")
	add(Lexeme{Class: Address}, "judge", "judges", "judge's", "evaluator", "evaluators", "grader", "graders", "scorer", "instruction", "instructions", "reward", "rewards", "score", "scores", "scoring",
		"grade", "marks", "system", "prompt", "rating", "verdict", "examiner", "reviewer", "assessor", "json", "f1", "ignore", "disregard", "mark", "accept", "approve", "treat", "credit")
	add(Lexeme{Class: Address, A: PointWord}, "points")
	add(Lexeme{Class: Player}, "me", "you", "mine", "us", "him")
	add(Lexeme{Class: Player, B: Nominative}, "i", "we", "he", "she")
	add(Lexeme{Class: Player, B: NounWord}, "player", "agent", "avatar", "character", "robot", "worker", "elf", "hero", "man", "person", "pusher", "sprite", "skater", "explorer", "bot")
	add(Lexeme{Class: Player, A: Reflexive}, "myself", "yourself", "itself")
	add(Lexeme{Class: Possessive}, "my", "your", "our", "'s", "his", "her", "yours")
	add(Lexeme{Class: Seeing}, "see", "sees", "saw", "spy", "spot", "spotted", "notice", "noticed", "observe", "observed", "has", "find", "locate", "detect", "perceive", "expect", "predict", "recognise", "recognize",
		"believe", "think", "conclude", "watch", "note", "describe", "estimate", "report", "state", "identify", "have", "look", "realise", "realize")
	add(Lexeme{Class: Pronoun}, "it", "they", "them")
	add(Lexeme{Class: Pronoun, B: Own}, "its", "their")
	add(Lexeme{Class: Alternative, A: 1}, "former")
	add(Lexeme{Class: Alternative, A: 2}, "latter")
	add(Lexeme{Class: Several, A: OfTwo}, "both")
	add(Lexeme{Class: Several}, "all", "every", "each")
	add(Lexeme{Class: Other}, "another", "other", "others")
	for i, w := range []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"} {
		add(Lexeme{Class: Ordinal, A: uint8(i + 1)}, w)
	}
	for i, w := range []string{"1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th"} {
		add(Lexeme{Class: Ordinal, A: uint8(i + 1)}, w)
	}
	for i, w := range []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"} {
		add(Lexeme{Class: Number, A: uint8(i)}, w)
	}
	add(Lexeme{Class: Number, A: 2}, "pair", "couple")
	add(Lexeme{Class: Unit}, "step", "steps", "unit", "units", "blocks", "moves", "hops")
	add(Lexeme{Class: Line, A: RowAxis}, "row", "rows", "rank")
	add(Lexeme{Class: Line, A: ColumnAxis}, "column", "columns", "col", "cols", "file", "colum", "coloumn", "collumn", "columm")
	add(Lexeme{Class: Cell}, "cell", "cells", "tile", "tiles", "square", "squares", "position", "positions", "location", "place", "space", "spaces", "field", "fields", "coordinates", "spots", "places", "grid", "grids")
	add(Lexeme{Class: Part}, "corner", "edge", "half", "border", "centre", "center", "middle", "quadrant", "boundary", "part", "wall", "walls")
	dir := func(v, h, how uint8, words ...string) {
		add(Lexeme{Class: Direction, A: v | how<<4, B: h}, words...)
	}
	dir(Before, 0, TakesReference, "above", "atop", "overhead")
	dir(Before, 0, OverWord, "over")
	dir(After, 0, TakesReference, "below", "beneath", "beneth", "under", "underneath")
	dir(Before, 0, 0, "up", "upward", "upwards", "north", "northward", "northwards", "northern", "northerly", "higher", "upper", "upside")
	dir(Before, 0, EdgeWord, "top")
	dir(After, 0, 0, "down", "downward", "downwards", "south", "southward", "southwards", "southern", "southerly", "lower", "downside")
	dir(After, 0, EdgeWord, "bottom")
	dir(0, Before, 0, "left", "leftward", "leftwards", "west", "westward", "westwards", "western", "westerly", "lefthand", "lefter")
	dir(0, After, 0, "right", "rightward", "rightwards", "east", "eastward", "eastwards", "eastern", "easterly", "righthand", "righter")
	dir(Before, Before, 0, "northwest", "northwestern", "upleft", "nw")
	dir(Before, After, 0, "northeast", "northeastern", "upright", "ne")
	dir(After, Before, 0, "southwest", "southwestern", "sw")
	dir(After, After, 0, "southeast", "southeastern", "se")
	add(Lexeme{Class: Precise}, "directly", "straight", "due", "immediately", "immediate", "strictly", "squarely", "dead")
	add(Lexeme{Class: Precise, A: ExactWord}, "exactly", "precisely", "perfectly")
	add(Lexeme{Class: Same}, "same", "identical", "shared", "common")
	add(Lexeme{Class: Level}, "level", "height")
	add(Lexeme{Class: Level, A: Aligned}, "aligned", "lined", "lines", "alignment", "line")
	add(Lexeme{Class: Along, A: ColumnAxis}, "vertically", "vertical")
	add(Lexeme{Class: Along, A: RowAxis}, "horizontally", "horizontal")
	add(Lexeme{Class: Share}, "share", "shares", "sharing")
	for _, w := range []string{"above", "below", "beneath", "left", "right", "player", "column"} {
		for _, slip := range slips(w) {
			if _, ok := m[slip]; !ok {
				m[slip] = m[w]
			}
		}
	}
	// As in "hole A", "in this row", "it has a box", "if I look", "we are in the same row", "the
	// top side", "may be found", "when I have moved", "the direction to the goal" and "so will".
	for _, w := range []string{"a", "this", "has", "look", "we", "side", "may", "while", "be", "by", "way", "heading", "found", "seen", "have", "direction", "will"} {
		l := m[w]
		l.written = true
		m[w] = l
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
