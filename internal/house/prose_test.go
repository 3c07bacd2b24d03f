package house_test

import (
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommandsInProseExist: commands in backquotes use existing commands and flags of vagen,
// and existing folders, tests and benchmarks.
func TestCommandsInProseExist(t *testing.T) {
	t.Parallel()
	vagen(t)
	setting := regexp.MustCompile(`^([A-Z_]+=\S+ )+`)
	for _, d := range documents(t) {
		for _, span := range d.spans {
			line := setting.ReplaceAllString(span, "")
			words := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, "vagen "):
				help := usage(t, words[1:])
				for _, w := range words {
					if strings.HasPrefix(w, "--") {
						require.Regexp(t, `(?m)^  `+w+`( |$)`, help, "%s: %s", d.name, span)
					}
				}
			case strings.HasPrefix(line, "go test "), strings.HasPrefix(line, "go run "),
				strings.HasPrefix(line, "go install ./"):
				packagesExist(t, d.name, words)
			case strings.HasPrefix(line, ".ci/"):
				require.FileExists(t, filepath.Join(root, words[0]), "%s: %s", d.name, span)
			}
		}
	}
}

// helps has the help of each command of vagen, "" for an unknown one.
var helps = map[string]string{}

// usage returns the help of the command at the start of words.
func usage(t *testing.T, words []string) string {
	name := regexp.MustCompile(`^[a-z]+$`)
	n := 0
	for n < len(words) && n < 2 && name.MatchString(words[n]) {
		n++
	}
	if words[0] == "help" {
		return command(t, root, "vagen", "help")
	}
	for ; n > 0; n-- { // the second word may be an argument
		line := strings.Join(words[:n], " ")
		help, asked := helps[line]
		if !asked {
			if out, err := exec.Command("vagen", append(words[:n:n], "--help")...).CombinedOutput(); err == nil {
				help = string(out)
			}
			helps[line] = help
		}
		if help != "" {
			return help
		}
	}
	require.Fail(t, "no such command of vagen", "%v", words)
	return ""
}

// packagesExist checks that the packages of a go command exist, and that -run and -bench
// match tests and benchmarks in them.
func packagesExist(t *testing.T, name string, words []string) {
	var dir string
	for _, w := range words {
		if strings.HasPrefix(w, "./") {
			dir = filepath.Join(root, strings.TrimSuffix(w, "/..."))
			require.DirExists(t, dir, "%s: %v", name, words)
		}
	}
	if words[1] != "test" {
		p, err := build.ImportDir(dir, 0)
		require.NoError(t, err, "%s: %v", name, words)
		require.Equal(t, "main", p.Name, "%s: %v", name, words)
		return
	}
	for i, w := range words[:len(words)-1] {
		kind := map[string]string{"-run": "Test", "-bench": "Benchmark"}[w]
		want := strings.Trim(words[i+1], "'")
		if kind == "" || want == "^$" {
			continue
		}
		want, _, _ = strings.Cut(want, "/")
		paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		var all strings.Builder
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			all.Write(raw)
		}
		found := false
		for _, m := range regexp.MustCompile(`(?m)^func `+kind+`(\w+)\(`).FindAllStringSubmatch(all.String(), -1) {
			found = found || regexp.MustCompile(want).MatchString(kind+m[1])
		}
		require.True(t, found, "%s: %v: %s has no %s that matches %q", name, words, dir, kind, want)
	}
}
