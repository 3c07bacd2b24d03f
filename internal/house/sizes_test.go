package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits of code without tests.
const (
	mostFileLines = 400
	mostFuncLines = 60
	mostFields    = 20
)

// Reasons for functions and types beyond the limits.
const (
	table    = "one table, which is read as a whole"
	grammar  = "rules in the order in which they are tried"
	settings = "settings under the names that their users know"
	state    = "the state of one thing, which is read and written together"
	steps    = "steps in order that share most of their values"
)

// larger are the functions and types beyond the limits, by file.
var larger = map[string]map[string]string{
	"advantage/batch.go":                         {"Batch": state},
	"advantage/registry.go":                      {"Params": settings},
	"cmd/vagen/worker.go":                        {"workerCommand": settings},
	"env/remote/server_options.go":               {"ServerOptions": settings},
	"internal/field/set.go":                      {"Set": table},
	"internal/traintest/tracker.go":              {"ServeHTTP": table},
	"policy/chat/options.go":                     {"Options": settings},
	"policy/loss/registry.go":                    {"Single": settings},
	"policy/vlm/internal/create/shape.go":        {"Shape": settings},
	"policy/vlm/internal/generate/read.go":       {"contextInputs": steps},
	"policy/vlm/internal/model/config.go":        {"Text": settings},
	"policy/vlm/internal/model/configjson.go":    {"configText": settings},
	"policy/vlm/internal/plan/limits.go":         {"timeOf": steps},
	"policy/vlm/options.go":                      {"Options": settings},
	"policy/vlm/tokenizer/internal/jinja/lex.go": {"tag": grammar},
	"reward/formats.go":                          {"buildFormats": table},
	"rollout/live.go":                            {"live": state},
	"rollout/player.go":                          {"Player": settings},
	"train/config/config.go":                     {"ActorConfig": settings},
	"train/config/sft.go":                        {"SFTConfig": settings},
	"train/evaluation/config.go":                 {"BackendConfig": settings},
	"train/evaluation/plan.go":                   {"task": steps},
	"train/queue/deal.go":                        {"deal": state},
	"train/run/run.go":                           {"Run": state},
	"train/run/sinks.go":                         {"open": steps},
}

// TestFilesFunctionsAndTypesStaySmall: a file has at most 400 lines, a function 60, a struct 20
// fields, except those that are listed with a reason.
func TestFilesFunctionsAndTypesStaySmall(t *testing.T) {
	left := map[string]map[string]string{}
	for file, names := range larger {
		left[file] = maps.Clone(names)
	}
	beyond := func(file, name, what string, n, most int) {
		if n <= most {
			return
		}
		if _, listed := left[file][name]; !listed {
			t.Errorf("%s: %s has %d %s, at most %d are allowed", file, name, n, what, most)
		}
		delete(left[file], name)
	}
	for name, text := range sources(t) {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		beyond(name, "the file", "lines", strings.Count(text, "\n"), mostFileLines)
		sizes(files, f, func(of, what string, n, most int) { beyond(name, of, what, n, most) })
	}
	for _, file := range slices.Sorted(maps.Keys(left)) {
		require.Empty(t, left[file], "%s: within the limits, or not there: take it off the list", file)
	}
}

// sizes reports the functions and structs of a file.
func sizes(files *token.FileSet, f *ast.File, report func(of, what string, n, most int)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
			report(n.Name.Name, "lines", lines, mostFuncLines)
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				fields := 0
				for _, field := range s.Fields.List {
					fields += max(1, len(field.Names))
				}
				report(n.Name.Name, "fields", fields, mostFields)
			}
		}
		return true
	})
}
