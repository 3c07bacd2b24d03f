package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// private are the files that no other module imports.
var private = regexp.MustCompile(`(^|/)(internal|cmd|studies)/`)

// TestCallsSayWhatTheyAskFor: a call such as Decode(ids, true) does not say what true is,
// so no exported function or method has a parameter of type bool. A named type with
// constants, two functions or a field of a struct say it. fallback, the value for a
// missing one, is no question and is allowed.
func TestCallsSayWhatTheyAskFor(t *testing.T) {
	seen := 0
	for name, text := range sources(t) {
		if private.MatchString(name) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			seen++
			for _, p := range fn.Type.Params.List {
				kind, plain := p.Type.(*ast.Ident)
				if plain && kind.Name == "bool" && !(len(p.Names) == 1 && p.Names[0].Name == "fallback") {
					t.Errorf("%s: %s has the parameter %v of type bool", name, fn.Name.Name, p.Names)
				}
			}
		}
	}
	require.Greater(t, seen, 500)
}
