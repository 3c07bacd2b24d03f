package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources parses the files of the library's public packages, without tests.
func sources(t *testing.T) map[string]*ast.File {
	files, set := map[string]*ast.File{}, token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if private := []string{"testdata", "internal", "cmd", "studies"}; slices.Contains(private, d.Name()) ||
				strings.HasPrefix(d.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files[path], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		return err
	})
	require.NoError(t, err)
	return files
}

// TestCallsSayWhatTheyAskFor: a call such as Decode(ids, true) does not say what true is,
// so no exported function or method has a parameter of type bool. A named type with
// constants, two functions or a field of a struct say it. fallback, the value for a
// missing one, is no question and is allowed.
func TestCallsSayWhatTheyAskFor(t *testing.T) {
	seen := 0
	for path, f := range sources(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			seen++
			for _, p := range fn.Type.Params.List {
				kind, plain := p.Type.(*ast.Ident)
				if plain && kind.Name == "bool" && !(len(p.Names) == 1 && p.Names[0].Name == "fallback") {
					t.Errorf("%s: %s has the parameter %v of type bool", path, fn.Name.Name, p.Names)
				}
			}
		}
	}
	require.Greater(t, seen, 500)
}
