package house_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryPackageHasARunnableExample: an example with an output is compiled and run by go
// test, so that it stays right.
func TestEveryPackageHasARunnableExample(t *testing.T) {
	dirs := map[string]bool{}
	for name := range sources(t) {
		if dir := path.Dir(name); dir != "." && !private.MatchString(name) && !strings.HasPrefix(dir, "examples") {
			dirs[dir] = true
		}
	}
	require.Greater(t, len(dirs), 30)
	for dir := range dirs {
		tests, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		require.NoError(t, err)
		var files []*ast.File
		for _, file := range tests {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			require.NoError(t, err)
			files = append(files, f)
		}
		found := false
		for _, e := range doc.Examples(files...) {
			found = found || e.Output != ""
		}
		if !found {
			t.Errorf("%s has no example with an output", dir)
		}
	}
}
