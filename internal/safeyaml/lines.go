package safeyaml

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// Lines returns the lines of a text that is one mapping: those of its keys, and of the entries of their lists, such as
// "envs[1]".
func Lines(data []byte) (map[string]int, error) {
	file, err := Parse(data)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, err
	}
	body, faults := Expand(file.Docs[0].Body, false)
	return LinesOf(body), errors.Join(faults...)
}

// LinesOf returns the lines of the top-level keys of a document, and of the entries of their lists, such as "envs[1]".
func LinesOf(body ast.Node) map[string]int {
	out := map[string]int{}
	top, ok := body.(*ast.MappingNode)
	if !ok {
		return out
	}
	for _, pair := range top.Values {
		key := pair.Key.GetToken().Value
		out[key] = Line(pair.Key)
		if list, ok := pair.Value.(*ast.SequenceNode); ok {
			for i, entry := range list.Values {
				if m, ok := entry.(*ast.MappingNode); ok && len(m.Values) > 0 {
					entry = m.Values[0].Key // the position of a mapping is that of its first colon
				}
				out[fmt.Sprintf("%s[%d]", key, i)] = Line(entry)
			}
		}
	}
	return out
}

// Line returns the line of a node, 0 if it is not known.
func Line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}
