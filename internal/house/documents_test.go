package house_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a fenced block of a document, or a program in doc.go.
type block struct {
	lang string // go, go.mod, sh, yaml or text
	text string
	line int
}

// document is a text file with programs and commands.
type document struct {
	name, path, text string

	blocks []block
	spans  []string // inline code, in order
}

var span = regexp.MustCompile("`([^`]+)`")

// documents returns README.md, CONTRIBUTING.md, the files of docs and the comment of the
// root package.
func documents(t *testing.T) []document {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	paths = append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
	all := []document{comments(t)}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, markdown(path, string(raw)))
	}
	return all
}

func markdown(path, text string) document {
	d := document{name: filepath.Base(path), path: path, text: text}
	inside, prose := false, ""
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && !inside:
			d.blocks = append(d.blocks, block{lang: strings.TrimPrefix(line, "```"), line: i + 1})
			inside = true
		case fence:
			inside = false
		case inside:
			d.blocks[len(d.blocks)-1].text += line + "\n"
		default:
			prose += line + "\n"
		}
	}
	for _, m := range span.FindAllStringSubmatch(prose, -1) {
		d.spans = append(d.spans, strings.ReplaceAll(m[1], "\n", " "))
	}
	return d
}

// comments reads doc.go: its code blocks are programs, except the list of packages.
func comments(t *testing.T) document {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, filepath.Join(root, "doc.go"), nil, parser.ParseComments)
	require.NoError(t, err)
	d := document{name: "doc.go"}
	for _, b := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		if code, ok := b.(*comment.Code); ok && !strings.HasPrefix(code.Text, "mask ") {
			d.blocks = append(d.blocks, block{lang: "go", text: code.Text})
		}
	}
	return d
}

// TestEveryBlockIsChecked: every block is a program, a command, a file that they read, the
// lines of a go.mod, or the imports between packages; other tests of this package use each
// kind.
func TestEveryBlockIsChecked(t *testing.T) {
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			switch b.lang {
			case "go":
				require.Regexp(t, `^package main\n`, b.text, "%s:%d: a Go block is a whole program", d.name, b.line)
			case "yaml":
				require.Regexp(t, `^# [a-z]+\.yaml\n`, b.text,
					"%s:%d: the first line of a YAML block is a comment with the name of the file", d.name, b.line)
			case "text":
				require.Regexp(t, arrow, b.text, "%s:%d: a block of text is the arrows between packages", d.name, b.line)
			case "python":
				require.Regexp(
					t,
					`^# (python )?[a-z_]+\.py`,
					b.text,
					"%s:%d: the first line of a script names its file",
					d.name,
					b.line,
				)
			case "go.mod", "sh":
			default:
				require.Fail(t, "block of an unknown language", "%s:%d: %q; known are go, go.mod, python, sh, yaml and text",
					d.name, b.line, b.lang)
			}
		}
	}
}
