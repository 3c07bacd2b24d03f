package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// without are the settings that no code reads, because both values mean the same here.
var without = []string{"trainer.skip_pad_tokens", "trainer.replace_image_tokens_for_logging"}

// checks are files that only check settings.
var checks = []string{"check.go", "unread.go", "unread_check.go"}

// TestEverySettingIsRead: the field of every key is read by code that does more than
// check it, in this package, the loop, package run or the command. Keys that are not settings
// are refused, noted, or another name of one. Fields are identified only by their Go names,
// so the test finds a setting that no code reads only if no other field has its name.
func TestEverySettingIsRead(t *testing.T) {
	read := map[string]bool{}
	for _, dir := range []string{".", "..", "../run", "../run/internal/upload", "../sft", "../engines", "../envs", "../worker", "../../cmd/vagen"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") && !slices.Contains(checks, path) {
				selectors(t, path, read)
			}
		}
	}
	count := map[string]int{}
	for _, s := range config.Settings() {
		count[s.Kind]++
		require.Contains(t, []string{"setting", "refused", "noted", "alias"}, s.Kind, s.Key)
	}
	fields := map[string][]string{}
	walkFields(reflect.TypeFor[config.Config](), "", nil, fields)
	require.Len(t, fields, count["setting"])
	for key, names := range fields {
		found := read[names[len(names)-1]]
		if slices.Contains(without, key) {
			require.False(t, found, "%s is read by now: take it off the list", key)
			continue
		}
		require.True(t, found, "nothing reads %s (%s)", key, strings.Join(names, "."))
	}
	t.Logf("%d settings, %d refused, %d noted, %d other names", count["setting"], count["refused"], count["noted"], count["alias"])
}

// walkFields lists the Go names that lead to each setting.
func walkFields(of reflect.Type, prefix string, names []string, out map[string][]string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		path := append(append([]string{}, names...), f.Name)
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			walkFields(f.Type, prefix, names, out)
		case f.Type.Kind() == reflect.Struct:
			walkFields(f.Type, prefix+name+".", path, out)
		case name != "":
			out[prefix+name] = path
		}
	}
}

// selectors collects the names after dots in a file, without those in methods of the
// validator.
func selectors(t *testing.T, path string, out map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Recv != nil && receiver(f) == "validator" {
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			out[s.Sel.Name] = true
		}
		return true
	})
}

// receiver is the type of a method's receiver.
func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
