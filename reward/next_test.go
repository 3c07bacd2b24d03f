package reward

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"vagen/internal/pytext"
	"vagen/internal/testkit"
)

func nextParser(t *testing.T, format string, o ParserOptions) *Parser {
	t.Helper()
	o.Dialect = Next
	p, err := NewParser(format, o)
	require.NoError(t, err)
	return p
}

// The expectations are what Python's regular expressions give: white space is
// Unicode's and may hold line ends, case folds the four letters beyond ASCII that
// fold to i, k and s, and a dot stops at a line feed alone.
func TestSalvageReadsTextAsPythonDoes(t *testing.T) {
	p := nextParser(t, "wm", ParserOptions{})
	for text, want := range map[string]string{
		"action:\n\n Down":                         "Down",
		"action\n:Down":                            "Down",
		"\u3000Action\u00a0:\u2003Down\u00a0":      "Down",
		"x action: Down":                           "",
		"x\raction: Down":                          "", // a line starts after a line feed only
		"answer:   \naction: Down":                 "action: Down",
		"answer:":                                  "",
		"answer: \n":                               "",
		"answers: Down":                            "",
		"<ACT\u0130ON>Down</act\u0131on>":          "Down",
		"<an\u017fwer>Down</ANSWER>":               "Down",
		"<answer>Up<answer>Down</answer>":          "Up<answer>Down",
		"<action>Up</action><answer> </answer>":    "", // the first name that is there decides
		"<answer>\u0085Down\u001f</answer>":        "Down",
		"<answer>\u200bDown</answer>":              "\u200bDown", // zero-width space is no white space
		"Action: Up\rDown\nLeft":                   "Up\rDown",
		"action\naction: Up":                       "Up",
		"<answer>Down</answer\u00a0>action: x":     "",
		"\n \n\t action \n : \n Up \n Down":        "Up",
		"<|begin_of_box|>Down<|end_of_box|>":       "",
		"<answer\u00a0>Down</answer>\naction: Up ": "Up",
	} {
		r := p.Parse(text)
		require.Equal(t, want, r.Sections[SectionAnswer], "%q", text)
		require.False(t, r.FormatCorrect, "%q", text)
	}
}

func TestNextKeepsTheAnswerAndCountsExcessActions(t *testing.T) {
	p := nextParser(t, "no_think", ParserOptions{MaxActions: 2})
	r := p.Parse("<answer> Up,, Down ,Left, Right </answer>")
	require.Equal(t, []string{"up", "down"}, r.Actions)
	require.Equal(t, 2, r.Dropped)
	require.Equal(t, "Up,, Down ,Left, Right", r.Sections[SectionAnswer])
	require.True(t, r.FormatCorrect)
	p = nextParser(t, "no_think", ParserOptions{KeepCase: true, ActionSep: "|"})
	require.Equal(t, []string{"Pick(1,2,3)", "Place(1,2,3)"}, p.Parse("<answer>Pick(1,2,3)|Place(1,2,3)</answer>").Actions)
}

func TestNextRefusesOptionsOfOtherDialects(t *testing.T) {
	_, err := NewParser("wm", ParserOptions{Dialect: Next, SpecialTokens: []string{"<think>"}})
	require.ErrorContains(t, err, "legacy dialect")
	for _, o := range []ParserOptions{{KeepCase: true}, {AnswerBox: true}} {
		_, err = NewParser("wm", o)
		require.ErrorContains(t, err, "next dialect")
	}
	_, err = NewParser("wm_thinking", ParserOptions{Dialect: Next})
	testkit.Error(t, err, ErrFormat, `did you mean "wm_think"`)
}

// Other tests check this for the other dialects. A quadratic parser would take minutes for
// these texts.
func TestNextIsLinearInHostileText(t *testing.T) {
	for _, piece := range []string{"<answer>", "answer", "answer\n", "answer:", "\n ", "<", "</think>", "<think>",
		"\u0130", "answer\n\n\n"} {
		text := strings.Repeat(piece, 1<<18)
		for _, format := range Formats(Next) {
			nextParser(t, format, ParserOptions{AnswerBox: true}).Parse(text)
		}
	}
}

// space is Python's white space.
const space = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*`

// pythonPattern is what the original matchers say, in Go's regular expressions:
// with Python's white space, and the letters that fold to i and s.
func pythonPattern(name string, label bool) *regexp.Regexp {
	name = strings.ReplaceAll(name, "i", "[iI\u0130\u0131]")
	if label {
		return regexp.MustCompile(`(?im)^` + space + name + space + `:` + space + `(.+)$`)
	}
	return regexp.MustCompile(`(?is)<` + name + `>(.*?)</` + name + `>`)
}

func compareSalvage(t *testing.T, text string) {
	t.Helper()
	for _, names := range aliases {
		for _, name := range names {
			for _, label := range []bool{false, true} {
				want := pythonPattern(name, label).FindStringSubmatch(text)
				find := looseBlock
				if label {
					find = labelled
				}
				got, ok := find(text, name)
				if ok != (want != nil) || ok && pytext.Strip(got) != pytext.Strip(want[1]) {
					t.Fatalf("%s, label %t: found %t, %q in %q, want %q", name, label, ok, got, text, want)
				}
			}
		}
	}
}

func FuzzSalvage(f *testing.F) {
	for _, text := range []string{"", "Action:\n Up", "<ACT\u0130ON>a</act\u0131on>", "x\n\u3000answer\u00a0: \n\n",
		"<thin\u212a></think>:", "\xffthought:\xfe"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if utf8.ValidString(text) { // a regular expression's dot takes one byte at a time of what is not
			compareSalvage(t, text)
		}
	})
}

// Random strings of relevant parts, which plain fuzzing seldom generates.
func TestSalvageMatchesAsRegularExpressionsDo(t *testing.T) {
	tokens := []string{" ", "\n", "\r", ":", "\u00a0", "\u200b", "x", "act\u0131on", "\u0130", "thin\u212a"}
	for _, names := range aliases {
		for _, name := range names {
			tokens = append(tokens, name, name+":", "\n"+strings.ToUpper(name)+" :", "<"+name+">", "</"+strings.ToTitle(name)+
				">", "</"+name+">")
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			b.WriteString(tokens[r.IntN(len(tokens))])
		}
		compareSalvage(t, b.String())
	}
}
