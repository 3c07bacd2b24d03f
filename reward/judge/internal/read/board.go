package read

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"vagen/internal/pytext"
	"vagen/reward"
	"vagen/reward/judge/internal/english"
)

// piece is the meaning of a symbol on a board.
type piece struct {
	player  bool
	objects string // up to two, in the order of board.order
}

// board describes an environment's drawing of its state in text.
type board struct {
	name   string
	order  []string // of the objects in a list of relations
	pieces map[rune]piece
}

// boards are those of the environments whose symbolic formats require a map. The
// symbols are those of their text observations.
var boards = map[string]board{
	"frozenlake": {"frozenlake", []string{"target", "hole"}, map[rune]piece{
		'_': {}, 'P': {player: true}, 'O': {objects: "hole"}, 'G': {objects: "target"},
		'X': {player: true, objects: "hole"}, 'V': {player: true, objects: "target"},
		'√': {player: true, objects: "target"}}},
	"sokoban": {"sokoban", []string{"target", "box"}, map[rune]piece{
		'#': {}, '_': {}, 'P': {player: true}, 'O': {objects: "target"}, 'X': {objects: "box"},
		'√': {objects: "target box"}, 'S': {player: true, objects: "target"}}},
}

// maxSide limits the size of boards.
const maxSide = 64

// Board reads a map of an environment's state, as judge.Board describes.
func Board(text, environment string) ([]reward.Relation, bool) {
	b, ok := boards[environment]
	if !ok {
		return nil, false
	}
	rows := b.rows(text)
	at := [2]int{-1, -1}
	for y, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, false
		}
		for x, p := range row {
			if !p.player {
				continue
			}
			if at[0] >= 0 {
				return nil, false
			}
			at = [2]int{y, x}
		}
	}
	if at[0] < 0 {
		return nil, false
	}
	list := []reward.Relation{}
	for _, object := range b.order {
		for y, row := range rows {
			for x, p := range row {
				if strings.Contains(p.objects, object) {
					list = append(list, reward.Relate(object, y-at[0], x-at[1]))
				}
			}
		}
	}
	return list, true
}

// rows reads the cells of the only map in a text; nil if there is none, or another one.
func (b board) rows(text string) [][]piece {
	if lines, ok := literalRows(text); ok {
		text = lines
	}
	if strings.IndexByte(text, '\n') >= 0 {
		b.pieces = legend(text, b)
	}
	var rows [][]piece
	ended := false
	for line := range strings.Lines(text) {
		row, ok := b.row(line)
		switch {
		case !ok && len(rows) > 0:
			ended = true
		case !ok || len(row) == 0:
		case ended || len(rows) == maxSide:
			return nil
		default:
			rows = append(rows, row)
		}
	}
	return rows
}

// row reads a line of a map. It reports false for a line of other text; blank lines and
// lines of a frame have no cells.
func (b board) row(line string) ([]piece, bool) {
	if len(line) > 8*maxSide {
		return nil, false
	}
	if line = pytext.Strip(line); line != "" {
		line = b.unnumbered(line)
	}
	isPiece := func(r rune) bool { _, ok := b.pieces[r]; return ok }
	if strings.Trim(line, "+-=|: ") == "" && !strings.ContainsFunc(line, isPiece) {
		return nil, true
	}
	var row []piece
	for _, r := range line {
		if isPiece(r) {
			row = append(row, b.pieces[r])
		} else if !pytext.Space(r) && r != '|' && r != ',' {
			return nil, false
		}
	}
	return row, len(row) <= maxSide
}

// unnumbered returns a line without the number of its row, and "" for the numbers of
// columns.
func (b board) unnumbered(line string) string {
	if line[0] < utf8.RuneSelf && (line[0] < '0' || line[0] > '9') && line[0]|0x20 != 'r' {
		return line
	}
	line = strings.Map(func(r rune) rune {
		if r >= 0x2500 && r < 0x2580 { // lines of a box
			return '|'
		}
		return r
	}, line)
	if _, ok := b.pieces['0']; ok {
		return line
	}
	if lower := strings.ToLower(line); strings.HasPrefix(lower, "row ") {
		line = line[len("row "):]
	}
	rest := strings.TrimLeft(line, "0123456789")
	if rest == line {
		return line
	}
	if rest = strings.TrimLeft(rest, ":.|) \t"); strings.Trim(rest, "0123456789| \t") == "" {
		return ""
	}
	return rest
}

// literalRows returns the lines of a map that is written as a list of rows.
func literalRows(text string) (string, bool) {
	list, ok := literal(text).([]any)
	if !ok || len(list) == 0 {
		return "", false
	}
	var lines strings.Builder
	for _, row := range list {
		switch row := row.(type) {
		case string:
			lines.WriteString(row)
		case []any:
			for _, cell := range row {
				s, ok := cell.(string)
				if !ok {
					return "", false
				}
				lines.WriteString(s)
			}
		default:
			return "", false
		}
		lines.WriteByte('\n')
	}
	return lines.String(), true
}

// legend returns a board's symbols with those that a text explains instead, such as
// "A = player", "t: target" or "floor is .".
func legend(text string, b board) map[rune]piece {
	own := make(map[rune]piece)
	for _, entry := range strings.FieldsFunc(text, func(r rune) bool {
		return r == ';' || r == ',' || r == '\n' || r == '(' || r == ')'
	}) {
		if len(entry) > 60 {
			continue
		}
		words := strings.Fields(strings.ToLower(strings.ReplaceAll(entry, "=", " = ")))
		for _, separator := range []string{"=", "is", "means", "->", "for", "marks"} {
			before, after, ok := strings.Cut(" "+strings.Join(words, " ")+" ", " "+separator+" ")
			if !ok {
				continue
			}
			if symbol, p, ok := explained(entry, before, after, b); ok {
				own[symbol] = p
			}
			break
		}
		if before, after, ok := strings.Cut(entry, ":"); ok {
			if symbol, p, ok := explained(entry, before, strings.ToLower(after), b); ok {
				own[symbol] = p
			}
		}
	}
	for _, p := range own {
		if p.player {
			return own // a legend with a player is complete
		}
	}
	for r, p := range b.pieces {
		if _, ok := own[r]; !ok {
			own[r] = p
		}
	}
	return own
}

// explained returns the symbol of one entry of a legend, and its meaning. Letters keep
// the case that they have in the text.
func explained(entry, before, after string, b board) (rune, piece, bool) {
	sides := [2]string{strings.TrimSpace(before), strings.TrimSpace(after)}
	if i := strings.LastIndexAny(sides[0], " :"); i >= 0 && utf8.RuneCountInString(sides[0][i+1:]) == 1 {
		sides[0] = sides[0][i+1:] // "Legend: A"
	}
	for k, side := range sides {
		side = strings.Trim(side, `'"`+"`")
		if utf8.RuneCountInString(side) != 1 {
			continue
		}
		p, ok := meaning(strings.ToLower(sides[1-k]), b)
		if !ok {
			return 0, p, false
		}
		r, _ := utf8.DecodeRuneInString(side)
		if !hasWord(entry, side) {
			r, _ = utf8.DecodeRuneInString(strings.ToUpper(side))
		}
		return r, p, true
	}
	return 0, piece{}, false
}

// hasWord reports whether a letter stands alone in a text.
func hasWord(text, letter string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }), letter)
}

// meaning reads the words of a legend.
func meaning(text string, b board) (piece, bool) {
	var p piece
	found := false
	var objects []string
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r < 'a' || r > 'z' }) {
		switch w {
		case "player", "agent", "me", "you", "i", "worker":
			p.player, found = true, true
		case "floor", "ice", "empty", "free", "frozen", "wall", "walls", "ground", "tile", "blank", "space", "obstacle":
			found = true
		default:
			if kind, _, ok := english.Names(objectWords[b.name]).Kind(w); ok {
				objects, found = append(objects, kind), true
			}
		}
	}
	p.objects = strings.Join(objects, " ")
	return p, found
}
