package tokenizer

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// cutAll cuts s with a scanner.
func cutAll(scan scanner, s string) []string {
	var list []string
	for s != "" {
		n := scan(s)
		list = append(list, s[:n])
		s = s[n:]
	}
	return list
}

func TestScannersCutAsTheirPatterns(t *testing.T) {
	qwen, llama, gpt2 := patterns[patternQwen2], patterns[patternHead+`\p{N}{1,3}`+patternTail], patterns[patternGPT2]
	for _, c := range []struct {
		scan scanner
		text string
		want []string
	}{
		{qwen, "Hello  world 1234", []string{"Hello", " ", " world", " ", "1", "2", "3", "4"}},
		{llama, "Hello  world 12345", []string{"Hello", " ", " world", " ", "123", "45"}},
		{gpt2, "Hello  world 12345", []string{"Hello", " ", " world", " 12345"}},
		{qwen, "I'll DON'T'ſ O'C", []string{"I", "'ll", " DON", "'T", "'ſ", " O", "'C"}},
		{gpt2, "I'll DON'T", []string{"I", "'ll", " DON", "'", "T"}},
		{qwen, "a \n\n b\t\tc", []string{"a", " \n\n", " b", "\t", "\tc"}},
		{qwen, "x!!\n\ny", []string{"x", "!!\n\n", "y"}},
		{gpt2, "x!!\n\ny", []string{"x", "!!", "\n", "\n", "y"}},
		{qwen, "!go (there) ", []string{"!go", " (", "there", ")", " "}},
		{qwen, "   \n   end", []string{"   \n", "  ", " end"}},
		{qwen, "½Ⅷ٣", []string{"½", "Ⅷ", "٣"}},
		{scanDigits(true), "ab12c", []string{"ab", "1", "2", "c"}},
		{scanDigits(false), "ab12c", []string{"ab", "12", "c"}},
	} {
		require.Equal(t, c.want, cutAll(c.scan, c.text), "%q", c.text)
	}
}

// reference is a pattern as Go's own engine runs it, with the alternative that
// needs a look-ahead done by hand. Go prefers alternatives in order too.
type reference struct{ before, after *regexp.Regexp }

func newReference(pattern string) reference {
	before, after, _ := strings.Cut(pattern, `|\s+(?!\S)`)
	compile := func(p string) *regexp.Regexp {
		p = strings.ReplaceAll(p, `[^\s`, `[^`+space)
		p = strings.ReplaceAll(p, `\s`, `[`+space+`]`)
		return regexp.MustCompile(`^(?:` + p + `)`)
	}
	return reference{compile(before), compile(strings.TrimPrefix(after, "|"))}
}

// space is Unicode white space; Go's \s is ASCII's.
const space = "\\t\\n\\v\\f\\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

var (
	spaceRun  = regexp.MustCompile(`^[` + space + `]+`)
	spaceLast = regexp.MustCompile(`[` + space + `]$`)
)

func (r reference) scan(s string) int {
	if m := r.before.FindString(s); m != "" {
		return len(m)
	}
	if run := spaceRun.FindString(s); run != "" {
		if len(run) == len(s) {
			return len(run)
		}
		if last := spaceLast.FindString(run); len(last) < len(run) {
			return len(run) - len(last)
		}
	}
	return len(r.after.FindString(s))
}

func FuzzScanners(f *testing.F) {
	for _, s := range []string{"Hello  world 1234", "I'll DON'T 'ſ 'K", "a \n\n b\t\tc", "x!!\r\ny",
		"  \u00a0x\u2003\n \u3000", "½Ⅷ٣'ſt", "'", "''s 'RE", "é\u0301 \u200d"} {
		f.Add(s)
	}
	refs := map[string]reference{}
	for pattern := range patterns {
		refs[pattern] = newReference(pattern)
	}
	f.Fuzz(func(t *testing.T, s string) {
		newer := func(r rune) bool { return unicode.In(r, newLetters, newDigits) } // than Go's engine
		if !utf8.ValidString(s) || len(s) > 1000 || strings.ContainsFunc(s, newer) {
			return
		}
		for pattern, scan := range patterns {
			got, want := cutAll(scan, s), cutAll(refs[pattern].scan, s)
			if strings.Join(got, "\x00|") != strings.Join(want, "\x00|") {
				t.Fatalf("%q by %s: %q, want %q", s, pattern, got, want)
			}
		}
	})
}
