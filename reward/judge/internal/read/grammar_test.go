package read

import (
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward"
)

// Sentences composed of a frame and a phrase for a place, so that each construction meets each
// phrase. Known misreadings remain; the bounds only note a loss.

// said is a phrase for a direction from the player with what it states.
type said struct{ text, want string }

// full names what it is relative to, short does not.
var full = []said{ // names its reference
	{"above me", "a-"}, {"over me", "a-"}, {"north of me", "a-"}, {"to the north of me", "a-"}, {"up from me", "a-"}, {"higher than me", "a-"}, {"higher than I am", "a-"}, {"higher up than me", "a-"},
	{"one row above me", "a-"}, {"1 tile above me", "a-"}, {"one tile up from me", "a-"}, {"in the row above me", "a-"}, {"in the row above mine", "a-"}, {"in a row above me", "a-"}, {"in a row above mine", "a-"},
	{"further up than me", "a-"}, {"above my position", "a-"}, {"above the player", "a-"}, {"above where I am", "a-"}, {"above where I stand", "a-"}, {"a step above me", "a-"}, {"two cells north of me", "a-"},
	{"somewhere above me", "a-"}, {"two rows higher than me", "a-"}, {"at my north", "a-"}, {"on the upper side of me", "a-"}, {"on the top side of the player", "a-"}, {"on my top side", "a-"}, {"one cell away above me", "a-"},
	{"above my current position", "a-"}, {"above my own row", "a-"}, {"above my row", "a-"}, {"a couple of rows above me", "a-"}, {"just above me", "a-"}, {"up above me", "a-"}, {"well above me", "a-"}, {"far above me", "a-"},
	{"two rows above my row", "a-"}, {"closer to the top than I am", "a-"}, {"in the direction of north from me", "a-"}, {"in the upward direction from me", "a-"}, {"three rows up from me", "a-"}, {"two squares above the player's position", "a-"},
	{"a few rows above me", "a-"}, {"several rows above me", "a-"}, {"above the agent's row", "a-"}, {"above the player character", "a-"}, {"above the position of the player", "a-"}, {"above the row I am in", "a-"}, {"above the row of the player", "a-"},
	{"below me", "b-"}, {"beneath me", "b-"}, {"under me", "b-"}, {"south of me", "b-"}, {"down from me", "b-"}, {"lower than me", "b-"}, {"lower than I am", "b-"}, {"lower down than me", "b-"}, {"one row below me", "b-"},
	{"in the row below me", "b-"}, {"in the next row below me", "b-"}, {"further down than I am", "b-"}, {"two steps below the agent", "b-"}, {"one row further down than me", "b-"}, {"a row lower than me", "b-"},
	{"at the bottom side of me", "b-"}, {"on the lower side of the player", "b-"}, {"below the spot where I stand", "b-"}, {"below the tile I am on", "b-"}, {"underneath me", "b-"}, {"closer to the bottom than me", "b-"},
	{"left of me", "-l"}, {"to my left", "-l"}, {"on my left", "-l"}, {"to the left of me", "-l"}, {"on the left side of me", "-l"}, {"on my left side", "-l"}, {"on my left-hand side", "-l"}, {"at my left", "-l"}, {"in my left", "-l"},
	{"to the west of me", "-l"}, {"west of me", "-l"}, {"leftward of me", "-l"}, {"two columns to the left of me", "-l"}, {"one step left of me", "-l"}, {"further left than me", "-l"}, {"further to the left than I am", "-l"},
	{"in the column left of me", "-l"}, {"in the column to the left of mine", "-l"}, {"in a column to my left", "-l"}, {"at the left of me", "-l"}, {"left from me", "-l"}, {"to the left from me", "-l"}, {"on the left of the player", "-l"},
	{"on the player's left", "-l"}, {"to the player's left", "-l"}, {"on the left hand side of the player", "-l"}, {"to the left of my position", "-l"}, {"left of where I am", "-l"}, {"off to my left", "-l"}, {"over to my left", "-l"},
	{"somewhere to my left", "-l"}, {"two tiles to my left", "-l"}, {"a bit to my left", "-l"}, {"further to my left", "-l"}, {"far to my left", "-l"}, {"one column left of my column", "-l"}, {"just to my left", "-l"},
	{"right of me", "-r"}, {"to my right", "-r"}, {"on my right", "-r"}, {"to the right of me", "-r"}, {"on the right side of me", "-r"}, {"on my right side", "-r"}, {"on my right hand side", "-r"}, {"to the east of me", "-r"},
	{"east of me", "-r"}, {"two columns to the right of me", "-r"}, {"one step right of me", "-r"}, {"further right than me", "-r"}, {"in the column to the right of mine", "-r"}, {"on the right of the player", "-r"}, {"to the agent's right", "-r"},
	{"one space to the right of me", "-r"}, {"a few tiles to the right of me", "-r"}, {"several columns right of me", "-r"}, {"right from me", "-r"}, {"nearer to the right edge than I am", "-r"}, {"two steps to the east of me", "-r"},
	{"above and to the left of me", "al"}, {"up and left of me", "al"}, {"to the upper left of me", "al"}, {"to my upper left", "al"}, {"up-left of me", "al"}, {"northwest of me", "al"}, {"diagonally up-left from me", "al"},
	{"above me and to the left", "al"}, {"above me to the left", "al"}, {"left of me and above", "al"}, {"above me and to my left", "al"}, {"one row up and two columns left of me", "al"}, {"2 up and 1 left of me", "al"}, {"above me on the left", "al"},
	{"both above and left of me", "al"}, {"above as well as to the left of me", "al"}, {"to the left of me and one row higher", "al"}, {"to my left and one row up", "al"}, {"in the upper left direction from me", "al"},
	{"in the row above me and the column to my left", "al"}, {"to the northwest of me", "al"}, {"north-west of me", "al"}, {"on my upper left", "al"}, {"to the top left of me", "al"}, {"at the top-left of me", "al"}, {"on the upper left side of me", "al"},
	{"higher than me and to my left", "al"}, {"higher up and further left than me", "al"}, {"up and to the left from me", "al"}, {"diagonally above me to the left", "al"}, {"one row above and one column left of me", "al"},
	{"two rows above me and one column to my left", "al"}, {"one row above mine and one column to the left", "al"}, {"above me, off to the left", "al"}, {"above me, slightly to the left", "al"}, {"above me but also to the left", "al"},
	{"to the left and above me", "al"}, {"on the left above me", "al"}, {"north and west of me", "al"}, {"to my left, above me", "al"}, {"one step up and one step to the left of me", "al"}, {"one up and one left from me", "al"},
	{"diagonally to my upper left", "al"}, {"diagonally to the upper left of me", "al"}, {"left of me and higher up", "al"}, {"above and left from me", "al"}, {"above me and left of me", "al"},
	{"below and to the right of me", "br"}, {"down and right of me", "br"}, {"to the lower right of me", "br"}, {"to my lower right", "br"}, {"down-right of me", "br"}, {"southeast of me", "br"}, {"diagonally down-right from me", "br"},
	{"below me and to the right", "br"}, {"below me to the right", "br"}, {"right of me and below", "br"}, {"to my right and below me", "br"}, {"to my right and one row down", "br"}, {"to the bottom right of me", "br"},
	{"diagonally below me to the right", "br"}, {"lower than me and further to the right", "br"}, {"two rows down and three columns to the right of me", "br"}, {"below me as well as right of me", "br"}, {"below me, to the right", "br"},
	{"down to the right of me", "br"}, {"further down and further right than me", "br"}, {"two rows below and three columns right of my position", "br"}, {"right and down from me", "br"}, {"right of me, one row lower", "br"},
	{"directly above me", "as"}, {"straight up from me", "as"}, {"right above me", "as"}, {"in the same column as me, above", "as"}, {"above me in the same column", "as"}, {"in my column, two rows up", "as"}, {"in my column, above me", "as"},
	{"vertically aligned with me, above", "as"}, {"exactly above me", "as"}, {"due north of me", "as"}, {"immediately above me", "as"}, {"in the same column as me but higher", "as"}, {"above me and in the same column", "as"},
	{"in the same column as I am, two rows up", "as"}, {"above me in my column", "as"}, {"directly one row above me", "as"}, {"above me in the very same column", "as"}, {"in the column I am in, further up", "as"}, {"two tiles straight up from me", "as"},
	{"straight above me", "as"}, {"directly north of me", "as"}, {"above me within my column", "as"}, {"in my own column, higher up", "as"}, {"higher up in my column", "as"}, {"above me, neither left nor right", "as"},
	{"further up in the same column as me", "as"}, {"up the same column as me", "as"}, {"one tile directly above me", "as"}, {"in the cell directly above me", "as"}, {"on the tile right above me", "as"}, {"in the cell immediately above the player", "as"},
	{"directly to my left", "sl"}, {"straight left of me", "sl"}, {"in the same row as me, to the left", "sl"}, {"to my left in the same row", "sl"}, {"in my row, two columns to the left", "sl"}, {"immediately to the left of me", "sl"}, {"directly left of me", "sl"},
	{"to the left of me in my row", "sl"}, {"in my row to the left", "sl"}, {"in the same row as me and to my left", "sl"}, {"level with me on the left", "sl"}, {"to my left and level with me", "sl"}, {"at the same height as me, to the left", "sl"},
	{"horizontally aligned with me, to the left", "sl"}, {"due west of me", "sl"}, {"further left in my row", "sl"}, {"on my left in the same row", "sl"}, {"to my left, on the same row", "sl"}, {"in my own row, one tile to the left", "sl"},
	{"in the cell directly to my left", "sl"}, {"on the tile immediately left of me", "sl"}, {"to my immediate left", "sl"}, {"directly adjacent to me on the left", "sl"}, {"in the same row as the player but further left", "sl"}, {"directly to the west of me", "sl"},
	{"along my row to the left", "sl"}, {"on the same row as me, left side", "sl"}, {"on the same line as me, to the left", "-l"}, {"in the row I am in, to the left", "sl"}, {"in the same row as mine, to the left", "sl"},
	{"in the same column as me", "-s"}, {"in my column", "-s"}, {"in the same row as me", "s-"}, {"in my row", "s-"}, {"on my row", "s-"}, {"on the same row as me", "s-"}, {"level with me", "s-"}, {"at the same height as me", "s-"},
	{"in the same row that I am in", "s-"}, {"in the row of the player", "s-"}, {"within my column", "-s"}, {"in the column of the player", "-s"}, {"in the player's column", "-s"}, {"vertically aligned with me", "-s"}, {"horizontally aligned with me", "s-"},
	{"in the very row in which I am", "s-"}, {"in the column where I am", "-s"}, {"on the same horizontal line as me", "s-"}, {"on the same vertical line as me", "-s"}, {"along my column", "-s"},
}

var short = []said{ // needs a reference from elsewhere
	{"above", "a-"}, {"up", "a-"}, {"to the north", "a-"}, {"north", "a-"}, {"one row up", "a-"}, {"two rows higher", "a-"}, {"further up", "a-"}, {"higher up", "a-"}, {"one step up", "a-"}, {"2 cells up", "a-"}, {"up north", "a-"},
	{"in the row above", "a-"}, {"one tile above", "a-"}, {"two up", "a-"}, {"upwards", "a-"}, {"on the top side", "a-"}, {"in the upward direction", "a-"}, {"towards the top", "a-"},
	{"below", "b-"}, {"down", "b-"}, {"to the south", "b-"}, {"one row down", "b-"}, {"further down", "b-"}, {"lower down", "b-"}, {"one row lower", "b-"}, {"two down", "b-"}, {"one step down", "b-"}, {"towards the bottom", "b-"}, {"in the row below", "b-"},
	{"to the left", "-l"}, {"left", "-l"}, {"on the left", "-l"}, {"to the west", "-l"}, {"on the left side", "-l"}, {"one column to the left", "-l"}, {"further left", "-l"}, {"two left", "-l"}, {"one step to the left", "-l"}, {"off to the left", "-l"},
	{"on the left-hand side", "-l"}, {"at the left", "-l"}, {"at left", "-l"}, {"in the left direction", "-l"}, {"two cells left", "-l"}, {"in the column to the left", "-l"}, {"leftwards", "-l"}, {"towards the left", "-l"}, {"over on the left", "-l"},
	{"to the right", "-r"}, {"right", "-r"}, {"on the right", "-r"}, {"to the east", "-r"}, {"on the right side", "-r"}, {"one column to the right", "-r"}, {"further to the right", "-r"}, {"two right", "-r"}, {"at the right side", "-r"},
	{"up and to the left", "al"}, {"above and to the left", "al"}, {"up-left", "al"}, {"to the upper left", "al"}, {"to the northwest", "al"}, {"one row up and one column to the left", "al"}, {"one up and two left", "al"}, {"up and left", "al"},
	{"on the upper left", "al"}, {"diagonally up-left", "al"}, {"diagonally to the upper left", "al"}, {"at the top left", "al"}, {"two rows up, one column left", "al"}, {"in the upper-left direction", "al"}, {"higher up and further left", "al"},
	{"above, to the left", "al"}, {"left and above", "al"}, {"left and up", "al"}, {"to the left and above", "al"}, {"to the left and one row up", "al"}, {"one row up on the left", "al"}, {"up to the left", "al"}, {"top-left", "al"},
	{"down and to the right", "br"}, {"below and to the right", "br"}, {"down-right", "br"}, {"to the lower right", "br"}, {"to the southeast", "br"}, {"two down and one right", "br"}, {"two rows down and one column to the right", "br"},
	{"diagonally down and to the right", "br"}, {"bottom-right", "br"}, {"at the bottom right", "br"}, {"right and down", "br"}, {"down and to the east", "br"}, {"lower and further right", "br"},
	{"directly above", "as"}, {"straight up", "as"}, {"in the same column, two rows up", "as"}, {"up in the same column", "as"}, {"right above", "as"}, {"in the same column but higher", "as"}, {"one row up in the same column", "as"}, {"above, in the same column", "as"},
	{"one up and zero left", "as"}, {"two rows up and no columns over", "as"}, {"due north", "as"}, {"above and in the same column", "as"}, {"immediately above", "as"}, {"exactly two rows up", "a-"},
	{"directly to the left", "sl"}, {"straight to the left", "sl"}, {"in the same row, to the left", "sl"}, {"to the left in the same row", "sl"}, {"in the same row but further left", "sl"}, {"left, same row", "sl"}, {"same row, left", "sl"},
	{"immediately to the left", "sl"}, {"on the same row to the left", "sl"}, {"to the left, at the same height", "sl"}, {"to the left and in the same row", "sl"}, {"in the same row two columns to the left", "sl"},
	{"in the same row", "s-"}, {"in the same column", "-s"}, {"level", "s-"},
}

var fullFrames = []string{
	"The box is {0}.", "The box lies {0}.", "The box sits {0}.", "The box can be found {0}.", "The box is located {0}.", "The box is positioned {0}.", "The box is to be found {0}.", "The box rests {0}.", "The box is situated {0}.",
	"The box stands {0}.", "The box is placed {0}.", "The box remains {0}.", "The box will be {0}.", "The box is going to be {0}.", "The box is still {0}.", "The box is now {0}.", "The box resides {0}.", "The box is sitting {0}.",
	"The box is visible {0}.", "The box is shown {0}.", "The box ends up {0}.", "The box is there, {0}.", "The box is also {0}.", "The box exists {0}.", "The box is clearly {0}.", "The box has been pushed; it is {0}.", "The box would then be {0}.",
	"There is a box {0}.", "There's one box {0}.", "There is only one box and it is {0}.", "I see the box {0}.", "I can see a box {0}.", "I notice the box {0}.", "You can see the box {0}.", "I observe that the box is {0}.", "I have the box {0}.",
	"The position of the box is {0}.", "The location of the box: {0}.", "The box's position is {0}.", "The box's location is {0}.", "The box, {0}.", "The box: {0}.", "Box {0}.", "box is {0}", "Box - {0}", "- box: {0}", "The box → {0}", "The box = {0}", "The box ({0})",
	"It is the box that is {0}.", "What is {0} is the box.", "We can see that the box is {0}.", "The image shows that the box is {0}.", "As you can see, the box is {0}.", "Note that the box is {0}.", "I know that the box is {0}.",
	"It is clear that the box is {0}.", "Since the box is {0}, I should push it.", "Because the box is {0}, I go there.", "Given that the box is {0}, the plan is simple.", "As the box is {0}, I will push it.", "With the box {0}, I can push it.",
	"So the box is {0}.", "Now, the box is {0}.", "Currently, the box is {0}.", "In this state, the box is {0}.", "In the image, the box is {0}.", "On the grid, the box is {0}.", "Okay, the box is {0}.", "The current state: the box is {0}.",
	"After the move, the box will be {0}.", "Then the box will be {0}.", "After moving up, the box is {0}.", "The next state: the box is {0}.", "Observation: the box is {0}.", "I need to push the box, which is {0}.", "The box that I have to push is {0}.",
	"I look for the box: it is {0}.", "Where is the box? It is {0}.", "The box? It's {0}.", "There is a box; it is {0}.", "There is a box. It lies {0}.", "There is a box in the room, and it is {0}.", "I have found the box. It is {0}.",
	"Regarding the box, it is {0}.", "As for the box, it is {0}.", "The brown box is {0}.", "The yellow box is {0}.", "The wooden crate is {0}.", "The only box is {0}.", "My box is {0}.", "This box is {0}.", "the box's {0}",
	"The box, which I must push, is {0}.", "The box, marked X, is {0}.", "The box (X) is {0}.", "Box X is {0}.", "The box is not far away: it is {0}.", "The box is one cell away, {0}.", "The box is near, {0}.", "It can be seen that the box is {0}.",
	"The box being {0}, I can push it.", "The box has to be pushed and is {0}.", "The first object, the box, is {0}.", "Looking at the grid, the box is {0}.", "Looking at the board, I see the box {0}.", "I find the box {0}.", "The image shows a box {0}.",
	"The picture shows the box {0}.", "{0} is the box.", "{0} there is a box.", "{0} lies the box.", "{0}, there is a box.", "{0} I see the box.", "{0}: the box.", "{0} we find the box.", "{0} you can see a box.", "{0} sits the box.", "Right now, {0}, there is the box.",
}

var shortFrames = []string{
	"Relative to me, the box is {0}.", "From my position, the box is {0}.", "From here, the box is {0}.", "With respect to me, the box is {0}.", "Seen from me, the box is {0}.", "As seen from the player, the box lies {0}.", "Compared to me, the box is {0}.",
	"From the player's perspective, the box is {0}.", "From where I stand, the box is {0}.", "From my point of view, the box is {0}.", "Looking from my tile, the box is {0}.", "The box is {0} relative to me.", "The box is {0} with respect to the player.",
	"The box is {0} compared to me.", "The box is {0} from my position.", "The box is {0}.", "Box: {0}", "Box {0}.", "box -> {0}", "box = {0}", "Box ({0})", "The box lies {0}.", "The box can be found {0}.", "There is a box {0}.", "I see the box {0}.",
	"From me, the box is {0}.", "From me to the box: {0}.", "From the player, the box is {0}.", "Relative to the player's position, the box is {0}.", "From my current position, the box is {0}.", "The box is located {0} as seen from me.", "In relation to me, the box is {0}.",
	"Viewed from my cell, the box is {0}.", "Taking my position as the origin, the box is {0}.", "With me as the reference, the box is {0}.", "In relation to the player, the box is positioned {0}.", "The direction of the box is {0}.", "The direction to the box: {0}.",
	"The position of the box relative to me is {0}.", "The box's position relative to the player: {0}.", "Player to box: {0}.", "I am here; the box is {0}.", "The relation of the box to me: {0}.", "To get to the box I have to go {0}.",
	"To reach the box from here, go {0}.", "From the player to the box you go {0}.", "The way from me to the box is {0}.", "The path from me to the box leads {0}.",
}

// compose puts phrases in the places {0} and {1} of a frame; a sentence starts with a capital.
func compose(frame string, phrases ...string) string {
	for i, p := range phrases {
		frame = strings.ReplaceAll(frame, "{"+string(rune('0'+i))+"}", p)
	}
	return strings.ToUpper(frame[:1]) + frame[1:]
}

// reads returns what a text asserts about a board with one box and one target.
func reads(text string) string {
	return letters(Relations(reward.Claim{Env: "sokoban", Text: text, Truth: []reward.Relation{reward.Relate("target", 0, 0), reward.Relate("box", 0, 0)}}))
}

// counter counts the sentences of a frame that are misread.
type counter struct{ wrong, all int }

func (c *counter) check(t *testing.T, text, want string) {
	t.Helper()
	list := strings.Fields(want)
	sort.Strings(list)
	c.all++
	if got := reads(text); got != strings.Join(list, " ") {
		if c.wrong++; testing.Verbose() && c.wrong%97 == 1 {
			t.Logf("%q asserts %q, want %q", text, got, want)
		}
	}
}

// within fails the test if more than a share of the sentences was misread.
func (c *counter) within(t *testing.T, share float64) {
	t.Helper()
	t.Logf("%d of %d composed sentences misread", c.wrong, c.all)
	require.LessOrEqual(t, float64(c.wrong), share*float64(c.all))
}

func TestEachFrameReadsEachPlace(t *testing.T) {
	var c counter
	for _, f := range fullFrames {
		for _, p := range full {
			c.check(t, compose(f, p.text), "b"+p.want)
		}
	}
	for _, f := range shortFrames {
		for _, p := range short {
			c.check(t, compose(f, p.text), "b"+p.want)
		}
	}
	c.within(t, 0.015)
}
