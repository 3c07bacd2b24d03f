package read

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"vagen/internal/pytext"
	"vagen/reward"
	"vagen/reward/judge/internal/english"
)

// places reads a dictionary of positions, as in the original systems' structured
// formats, and returns the positions of its objects relative to the player:
//
//	{"player": (2, 3), "target": (3, 2), "hole": [(0, 1), (1, 1)]}
//
// A position is a pair of row and column, or an object with the keys row and column.
// An object that occurs several times has a list of positions, or keys with numbers.
// Of several names of the player the first in alphabetical order that has a position counts.
// Without a player, an object may have its relations instead of a position. Both JSON
// and Python literals are read; names maps words to object ids. places reports false
// for any other text.
func places(entries map[string]any, names map[string]string) ([]reward.Relation, bool) {
	player, known := [2]float64{}, false
	keys := slices.Sorted(maps.Keys(entries))
	for _, key := range keys {
		if !known && isPlayer(key) {
			player, known = place(entries[key])
		}
	}
	list, found := []reward.Relation{}, known
	for _, key := range keys {
		object, ok := kind(key, names)
		if !ok {
			continue
		}
		all, several := entries[key].([]any)
		_, one := place(entries[key])
		if _, pair := pairOf(object, entries[key]); one || pair || !several {
			all = []any{entries[key]}
		}
		for _, v := range all {
			if at, ok := place(v); ok && known {
				list = append(list, reward.Relate(object, cmp.Compare(at[0], player[0]), cmp.Compare(at[1], player[1])))
			} else if r, ok := pairOf(object, v); ok {
				list, found = append(list, r), true
			} else if r, ok := relationsOf(object, v); ok {
				list, found = append(list, r), true
			}
		}
	}
	return list, found
}

// stated reads the relations of a value that a text writes: a dictionary of positions, one
// relation, or a list of relations, which may be the only value of a dictionary.
func stated(value any, names map[string]string) ([]reward.Relation, bool) {
	switch v := value.(type) {
	case []any:
		return relationList(v, names)
	case map[string]any:
		if _, ok := entryName(v); ok {
			return relationList([]any{v}, names)
		}
		if list, ok := places(paired(v), names); ok {
			return list, true
		}
		if len(v) == 1 {
			for _, only := range v {
				return stated(only, names)
			}
		}
	}
	return nil, false
}

// paired returns a dictionary with keys such as goal_row and goal_column as one of positions.
func paired(entries map[string]any) map[string]any {
	var out map[string]any
	for key, v := range entries {
		name, ok := strings.CutSuffix(key, "_row")
		if !ok {
			continue
		}
		for _, end := range []string{"_column", "_col"} {
			if column, ok := entries[name+end]; ok {
				if out == nil {
					out = maps.Clone(entries)
				}
				out[name] = []any{v, column}
			}
		}
	}
	if out == nil {
		return entries
	}
	return out
}

// relationList reads a list of relations with the keys object, vertical and horizontal, or
// of objects with their rows and columns.
func relationList(entries []any, names map[string]string) ([]reward.Relation, bool) {
	list := []reward.Relation{}
	player, known := [2]float64{}, false
	for _, v := range entries {
		if entry, ok := v.(map[string]any); ok {
			if key, _ := entryName(entry); isPlayer(key) {
				player, known = place(v)
			}
		}
	}
	for _, v := range entries {
		entry, ok := v.(map[string]any)
		if row, isRow := v.([]any); isRow && len(row) == 3 {
			key, isKey := row[0].(string)
			entry, ok = map[string]any{"object_id": key, "vertical": row[1], "horizontal": row[2]}, isKey
		}
		if !ok {
			continue // says nothing, as another field of a wrong type
		}
		key, _ := entryName(entry)
		object, ok := kind(key, names)
		if !ok {
			continue
		}
		if r, ok := relationsOf(object, entry); ok {
			list = append(list, r)
		} else if at, ok := place(entry); ok && known {
			list = append(list, reward.Relate(object, cmp.Compare(at[0], player[0]), cmp.Compare(at[1], player[1])))
		}
	}
	return list, len(list) > 0
}

// entryName is the name of the object that an entry of a list is about.
func entryName(entry map[string]any) (string, bool) {
	for _, key := range objectKeys {
		if s, ok := entry[key].(string); ok {
			return s, true
		}
	}
	return "", false
}

// objectKeys are the keys and the names of columns with the name of an object.
var objectKeys = []string{"object_id", "object", "id", "name", "type", "kind", "thing", "item", "entity"}

func isPlayer(key string) bool {
	return slices.Contains([]string{"player", "agent", "me", "you"},
		strings.TrimSuffix(strings.ToLower(strings.TrimSpace(key)), "_position"))
}

// kind is the object that a key such as "boxes" or "hole_2" names.
func kind(key string, names map[string]string) (string, bool) {
	key = strings.TrimRightFunc(strings.ToLower(strings.TrimSpace(key)), func(r rune) bool {
		return unicode.IsDigit(r) || r == '_' || r == ' '
	})
	name, _, ok := english.Names(names).Kind(strings.TrimSuffix(strings.TrimSuffix(key, "_positions"), "_position"))
	return name, ok
}

// place reads a row and a column.
func place(v any) (at [2]float64, ok bool) {
	switch v := v.(type) {
	case []any:
		if len(v) != 2 {
			return at, false
		}
		row, okRow := v[0].(float64)
		column, okColumn := v[1].(float64)
		return [2]float64{row, column}, okRow && okColumn
	case map[string]any:
		row, okRow := v["row"].(float64)
		column, okColumn := v["column"].(float64)
		if !okColumn {
			column, okColumn = v["col"].(float64)
		}
		return [2]float64{row, column}, okRow && okColumn
	}
	return at, false
}

// pairOf reads the two directions of an object from a list of them.
func pairOf(object string, v any) (r reward.Relation, ok bool) {
	pair, ok := v.([]any)
	if !ok || len(pair) != 2 {
		return r, false
	}
	first, _ := pair[0].(string)
	second, _ := pair[1].(string)
	r = reward.Relation{Object: object, Vertical: english.Vertical(first),
		Horizontal: english.Horizontal(second)}
	return r, r.Vertical != "" || r.Horizontal != ""
}

// relationsOf reads the relations of an object.
func relationsOf(object string, v any) (r reward.Relation, ok bool) {
	entry, ok := v.(map[string]any)
	if !ok {
		return r, false
	}
	for _, key := range []string{"direction", "directions", "relation", "relations"} {
		if inner, nested := entry[key].(map[string]any); nested {
			entry = inner
			break
		}
	}
	r = offsets(entry)
	r.Object = object
	if r.Vertical == "" && r.Horizontal == "" {
		r.Vertical, r.Horizontal = relationIn(entry, "vertical"), relationIn(entry, "horizontal")
	}
	return r, r.Vertical != "" || r.Horizontal != ""
}

// offsets reads distances such as {"rows_down": 2, "columns_right": 0}, of which 0 is the same row or
// column. Distances to both sides state nothing.
func offsets(entry map[string]any) (r reward.Relation) {
	along := func(before, after, less, more string) string {
		a, isBefore := entry[before].(float64)
		b, isAfter := entry[after].(float64)
		switch {
		case isBefore == isAfter:
			return ""
		case a+b == 0:
			return reward.Same
		case isBefore == (a+b > 0):
			return less
		}
		return more
	}
	r.Vertical = along("rows_up", "rows_down", reward.Above, reward.Below)
	r.Horizontal = along("columns_left", "columns_right", reward.Left, reward.Right)
	return r
}

// relationIn reads one of the two directions of an object, under its full or its
// short key.
func relationIn(entry map[string]any, key string) string {
	text, ok := entry[key+"_relation"].(string)
	if !ok {
		text, _ = entry[key].(string)
	}
	if key == "vertical" {
		return english.Vertical(text)
	}
	return english.Horizontal(text)
}

// maxLiteral limits the length of a text that is read as one value.
const maxLiteral = 1 << 16

// literal reads a JSON value or a Python literal, with or without a code block around
// it; nil if the text is neither.
func literal(text string) any {
	text = pytext.Strip(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		inner = strings.TrimLeftFunc(inner, unicode.IsLetter)
		text = pytext.Strip(strings.TrimSuffix(inner, "```"))
	}
	if text == "" || len(text) > maxLiteral || text[0] != '{' && text[0] != '[' {
		return nil
	}
	if strings.HasPrefix(text, "{{") && strings.HasSuffix(text, "}}") {
		text = text[1 : len(text)-1] // prompts that double braces get them back
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil && json.Unmarshal([]byte(toJSON(text)), &v) != nil {
		return nil
	}
	return v
}

// toJSON rewrites Python's tuples, quotes and None.
func toJSON(text string) string {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
			b.WriteByte('"')
		case quote != 0 && c == '"':
			b.WriteString(`\"`)
		case quote != 0:
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
			b.WriteByte('"')
		case c == '(':
			b.WriteByte('[')
		case c == ')':
			b.WriteByte(']')
		case strings.HasPrefix(text[i:], "None"):
			b.WriteString("null")
			i += len("None") - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
