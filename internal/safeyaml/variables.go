package safeyaml

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Variable matches references to environment variables: ${oc.env:NAME} and ${oc.env:NAME,default}.
var Variable = regexp.MustCompile(`\$\{oc\.env:([^{},]+)(,[^{}]*)?\}`)

// text replaces the references to environment variables in a text.
func (x *expander) text(n *ast.StringNode) ast.Node {
	if !x.variables || !strings.Contains(n.Value, "${oc.env:") {
		return n
	}
	n.Value = Variable.ReplaceAllStringFunc(n.Value, func(ref string) string {
		m := Variable.FindStringSubmatch(ref)
		name := strings.TrimSpace(m[1])
		value, ok := os.LookupEnv(name)
		switch {
		case ok:
			return value
		case m[2] == "":
			x.unset = append(x.unset, fmt.Errorf("line %d: the environment variable %s is not set, and %s has no "+
				"default", n.Token.Position.Line, name, ref))
		}
		return strings.TrimSpace(strings.TrimPrefix(m[2], ","))
	})
	if n.Token.Type != token.StringType { // in quotes
		return n
	}
	switch v, err := Value([]byte(n.Value)); v.(type) {
	case nil, bool, uint64, int64, float64:
		if typed, failed := yaml.ValueToNode(v); err == nil && failed == nil {
			return typed
		}
	}
	return n
}
