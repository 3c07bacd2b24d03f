package safeyaml

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// Expand replaces the aliases of a parsed document by the values to which they refer, and its
// merge keys "<<" by the pairs of the mappings that they name: keys of the mapping itself come
// first, then those of earlier mappings. With variables it also replaces the references to environment variables in
// texts, see Variable. A text without quotes may become a number, true, false or null by that, as if the document had
// the values in it. The errors are about all variables that are not set and have no default, and the first other one.
func Expand(n ast.Node, variables bool) (ast.Node, []error) {
	x := expander{anchors: map[string]ast.Node{}, variables: variables}
	n, err := x.node(n)
	if err != nil {
		return nil, append(x.unset, err)
	}
	return n, x.unset
}

// expander has the expanded values of the anchors so far. A value with several aliases is
// shared, so that the expansion takes no memory.
type expander struct {
	anchors   map[string]ast.Node
	variables bool
	unset     []error // variables
}

func (x *expander) node(n ast.Node) (_ ast.Node, err error) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		v, err := x.node(n.Value)
		x.anchors[n.Name.String()] = v
		return v, err
	case *ast.AliasNode:
		v, ok := x.anchors[n.Value.String()]
		if !ok {
			return nil, fmt.Errorf("line %d: *%s has no anchor before it", n.GetToken().Position.Line, n.Value)
		}
		return v, nil
	case *ast.StringNode:
		return x.text(n), nil
	case *ast.LiteralNode:
		x.text(n.Value)
	case *ast.TagNode:
		n.Value, err = x.node(n.Value)
		return n, err
	case *ast.SequenceNode:
		for i := range n.Values {
			if n.Values[i], err = x.node(n.Values[i]); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		n.Value, err = x.node(n.Value)
		return n, err
	case *ast.MappingNode:
		return n, x.mapping(n)
	}
	return n, nil
}

func (x *expander) mapping(n *ast.MappingNode) error {
	var own, merged []*ast.MappingValueNode
	known := map[string]bool{}
	for _, p := range n.Values {
		v, err := x.node(p.Value)
		if err != nil {
			return err
		}
		if p.Value = v; p.Key.Type() != ast.MergeKeyType {
			own, known[p.Key.String()] = append(own, p), true
			continue
		}
		sources := []ast.Node{v}
		if list, ok := v.(*ast.SequenceNode); ok {
			sources = list.Values
		}
		for _, s := range sources {
			m, ok := s.(*ast.MappingNode)
			if !ok {
				return fmt.Errorf("line %d: << must have a mapping or a list of mappings", p.GetToken().Position.Line)
			}
			merged = append(merged, m.Values...)
		}
	}
	for _, p := range merged {
		if key := p.Key.String(); !known[key] {
			own, known[key] = append(own, p), true
		}
	}
	n.Values = own
	return nil
}
