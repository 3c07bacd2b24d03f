package read

import (
	"encoding/json"
	"strconv"
	"strings"

	"vagen/reward"
	"vagen/reward/judge/internal/english"
)

// records reads a claim that is written as several dictionaries, as YAML or as a table.
func records(text string, names map[string]string) ([]reward.Relation, bool) {
	if strings.IndexByte(text, '{') >= 0 {
		if values := objectLines(text); values != nil {
			return stated(values, names)
		}
		if list, ok := enclosed(text, names); ok {
			return list, true
		}
	}
	if strings.IndexByte(text, '\n') < 0 {
		return nil, false
	}
	if list, ok := stated(yamlValue(text), names); ok {
		return list, true
	}
	return stated(tableValue(text), names)
}

// enclosed reads the only dictionary within other words.
func enclosed(text string, names map[string]string) ([]reward.Relation, bool) {
	from := strings.IndexByte(text, '{')
	n := closing(text[from:])
	if n == 0 || strings.IndexByte(text[from+n:], '{') >= 0 {
		return nil, false
	}
	list, ok := stated(literal(text[from:from+n]), names)
	if ok && !english.Asserts(text[:from]+" "+text[from+n:], names, false) {
		return []reward.Relation{}, true
	}
	return list, ok
}

// objectLines reads several JSON or Python dictionaries, one after another with at most
// commas and white space between them; nil for any other text.
func objectLines(text string) []any {
	var list []any
	for rest := strings.Trim(unfenced(text), ", \t\r\n"); rest != ""; rest = strings.TrimLeft(rest, ", \t\r\n") {
		n := closing(rest)
		if n == 0 || len(list) == maxRecords {
			return nil
		}
		v := literal(rest[:n])
		if v == nil {
			return nil
		}
		list, rest = append(list, v), rest[n:]
	}
	return list
}

// maxRecords limits the entries that are read of one text.
const maxRecords = 256

// closing returns the length of the text up to the brace that closes the one it starts
// with, 0 without one. Braces within strings do not count.
func closing(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case i == 0 && c != '{':
			return 0
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// unfenced returns the inside of a block of code, or the text.
func unfenced(text string) string {
	text = strings.TrimFunc(text, pythonSpace)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if name, rest, ok := strings.Cut(inner, "\n"); ok && !strings.ContainsAny(name, " :[{") {
		inner = rest
	}
	return strings.TrimSuffix(inner, "```")
}

// record is a line of YAML: its depth, whether it starts an item of a list, its key and
// its value.
type record struct {
	indent     int
	item       bool
	key, value string
}

// yamlValue reads the part of YAML that a list of relations or positions needs: nested
// mappings and lists, and values on one line. nil for any other text.
func yamlValue(text string) any {
	text = unfenced(text)
	if strings.IndexByte(text, ':') < 0 || len(text) > maxLiteral {
		return nil
	}
	var lines []record
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		body := strings.TrimLeft(line, " \t")
		if body == "" || body == "---" {
			continue
		}
		r := record{indent: len(line) - len(body)}
		if after, ok := strings.CutPrefix(body, "- "); ok {
			r.item = true
			r.indent += 2
			body = after
		}
		key, value, ok := strings.Cut(body, ":")
		if !ok || len(lines) == maxRecords || strings.ContainsAny(key, " ,.()[]{}\t") && !r.item || value != "" &&
			value[0] != ' ' {
			return nil
		}
		r.key, r.value = strings.Trim(key, `"'`+"`"), strings.TrimSpace(value)
		lines = append(lines, r)
	}
	if len(lines) == 0 {
		return nil
	}
	v, rest := yamlBlock(lines, 0)
	if len(rest) > 0 {
		return nil
	}
	return v
}

// maxDepth limits how deep values are nested.
const maxDepth = 6

// yamlBlock reads the lines of the first one's depth, with what is below them.
func yamlBlock(lines []record, depth int) (any, []record) {
	if depth == maxDepth {
		return nil, nil
	}
	indent := lines[0].indent
	var list []any
	entry := make(map[string]any)
	for first := true; len(lines) > 0 && lines[0].indent == indent; first = false {
		l := lines[0]
		if l.item && !first {
			list, entry = append(list, entry), make(map[string]any)
		} else if l.item {
			list = []any{}
		}
		lines = lines[1:]
		for key, n := l.key, 2; ; n++ { // a key that occurs again is another object
			if _, taken := entry[l.key]; !taken {
				break
			}
			l.key = key + "_" + strconv.Itoa(n)
		}
		if l.value == "" && len(lines) > 0 && (lines[0].indent > indent || lines[0].item && !l.item && list == nil &&
			lines[0].indent == indent) {
			entry[l.key], lines = yamlBlock(lines, depth+1)
			continue
		}
		entry[l.key] = yamlScalar(l.value)
	}
	if list != nil {
		return append(list, entry), lines
	}
	return entry, lines
}

// yamlScalar reads a value on one line: a number, words, or a list or mapping in brackets.
func yamlScalar(s string) any {
	if s == "" || s == "null" || s == "~" {
		return nil
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return n
	}
	if s[0] == '[' || s[0] == '{' || s[0] == '(' {
		var v any
		if json.Unmarshal([]byte(toJSON(quoted(s))), &v) == nil {
			return v
		}
	}
	return strings.Trim(s, `"'`)
}

// quoted puts the bare words of a value in brackets between quotation marks.
func quoted(s string) string {
	var b strings.Builder
	inside := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if inside != 0 || c == '"' || c == '\'' {
			if inside == 0 {
				inside = c
			} else if inside == c {
				inside = 0
			}
			b.WriteByte(c)
			continue
		}
		end := i
		for end < len(s) && (isLetter(s[end]) || s[end] == '_') {
			end++
		}
		switch word := s[i:end]; word {
		case "":
			b.WriteByte(c)
			continue
		case "null", "true", "false":
			b.WriteString(word)
		default:
			b.WriteString(strconv.Quote(word))
		}
		i = end - 1
	}
	return b.String()
}

// tableValue reads a table with one object in a row: its first line names the columns,
// which bars, commas, tabs or several spaces separate. nil for any other text.
func tableValue(text string) any {
	text = unfenced(text)
	head, _, ok := strings.Cut(text, "\n")
	if lower := strings.ToLower(head); !ok || !strings.Contains(lower, "vertical") && !strings.Contains(lower, "row") {
		return nil
	}
	var names []string
	var list []any
	for line := range strings.Lines(text) {
		if strings.Trim(line, "|-+:= \t\r\n") == "" {
			continue
		}
		cells := tableCells(line)
		if names == nil {
			names = columnNames(cells)
			if names == nil {
				return nil
			}
			continue
		}
		if len(cells) != len(names) || len(list) == maxRecords {
			return nil
		}
		entry := make(map[string]any, len(cells))
		for i, c := range cells {
			entry[names[i]] = yamlScalar(strings.ToLower(strings.Trim(c, "*_`")))
		}
		list = append(list, entry)
	}
	return list
}

// tableCells splits a line of a table.
func tableCells(line string) []string {
	line = strings.Trim(line, "| \t\r\n")
	separator := "|"
	switch {
	case strings.Contains(line, "|"):
	case strings.Contains(line, "\t"):
		separator = "\t"
	case strings.Contains(line, ","):
		separator = ","
	default:
		separator = "  "
	}
	var cells []string
	for c := range strings.SplitSeq(line, separator) {
		if c = strings.TrimSpace(c); c != "" || separator == "|" || separator == "," {
			cells = append(cells, c)
		}
	}
	return cells
}

// columnNames returns the keys of a table's columns: the object, and two of its directions
// or its position. nil without these.
func columnNames(cells []string) []string {
	names := make([]string, len(cells))
	object, vertical, horizontal := false, false, false
	for i, c := range cells {
		c = strings.ToLower(strings.Trim(c, "*_`"))
		switch {
		case strings.HasPrefix(c, "vertical"):
			c, vertical = "vertical", true
		case strings.HasPrefix(c, "horizontal"):
			c, horizontal = "horizontal", true
		case c == "row":
			vertical = true
		case c == "col" || c == "column":
			c, horizontal = "column", true
		case strings.HasPrefix(c, "object") || c == "name" || c == "thing" || c == "item" || c == "id" || c == "kind" ||
			c == "type" || c == "entity":
			if !object {
				c, object = "object", true
			}
		}
		names[i] = c
	}
	if !object || !vertical || !horizontal {
		return nil
	}
	return names
}
