package read

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"vagen/internal/floats"
	"vagen/internal/pytext"
	"vagen/internal/safeyaml"
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

// Limits of the entries that are read of one text, and of the columns of a table of them.
const (
	maxRecords = 256
	maxColumns = 64
)

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
	text = pytext.Strip(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if name, rest, ok := strings.Cut(inner, "\n"); ok && !strings.ContainsAny(name, " :[{") {
		inner = rest
	}
	return strings.TrimSuffix(inner, "```")
}

// yamlValue reads nested mappings and lists in YAML, with a key on each line; nil for any other text.
func yamlValue(text string) any {
	text = unfenced(text)
	for line := range strings.Lines(text) {
		if strings.IndexByte(line, ':') < 0 && strings.Trim(line, "- \t\r\n") != "" {
			return nil
		}
	}
	return yamlText(text)
}

// tuples writes Python's as lists of YAML.
var tuples = strings.NewReplacer("(", "[", ")", "]")

// yamlText reads a value in YAML; nil for any other text.
func yamlText(text string) any {
	if len(text) > maxLiteral {
		return nil
	}
	file, err := safeyaml.Parse([]byte(tuples.Replace(text)), parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	return yamlNode(file.Docs[0].Body)
}

func yamlNode(n ast.Node) any {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		return yamlPairs(n.Values)
	case *ast.MappingValueNode:
		return yamlPairs([]*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, v := range n.Values {
			list[i] = yamlNode(v)
		}
		return list
	}
	text := n.GetToken().Value
	if x, err := strconv.ParseFloat(text, 64); err == nil && floats.Finite(x) {
		return x
	}
	return text
}

// yamlPairs returns a mapping. A key that occurs again is another object.
func yamlPairs(pairs []*ast.MappingValueNode) map[string]any {
	entry, again := make(map[string]any, len(pairs)), map[string]int{}
	for _, p := range pairs {
		name := p.Key.GetToken().Value
		key, n := name, again[name]
		for _, taken := entry[key]; taken; _, taken = entry[key] {
			n++
			key = name + "_" + strconv.Itoa(n+1)
		}
		again[name] = n
		entry[key] = yamlNode(p.Value)
	}
	return entry
}

// tableValue reads a table with one object in a row: its first line names the columns,
// which bars, commas, tabs or several spaces separate. nil for any other text.
func tableValue(text string) any {
	text = unfenced(text)
	if len(text) > maxLiteral {
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
			c = strings.ToLower(strings.Trim(c, "*_`"))
			if entry[names[i]] = yamlText(c); entry[names[i]] == nil {
				entry[names[i]] = c
			}
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
// or its position. nil without these, and of more than maxColumns.
func columnNames(cells []string) []string {
	if len(cells) > maxColumns {
		return nil
	}
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
		case strings.HasPrefix(c, "object") || slices.Contains(objectKeys, c):
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
