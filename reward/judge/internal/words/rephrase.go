package words

import (
	"regexp"
	"slices"
	"strings"
)

// idiom is a phrase that is replaced by one of the same meaning before the text is split into
// words, because its words would be read one by one as something else.
type idiom struct {
	hints  []string // the phrase contains one of them
	phrase *regexp.Regexp
	plain  string
}

const (
	me     = `(me|mine|the (?:player|agent))`
	whose  = `(?:my|the (?:player|agent)'s)`
	counts = `(\d+|one|two|three|four|five|six|seven|eight|nine|ten)`
	sides  = `(left|right|west|east|north|south|western|eastern|northern|southern)`
	here   = "in the same row and in the same column as "
)

// idioms has words of which each phrase contains one, hints between bars, phrase and replacement.
var idioms, idiomsOf = makeIdioms([][4]string{
	// The time of a prediction is no condition, and its "over" no direction.
	{"action move step turn", "action is|action has|action will|action gets|move is|move has|move will|move gets|step is|step has|step will|step gets|turn is|turn has|turn will|turn gets",
		`\b(?:when|once|after|as soon as|by the time) (?:the|my|this|that) (?:action|move|step|turn) (?:is|has been|will be|gets) (?:over|done|finished|complete|completed|executed|performed|taken|made)\b`, "then"},
	{"when once soon after", "when i |once i |soon as i |after i |when the player h|once the player h|after the player h|when the agent h|once the agent h|after the agent h|when we |once we |after we ", `\b(?:when|once|as soon as|after) (?:i|we|the player|the agent) (?:have|has) (?:moved|acted|stepped|made (?:the|my|this|that) (?:move|step))\b`, "then"},

	// Numbers of objects, and counts.
	{"no", "no.", `\bno\. ?` + counts + `\b`, "number $1"},
	{"nr nr1 nr2", " nr", `\bnr\.? ?` + counts + `\b`, "number $1"},
	{"number", " number ", `([a-z]) number ` + counts + `\b`, "$1 $2"},
	{"dozen", "dozen", `\bhalf a dozen\b`, "six"},
	{"dozen", "dozen", `\ba dozen\b`, "twelve"},
	{"number", "the number of", `\bthe number of ([a-z]+(?: [a-z]+)?) ((?:above|below|north|south|east|west|to the|left|right|in)[^.;]*?) is ` + counts + `\b`, "$3 $1 are $2"},
	{"zero", "zero", `\bthere are zero [a-z]+(?: [a-z]+)? (?:above|below|north of|south of|east of|west of|left of|right of|to the (?:left|right) of) ` + me + `,? (?:and|but) ` + counts + ` `, "there are $2 "},
	{"count", "i count", `\bi count ` + counts + ` `, "there are $1 "},

	// The same row or column.
	{"offset", "offset", `\b(?:without any|without|with no|with zero|and no|and zero|no) (?:sideways|horizontal|lateral|left-right) offset\b`, "in the same column"},
	{"offset", "offset", `\b(?:without any|without|with no|with zero|and no|and zero|no) vertical offset\b`, "in the same row"},
	{"difference", "difference", `\b(?:without any|without|with no|and no) (?:sideways|horizontal|lateral) difference\b`, "in the same column"},
	{"difference", "difference", `\b(?:without any|without|with no|and no) vertical difference\b`, "in the same row"},
	{"either", " either", `\bis(?: not|n't) (?:above|below) ` + me + `,? (?:and (?:it )?is(?: not|n't)|and it's not|nor is it) (?:above|below)(?: ` + me + `)? either\b`, "is neither above nor below $1"},
	{"either", " either", `\bis(?: not|n't) (?:to the )?(left|right) of ` + me + `,? and (?:it is not|it's not|it isn't) (?:to the )?(left|right)(?: of ` + me + `)? either\b`, "is neither left nor right of $2"},
	{"own", " own ", `\b(?:on|in|at) ` + whose + ` own (?:square|cell|tile|spot|position|place|field)\b`, here + "me"},
	{"place position square cell tile spot location field", "same place|same position|same square|same cell|same tile|same spot|same location|same field", `\b(?:at|in|on) the same (?:place|position|square|cell|tile|spot|location|field) (?:as|where) ` + me + `\b`, here + "$1"},
	{"where", "where i |where the player|where the agent", `\b(?:exactly|right|just|precisely) where (?:i|the player|the agent) (?:stand|stands|am|is)(?: standing| now)?\b`, here + "me"},
	{"where which that", "where i |where the player|where the agent|in which i |in which the |row that |column that ", `\bthe (row|column) (?:where|in which|that) (?:i|the player|the agent) (?:stand|stands|am|is|occupy|occupies)(?: standing)?(?: in| on)?\b`, "the same $1 as me"},
	{"occupy occupies", "occup", `\bthe (row|column) (?:that )?(?:i|the player|the agent) (?:occupy|occupies)\b`, "the same $1 as me"},
	{"standing", "standing on", `\b(?:i am|i'm|the player is|the agent is) (?:now |already )?standing on (?:top of )?(the (?:goal|target|hole|pit|box|crate|destination|storage)(?: (?:spot|tile|cell|square))?)\b`, "$1 is " + here + "me"},
	{"not", " not in ", `\bis not in ` + whose + ` (?:row|column) but in a (?:row|column) (above|below|to the left of|to the right of) (?:it|mine|that)\b`, "is $1 me"},
	{"not", " not in ", `\bis not in the (?:row|column) of ` + me + ` but in a (?:row|column) (above|below|to the left of|to the right of) (?:it|mine|that)\b`, "is $2 $1"},

	// Whose side, and seen from where.
	{"directly exactly immediately straight", "ly on the|ly to the player's|ly to the agent's|ly at the|straight on the|straight to the player's|straight to the agent's|straight at the", `\b(directly|exactly|immediately|straight) (?:on|to|at) the (player|agent)'s ` + sides + `\b`, "$1 to the $3 of the $2"},
	{"directly exactly immediately straight", "ly on my|ly to my|ly at my|straight on my|straight to my|straight at my", `\b(directly|exactly|immediately|straight) (?:on|to|at) my ` + sides + `\b`, "$1 to the $2 of me"},
	{"north south east west", "'s north|'s south|'s east|'s west", `\bto the (player|agent)'s (north|south|east|west)\b`, "$2 of the $1"},
	{"north south east west", "to my north|to my south|to my east|to my west", `\bto my (north|south|east|west)\b`, "$1 of me"},
	{"by", "me by |mine by |player by |agent by ", `\b(up|down|left|right) (?:from|of) ` + me + ` by ` + counts + ` (?:rows?|columns?|steps?|squares?|cells?|tiles?)\b`, "$1 of $2"},
	{"view perspective viewpoint standpoint position", "point of view of|perspective of|viewpoint of|standpoint of|from the position of", `\b(?:seen )?from the (?:point of view|perspective|viewpoint|standpoint|position) of\b`, "relative to"},
	{"board grid map", " the board| the grid| the map", ` (up|down|along|across) the (?:board|grid|map)\b`, " $1"},
	{"along", " along to the ", ` along to the (left|right)\b`, " to the $1"},
	{"starting", "starting", `\bstarting (?:from|at) ` + me + `,? ([^.;]*?),? (?:leads|lead|brings me|brings you|takes me|takes you|gets me|gets you) to (the [a-z]+(?: [a-z]+)?)`, "$3 is $2 of $1"},
	{"row", "row is ", `\b` + whose + ` row is (?:further |more )?(?:higher|up)(?: up)? than the row of\b`, "i am above"},
	{"row", "row is ", `\b` + whose + ` row is (?:further |more )?(?:lower|down)(?: down)? than the row of\b`, "i am below"},
	{"column", "column is ", `\b` + whose + ` column is (?:further|more) (?:to the )?(left|right) than the column of\b`, "i am $1 of"},
	{"with", "with me on|with the player on|with the agent on", `,? with (?:me|the player|the agent) on the (left|right)(?: side)?\b`, ", i am to the $1 of it"},
	{"object thing item", "this object|this thing|this item", `\bthis (?:object|thing|item) (is|will be|lies|sits)\b`, "it $1"},
})

// makeIdioms returns the idioms, and for each word the set of idioms, by index, that it may be part of.
func makeIdioms(rows [][4]string) ([]idiom, map[string]uint64) {
	list, of := make([]idiom, len(rows)), map[string]uint64{}
	for i, r := range rows {
		list[i] = idiom{strings.Split(r[1], "|"), regexp.MustCompile(r[2]), r[3]}
		for word := range strings.FieldsSeq(r[0]) {
			of[word] |= 1 << i
		}
	}
	return list, of
}

// Rephrase replaces the idioms of a text in lower case. Few texts have any, so its words are
// looked up first.
func Rephrase(text string) string {
	var may uint64
	for word := range strings.FieldsSeq(text) {
		may |= idiomsOf[strings.TrimRight(word, ".,;:!)")]
	}
	for i := 0; may>>i != 0; i++ {
		d := &idioms[i]
		if may>>i&1 == 0 || !slices.ContainsFunc(d.hints, func(hint string) bool { return strings.Contains(text, hint) }) {
			continue
		}
		if after := d.phrase.ReplaceAllString(text, d.plain); after != text {
			text, may = after, may|idiomsOf["number"] // "no. one" becomes "number one"
		}
	}
	return text
}
