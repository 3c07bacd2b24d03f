package judge

import (
	"vagen/reward"
	"vagen/reward/judge/internal/read"
)

// Board reads a map of an environment's state, one line for each row, the symbols
// with or without white space or bars between them. It returns the positions of the
// objects relative to the player: kind by kind, row by row. Lines before and after the
// map may explain it, also its symbols, as in "A = player, . = floor"; a list of lists
// or of strings in JSON is a map, too. It reports false for a text without such a map:
// rows of unequal length, no player or more than one, two maps, or the environment has
// no board.
func Board(text, environment string) ([]reward.Relation, bool) { return read.Board(text, environment) }

// Read reads sentences such as
//
//	The box is above and left of the player, and the target is in the same row.
//
// literally: it finds each mention of one of the names, with or without a number
// after it, and in the text up to the next mention the words above, below, same row,
// left, right and same column. A direction that is not stated, or stated in two ways,
// is empty. names maps the words for objects, in lower case, to their ids; case and
// white space of the text are ignored.
//
// These are the rules of the exact reader of VAGEN next's Sokoban, for any objects.
func Read(text string, names map[string]string) []reward.Relation { return read.Phrases(text, names) }
