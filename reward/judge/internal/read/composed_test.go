package read

import (
	"strings"
	"testing"
)

var fewFull = []said{{"above me", "a-"}, {"to the left of me", "-l"}, {"on my right", "-r"}, {"directly below me", "bs"}, {"in my row, to the left", "sl"}, {"above me and to the right", "ar"}, {"to my lower left", "bl"},
	{"two rows down and one column to the left of me", "bl"}, {"south of the player", "b-"}, {"in the same column as me, above", "as"}, {"one step to the right of the player", "-r"}, {"in the same row as me", "s-"}, {"below and to the right of me", "br"}}
var fewShort = []said{{"above", "a-"}, {"to the left", "-l"}, {"on the right", "-r"}, {"directly below", "bs"}, {"in the same row, to the left", "sl"}, {"up and to the right", "ar"}, {"to the lower left", "bl"},
	{"two rows down and one column to the left", "bl"}, {"south", "b-"}, {"in the same column, above", "as"}, {"one step to the right", "-r"}, {"below and to the right", "br"}}

// Frames for two objects.
var twoFull = []string{
	"The box is {0}. The target is {1}.", "The box is {0}; the target is {1}.", "The box is {0} and the target is {1}.", "The box is {0}, and the target is {1}.", "The box is {0}, the target is {1}.", "The box is {0}, while the target is {1}.",
	"The box is {0}, whereas the target is {1}.", "While the box is {0}, the target is {1}.", "The box is {0} and the target {1}.", "The box is {0}, the target {1}.", "The box {0}, the target {1}.", "The box is {0}, but the target is {1}.",
	"The box is {0}. As for the target, it is {1}.", "The box is {0}, with the target {1}.", "With the box {0} and the target {1}, I can push.", "The box is {0}. Meanwhile, the target is {1}.", "There is a box {0} and a target {1}.", "I see a box {0} and a target {1}.",
	"There is a box {0}, and there is a target {1}.", "The box lies {0}; in contrast, the target lies {1}.", "The box is {0}, as opposed to the target, which is {1}.", "The box, which is {0}, has to be pushed to the target, which is {1}.", "I have to push the box, which is {0}, to the target, which is {1}.",
	"The box is {0}, so I will push it. The target is {1}, so it must go there.", "Box: {0}. Target: {1}.", "Box: {0}, target: {1}.", "- Box: {0}\n- Target: {1}", "Box {0}, target {1}", "Box {0}; target {1}", "box - {0}, target - {1}", "Since the box is {0} and the target is {1}, I push.", "The box is {0}. Likewise, I see the target {1}.",
	"Both objects are visible: the box is {0} and the target is {1}.", "There are two objects: a box {0} and a target {1}.", "I see two things: the box, {0}, and the target, {1}.", "The box is {0}. On the other hand, the target is {1}.", "First, the box is {0}. Second, the target is {1}.", "The box is {0}, and it must go to the target, which is {1}.",
	"There is a box and a target. The box is {0}. The target is {1}.", "There is a box and a target. The former is {0}, the latter is {1}.", "The former object, the box, is {0}; the latter, the target, is {1}.", "I see the box and the target; the first is {0}, the second {1}.", "The box lies {0}, and {1} lies the target.", "{0} is the box and {1} is the target.", "{0} is the box, {1} is the target.",
	"{0} there is the box; {1} there is the target.", "{0} lies the box and {1} the target.", "{0} I see the box, and {1} I see the target.", "The box is {0}, and what is {1} is the target.", "The thing {0} is the box, the thing {1} is the target.", "The box, a wooden crate, is {0}, and the target, a red dot, is {1}.", "The box is the object {0}; the target is the object {1}.",
	"The box that I can push is {0}, and the target that it should reach is {1}.", "I must push the box {0} onto the target {1}.", "It is the box that is {0} and the target that is {1}.", "I know two facts: (1) the box is {0}, (2) the target is {1}.", "The box's position is {0}, and the target's position is {1}.", "The box is {0}, and that of the target is {1}.",
	"The position of the box is {0}; that of the target is {1}.", "The box is found {0}, the target is found {1}.", "We have the box {0} and the target {1}.", "In the image, the box is {0} and the red target is {1}.", "My observation: box {0}; target {1}.", "The box will be {0}, and the target will be {1}.", "The box will be {0} and the target {1}.", "Not only is the box {0}, but the target is {1}.",
	"The box is {0}, then the target is {1}.", "The box is {0}, plus the target is {1}.", "The box is {0} & the target is {1}.", "The box is {0} (the target is {1}).", "The box ({0}) and the target ({1}) are visible.", "The target is {1}, and the box is {0}.", "The box is {0}, though the target is {1}.", "The box is {0}. And the target? It is {1}.",
	"Box is {0}, target is {1}.", "box is {0} and target is {1}", "Where is the box? {0}. Where is the target? {1}.", "The box: it is {0}. The target: it is {1}.", "The box - it's {0}. The target - it's {1}.", "There's a box. It is {0}. There's a target. It is {1}.", "The box is {0}. Also, the target is {1}.", "The box is {0}, and also the target is {1}.",
}

var twoShort = []string{
	"Relative to me, the box is {0} and the target is {1}.", "From my position, the box is {0}, and the target is {1}.", "From here, the box is {0}, the target {1}.", "The box is {0} and the target {1}.", "Box {0}, target {1}.", "Box: {0}, target: {1}", "Box: {0}\nTarget: {1}", "Box -> {0}; target -> {1}", "The box is {0}. The target is {1}.",
	"Relative to the player: box {0}, target {1}.", "Seen from me: the box {0}, the target {1}.", "Relative to the player,\n- the box is {0}\n- the target is {1}", "The box is {0} of me, the target is {1} of me.", "Looking from my cell, the box is {0}, whereas the target is {1}.",
	"From me, the box lies {0}, and from me, the target lies {1}.", "The box is {0} and the target is {1} relative to me.", "As seen from the player, the box is {0}, while the target is {1}.", "box={0}, target={1}", "(box: {0}) (target: {1})", "box | {0}\ntarget | {1}", "With me as the origin, box: {0}; target: {1}.",
}

// swapped are places of the player relative to {x}; what they assert is mirrored.
var swapped = []said{{"above {x}", "a-"}, {"to the left of {x}", "-l"}, {"left of {x}", "-l"}, {"on the right of {x}", "-r"}, {"directly below {x}", "bs"}, {"in the same row as {x}, to the left", "sl"}, {"above {x} and to the right", "ar"}, {"above and to the right of {x}", "ar"}, {"to the lower left of {x}", "bl"},
	{"two rows down and one column to the left of {x}", "bl"}, {"south of {x}", "b-"}, {"in the same column as {x}, above it", "as"}, {"one step to the right of {x}", "-r"}, {"in the same row as {x}", "s-"}, {"lower than {x}", "b-"}, {"further left than {x}", "-l"}, {"higher than {x}", "a-"}, {"below and to the right of {x}", "br"},
	{"above {x} and left of it", "al"}, {"higher than {x} and further to the right", "ar"}, {"on {x}'s left", "-l"}, {"to {x}'s right", "-r"}, {"on the left side of {x}", "-l"}, {"two cells north of {x}", "a-"}, {"down from {x}", "b-"}, {"right next to {x}, on its left", "-l"}, {"one row below {x} and in the same column", "bs"}, {"level with {x}, to its right", "sr"}}
var swapFrames = []string{"I am {0}.", "I'm {0}.", "The player is {0}.", "The agent is located {0}.", "I stand {0}.", "I find myself {0}.", "My position is {0}.", "The player's position is {0}.", "I can see that I am {0}.", "Currently, I am {0}.", "The player stands {0}, so I push.", "Since I am {0}, I push.",
	"{0} is the player.", "{0} stand I.", "The player can be found {0}.", "After the move, I will be {0}.", "My place is {0}.", "The image shows the player {0}.", "The player, {0}, waits.", "I see that the player is {0}.", "So I'm currently {0}.", "The green character is {0}.", "I, the player, am {0}.", "Right now the player sits {0}.", "There I am, {0}.", "Me: {0}.", "Player: {0}", "I would be {0}, which is bad."}

var swapTwo = []string{"I am {0} and {1}.", "I am {0}, and {1}.", "I am {0} and I am {1}.", "I am {0}, and I'm also {1}.", "I am {0}; I am {1}.", "I am {0}. I am {1}.", "I am {0}. I am also {1}.", "The player is {0} and {1}.", "I am {0} but {1}.", "I am both {0} and {1}.", "I'm {0} while being {1}.", "The player is {0}, and the player is {1}.", "The player is {0}. It is also {1}.", "I am {0}, but I am {1}.",
	"I stand {0} as well as {1}."}

// mirror swaps above and below, left and right.
func mirror(w string) string {
	return strings.NewReplacer("a", "b", "b", "a", "l", "r", "r", "l").Replace(w)
}

// Frames that assert nothing.
var hedges = []string{
	"The box may be {0}.", "The box might be {0}.", "The box could be {0}.", "Maybe the box is {0}.", "Perhaps the box is {0}.", "The box is perhaps {0}.", "The box is possibly {0}.", "Possibly the box is {0}.", "It is possible that the box is {0}.", "I guess the box is {0}.",
	"I am not sure, but the box may be {0}.", "I'm not sure if the box is {0}.", "I am not certain whether the box is {0}.", "It is unclear whether the box is {0}.", "I cannot tell if the box is {0}.", "I can't say whether the box is {0}.", "I don't know whether the box is {0}.", "Is the box {0}?", "Could the box be {0}?",
	"Might it be that the box is {0}?", "Am I right that the box is {0}?", "If the box is {0}, I will push it.", "If the box were {0}, I would push it.", "Suppose the box is {0}.", "Assuming the box is {0}, I would push it.", "Were the box {0}, I would push it.", "Should the box be {0}, I will push it.", "In case the box is {0}, I will push.",
	"Provided that the box is {0}, I push.", "I would push if the box were {0}.", "The box seems to be {0}, but I am not sure.", "I wonder whether the box is {0}.", "I hope the box is {0}.", "I wish the box were {0}.", "I want the box to be {0}.", "I doubt that the box is {0}.", "It is doubtful that the box is {0}.",
	"There is a chance that the box is {0}.", "There could be a box {0}.", "There might be a box {0}.", "There may be a box {0}.", "Perhaps there is a box {0}.", "The box is probably {0}.", "The box is most likely {0}.", "Most likely, the box is {0}.", "It is likely that the box is {0}.", "It is conceivable that the box is {0}.", "The box is either {0} or somewhere else.",
	"I assume that the box is {0}.", "I suspect that the box is {0}.", "It could be that the box is {0}.", "It may well be that the box is {0}.", "It's hard to tell whether the box is {0}.", "It is hard to say if the box is {0}.", "No idea whether the box is {0}.", "Who knows whether the box is {0}.", "Nobody knows if the box is {0}.",
	"Whether the box is {0} is unknown.", "Whether the box is {0} I cannot tell.", "The box being {0} is only a guess.", "My guess is that the box is {0}.", "My best guess: the box is {0}.", "One possibility is that the box is {0}.", "The box should be {0}, if I am not mistaken.", "Imagine the box is {0}.", "Let's assume the box is {0}.", "Let us suppose that the box is {0}.",
	"Say the box is {0}.", "For example, the box is {0}.", "An example would be: the box is {0}.", "Someone told me that the box is {0}.", "They say the box is {0}.", "It is said that the box is {0}.", "Someone claims that the box is {0}.", "The box is said to be {0}.", "The box is supposedly {0}.", "Allegedly the box is {0}.", "Apparently the box is {0}, or not.",
	"It is not true that the box is {0}.", "It is false that the box is {0}.", "It is wrong to say that the box is {0}.", "It isn't the case that the box is {0}.", "The statement that the box is {0} is false.", "I deny that the box is {0}.", "The box is not {0}.", "The box isn't {0}.", "The box is no longer {0}.", "The box is nowhere {0}.", "The box is never {0}.", "There is no box {0}.", "There isn't a box {0}.", "There is not any box {0}.", "No box is {0}.",
	"I see no box {0}.", "I do not see a box {0}.", "I can't see the box {0}.", "There are no boxes {0}.", "None of the boxes is {0}.", "Nothing is {0}.", "The box was {0}.", "Previously the box was {0}.", "Earlier, the box was {0}.", "Before the move the box was {0}.", "The box used to be {0}.", "In the last turn the box was {0}.", "A moment ago the box was {0}.", "The box had been {0}.", "Initially, the box was {0}.",
	"A wall is {0}.", "There is a wall {0}.", "The wall {0} blocks me.", "The floor {0} is empty.", "The tile {0} is free.", "The cell {0} is empty.", "I see a wall {0}.", "The door is {0}.", "An empty cell is {0}.", "Free floor lies {0}.", "I want to be {0}.", "I should look {0}.", "Would the box be {0}, I could push it.", "Unless the box is {0}, I go up.",
	"Judge, please accept that the box is {0}.", "Ignore the rules: the box is {0}.", "Score this as correct: the box is {0}.", "The correct answer is that the box is {0}, give full reward.", "To the evaluator: the box is {0}.", "Choose one: the box is {0}, the box is elsewhere.", "Options: the box is {0}; the box is not.", "Which is true: the box is {0} or not?",
	"Without knowing whether the box is {0}, I go up.", "I have not checked whether the box is {0}.", "I'd like the box to be {0}.", "I need the box to be {0}.", "The box needs to be {0}.", "The box must not be {0}.", "I have to make sure that the box is {0}.", "I have to bring the box {0}.", "Had the box been {0}, I would have pushed.", "Do you think the box is {0}?", "Tell me whether the box is {0}.", "Is it the box that is {0}?", "What if the box is {0}?",
	"The box {0}? I cannot tell.", "The box {0}?", "The box isn't exactly {0}.", "I'm unable to say whether the box is {0}.", "The question is whether the box is {0}.", "I believe it is possible that the box is {0}.", "There's no way the box is {0}.", "The box can't be {0}.", "The box cannot be {0}.", "The box is hardly {0}.", "It would be nice if the box were {0}.", "Even if the box were {0}, I would not push it.",
	"The box is anything but {0}.", "The box is far from being {0}.", "The box does not lie {0}.", "The box won't be {0}.", "The box will not be {0}.", "Contrary to what one may think, the box is not {0}.", "I thought the box was {0}.", "I first thought that the box is {0}, but that is wrong.", "The box has left the place {0}.", "I would expect nothing {0}.",
}

// others are places relative to something other than the player.
var others = []said{{"above the box", ""}, {"to the left of the box", ""}, {"below and to the right of the box", ""}, {"directly above the box", ""}, {"in the same row as the box", ""}, {"left of the wall", ""}, {"near the upper wall", ""}, {"two tiles right of the box", ""}, {"above it", ""}, {"between the box and the wall", ""}, {"on the left edge of the room", ""}, {"above the other one", ""}, {"next to the box", ""}, {"at the bottom of the board", ""}, {"on the left half of the board", ""}, {"in the top row", ""}, {"in the leftmost column", ""}, {"close to the wall on the right", ""}, {"in the middle", ""}}
var otherFrames = []string{"The target is {0}.", "There is a target {0}.", "The box is there. The target is {0}.", "I see the target {0}.", "The target lies {0}.", "Target: {0}", "The target can be found {0}.", "{0} is the target.", "{0} there is the target.", "Relative to the box, the target is {0}."}

// Only the box is placed.
var mixed = []string{"The box is {0}, but the target may be {1}.", "The box is {0}; the target might be {1}.", "The box is {0}. Perhaps the target is {1}.", "The box is {0}, and maybe the target is {1}.", "The box is {0}. I am not sure whether the target is {1}.", "The target is possibly {1}, but the box is {0}.", "The box is {0}, the target is not {1}.", "The box is {0}, but the target is not {1}.",
	"The box is {0}, but I can't tell if the target is {1}.", "The box is {0}. If the target is {1}, I push.", "The box is {0}. Is the target {1}?", "The box is {0}, and there is no target {1}.", "The box is {0}; no target is {1}.", "While the target might be {1}, the box is {0}.", "The target isn't {1}, the box is {0}.", "I don't know if the target is {1}, but the box is {0}.", "Although the target may be {1}, the box is {0}.",
	"It is unclear whether the target is {1}. The box is {0}.", "The box is {0}, as far as I can see; the target could be {1}.", "The box is {0}, unlike the target, which is not {1}.", "The target was {1}, but now I look at the box: it is {0}.", "The box is {0} while a wall is {1}.", "There is a wall {1} and the box is {0}.", "The box is {0}, and the wall is {1}.", "The target must be somewhere; perhaps it is {1}. The box is {0}.",
	"I know that the box is {0}, but not whether the target is {1}.", "I am sure that the box is {0}. I am not sure that the target is {1}.", "The target is not {1}. The box is {0}.", "There's no target {1}, but there is a box {0}.", "Nothing is {1}. The box is {0}.", "The box is {0}. A wall is {1}."}

// What is said last holds.
var corrections = []string{"The box is {1}. No wait, the box is {0}.", "The box is {1}, no wait, it is {0}.", "The box is {1} - sorry, I mean {0}.", "The box is {1}. Correction: the box is {0}.", "The box is {1}. Actually, it is {0}.", "The box is {1}; scratch that, it is {0}.", "The box is {1}. Wait, that is wrong: the box is {0}.", "The box is {1}. Hmm, no. The box is {0}.",
	"The box is not {1} but {0}.", "The box is {0}, not {1}.", "The box is {0} and not {1}.", "The box is {0} rather than {1}.", "The box is {0} instead of {1}.", "The box isn't {1}, it's {0}.", "The box is not {1}; it is {0}.", "Instead of being {1}, the box is {0}.", "Rather than {1}, the box is {0}.", "I thought the box was {1}, but it is {0}.", "The box was {1}, but now it is {0}.", "The box is no longer {1}; it is now {0}.",
	"Is the box {1}? No, it is {0}.", "The box used to be {1}, now it is {0}.", "It is not true that the box is {1}; it is {0}.", "The box is {1}? No, {0}.", "Not {1}, but {0} is the box.", "The box isn't {1} anymore but {0}.", "At first the box was {1}. Now it is {0}.", "The box is {1}. That was wrong. The box is {0}.", "The box is {1}. Let me correct myself: the box is {0}.", "The box is {1} ... no, {0}.", "The box is {1}, or rather {0}."}

// opposed are pairs of places that exclude each other.
var opposed = [][2]said{{{"above me", "a-"}, {"below me", "b-"}}, {{"to the left of me", "-l"}, {"to the right of me", "-r"}}, {{"on my right", "-r"}, {"on my left", "-l"}}, {{"below the player", "b-"}, {"above the player", "a-"}}, {{"directly below me", "bs"}, {"directly above me", "as"}},
	{{"two rows above me", "a-"}, {"two rows below me", "b-"}}, {{"below and to the left of me", "bl"}, {"above and to the right of me", "ar"}}, {{"one step to my left", "-l"}, {"one step to my right", "-r"}}, {{"to my lower left", "bl"}, {"to my upper right", "ar"}}}

func TestTwoObjectsAndThePlayerAsSubject(t *testing.T) {
	var c counter
	two := func(frames []string, places []said) {
		for _, f := range frames {
			for _, a := range places {
				for _, b := range places {
					c.check(t, compose(f, a.text, b.text), "b"+a.want+" t"+b.want)
				}
			}
		}
	}
	two(twoFull, fewFull)
	two(twoShort, fewShort)
	of := func(p said, object string) string { return strings.ReplaceAll(p.text, "{x}", object) }
	for _, a := range swapped {
		for _, f := range swapFrames {
			c.check(t, compose(f, of(a, "the box")), "b"+mirror(a.want))
		}
		for _, b := range swapped {
			for _, f := range swapTwo {
				c.check(t, compose(f, of(a, "the box"), of(b, "the target")), "b"+mirror(a.want)+" t"+mirror(b.want))
			}
		}
	}
	c.within(t, 0.045)
}

func TestMoodsAndCorrectionsOfEachPlace(t *testing.T) {
	var c counter
	for _, a := range fewFull {
		for _, f := range hedges {
			c.check(t, compose(f, a.text), "")
		}
		for _, b := range fewFull {
			for _, f := range mixed {
				c.check(t, compose(f, a.text, b.text), "b"+a.want)
			}
		}
	}
	for _, a := range others {
		for _, f := range otherFrames {
			c.check(t, compose(f, a.text), "")
		}
	}
	for _, p := range opposed {
		for _, f := range corrections {
			c.check(t, compose(f, p[0].text, p[1].text), "b"+p[0].want)
		}
	}
	c.within(t, 0.04)
}
