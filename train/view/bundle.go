package view

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// The modules of the page import names from files beside them and export declarations,
// nothing else. That is enough to put them into one script.
var (
	importLine = regexp.MustCompile(`(?m)^import \{ ([\w, $]+) \} from '\./([\w.]+)';\n`)
	exportWord = regexp.MustCompile(`(?m)^export (async function|function|class|const|let) (\w+)`)
	scriptLine = regexp.MustCompile(`<script type="module" src="([\w.]+)"></script>`)
	styleLine  = regexp.MustCompile(`<link rel="stylesheet" href="([\w.]+)">`)
	iconLine   = regexp.MustCompile(`<link rel="icon"[^>]*>\n`)
)

// bundle is the page as one HTML text. data is a script that defines the page's data; the
// content security policy in the text allows it, the page's script and its style, and
// images within the text, nothing else.
func bundle(files fs.FS, data string) (string, error) {
	raw, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return "", err
	}
	page := string(raw)
	script, style := scriptLine.FindStringSubmatch(page), styleLine.FindStringSubmatch(page)
	if script == nil || style == nil {
		return "", fmt.Errorf("index.html has no script or no style")
	}
	m := modules{files: files, done: map[string]bool{}}
	if err := m.add(script[1]); err != nil {
		return "", err
	}
	code := "'use strict';\n" + m.out.String()
	css, err := fs.ReadFile(files, style[1])
	if err != nil {
		return "", err
	}
	for _, text := range []string{code, string(css), data} {
		if i := strings.Index(strings.ToLower(text), "</s"); i >= 0 || strings.Contains(text, "<!--") {
			return "", fmt.Errorf("a script or a style contains </s or <!--, which would end its element or begin a comment")
		}
	}
	csp := fmt.Sprintf("default-src 'none'; script-src %s %s; style-src %s; img-src data:; base-uri 'none'; form-action 'none'", hash(data), hash(code), hash(string(css)))
	page = iconLine.ReplaceAllLiteralString(page, "")
	page = strings.Replace(page, "<meta name=\"viewport\"", "<meta http-equiv=\"Content-Security-Policy\" content=\""+csp+
		"\">\n<meta name=\"viewport\"", 1)
	page = strings.Replace(page, style[0], "<style>"+string(css)+"</style>", 1)
	return strings.Replace(page, script[0], "<script>"+data+"</script>\n<script>"+code+"</script>", 1), nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// modules writes modules one after the other, each after those that it imports. Each
// becomes a function, so that its names stay its own, and the object of its exports.
type modules struct {
	files fs.FS
	done  map[string]bool // true when written, false while its imports are
	out   strings.Builder
}

func (m *modules) add(name string) error {
	if done, met := m.done[name]; met {
		if !done {
			return fmt.Errorf("%s imports itself through other modules", name)
		}
		return nil
	}
	m.done[name] = false
	raw, err := fs.ReadFile(m.files, name)
	if err != nil {
		return err
	}
	code := string(raw)
	for _, i := range importLine.FindAllStringSubmatch(code, -1) {
		if err := m.add(i[2]); err != nil {
			return err
		}
	}
	code = importLine.ReplaceAllStringFunc(code, func(line string) string {
		i := importLine.FindStringSubmatch(line)
		return "const { " + i[1] + " } = " + object(i[2]) + ";\n"
	})
	var names []string
	for _, e := range exportWord.FindAllStringSubmatch(code, -1) {
		names = append(names, e[2])
	}
	code = exportWord.ReplaceAllString(code, "$1 $2")
	if word := regexp.MustCompile(`(?m)^(import|export)\b.*`).FindString(code); word != "" {
		return fmt.Errorf("%s: %q: reports support only imports and exports of names", name, word)
	}
	fmt.Fprintf(&m.out, "const %s = (() => {\n%sreturn { %s };\n})();\n", object(name), code, strings.Join(names, ", "))
	m.done[name] = true
	return nil
}

// object is the constant with the exports of a module.
func object(name string) string { return "module_" + strings.ReplaceAll(name, ".", "_") }
