package reward

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/pytext"
	"vagen/internal/testkit"
)

func parser(t testing.TB, name string, o ParserOptions) *Parser {
	t.Helper()
	p, err := NewParser(name, o)
	require.NoError(t, err)
	return p
}

func TestUnknownFormatsAreNamedWithWhatIsKnown(t *testing.T) {
	_, err := NewParser("free_thnik", ParserOptions{Dialect: Legacy})
	testkit.Error(t, err, ErrFormat, `did you mean "free_think"?`, "grounding_worldmodeling_symbolic")
	_, err = NewParser("grounding", ParserOptions{})
	testkit.Error(t, err, ErrFormat, `"lite"`)
	_, err = NewParser("wm", ParserOptions{Dialect: "heavy"})
	testkit.Error(t, err, ErrFormat, "lite_navigation")
	_, err = NewParser("wm", ParserOptions{MaxActions: -1})
	require.ErrorContains(t, err, "max_actions is -1")
	_, err = NewParser("wm", ParserOptions{SpecialTokens: []string{"<x>"}})
	require.ErrorContains(t, err, "legacy")
	_, err = NewParser("grounding", ParserOptions{Dialect: Legacy, SpecialTokens: []string{""}})
	require.ErrorContains(t, err, "empty")
	require.Nil(t, Formats("heavy"))
}

func TestNoResponseHasTheFormatOfTheZeroParser(t *testing.T) {
	var p Parser
	require.Equal(t, Response{Raw: "<answer>a</answer>", Sections: map[string]string{}}, p.Parse("<answer>a</answer>"))
	require.Equal(t, "<think>b</think>a", p.Rejoin("b", "a"))
	require.Empty(t, p.Format()+string(p.Dialect())+p.Compose(nil)+p.Canonical(Response{}))
	require.Empty(t, p.Sections())
}

func TestObservePredictRunsMovesOfBrokenResponses(t *testing.T) {
	p := parser(t, ObservePredict, ParserOptions{MaxActions: 2})
	r := p.Parse("<think>\n<observation> goal up left </observation> <prediction>goal same left</prediction></think><answer>Up,LEFT,Up</answer>\n")
	require.True(t, r.FormatCorrect)
	require.Equal(t, map[string]string{"observation": "goal up left", "prediction": "goal same left",
		"think":  "<observation> goal up left </observation><prediction>goal same left</prediction>",
		"answer": "up,left"}, r.Sections)
	require.Equal(t, []string{"up", "left"}, r.Actions)

	r = p.Parse("<think><observation>goal up left</prediction></think><answer>Up</answer><answer>Down</answer>")
	require.False(t, r.FormatCorrect)
	require.Equal(t, []string{"up"}, r.Actions)
	require.Equal(t, map[string]string{"answer": "Up"}, r.Sections)

	r = p.Parse("<answer>Up")
	require.Empty(t, r.Actions)
	require.Equal(t, []string{"Up"}, parser(t, ObservePredict, ParserOptions{Dialect: Legacy}).Parse(
		"<answer>Up</answer>").Actions)
}

func TestComposedResponsesAreParsedAgain(t *testing.T) {
	for _, d := range Dialects() {
		for _, name := range Formats(d) {
			p := parser(t, name, ParserOptions{Dialect: d, ActionSep: "|"})
			r := p.Parse(p.Compose(func(section string) string {
				if section == SectionAnswer {
					return "up|down"
				}
				return "my " + section
			}))
			require.True(t, r.FormatCorrect, "%s %s", d, name)
			require.Equal(t, []string{"up", "down"}, r.Actions, "%s %s", d, name)
			for _, section := range p.Sections() {
				if section != SectionAnswer {
					require.Equal(t, "my "+section, r.Sections[section], "%s %s", d, name)
				}
			}
			require.Equal(t, d, p.Dialect())
			require.Equal(t, name, p.Format())
			require.True(t, d != Next || p.Parse(p.Canonical(r)).FormatCorrect, name)
		}
	}
}

func TestLowerIsPythons(t *testing.T) {
	// The results of str.lower of Python 3.11.
	for in, want := range map[string]string{
		"LEFT": "left", "İ": "i̇", "ΟΔΟΣ": "οδος", "ΣΑΣ ΣΑΣ": "σας σας", "Σ": "σ", "ΑΣ.Β": "ασ.β", "ΑΣ'": "ας'", "ẞ": "ß",
		"ΑΣ\u0301": "ας\u0301", "1Σ": "1σ", "ΑΣ1": "ας1",
	} {
		require.Equal(t, want, lower(in), "%q", in)
	}
}

// oracle is the shape as the regular expression of its comment. Go's engine
// prefers matches as Python's does and takes linear time, so that the two can be
// compared on anything.
func (f *format) oracle(whole bool) *regexp.Regexp {
	key := oracleKey{f, whole}
	if re, ok := oracles.Load(key); ok {
		return re.(*regexp.Regexp)
	}
	sh := &f.shape
	var b strings.Builder
	b.WriteString("(?s)")
	if whole {
		b.WriteString("^" + space)
	}
	for i, anchor := range sh.anchors {
		for k, tag := range anchor {
			if k > 0 {
				b.WriteString(space)
			}
			b.WriteString(regexp.QuoteMeta(tag))
		}
		if i < len(sh.pieces) {
			b.WriteString("(.*?)")
		}
	}
	if whole {
		b.WriteString(space + "$")
	}
	re := regexp.MustCompile(b.String())
	oracles.Store(key, re)
	return re
}

type oracleKey struct {
	f     *format
	whole bool
}

var oracles sync.Map // by oracleKey

func compareShape(t *testing.T, f *format, text string) {
	t.Helper()
	for _, whole := range []bool{false, true} {
		want := f.oracle(whole).FindStringSubmatch(text)
		var got pieces
		ok := false
		if whole {
			ok = f.shape.covers(text, &got)
		} else {
			ok = f.shape.find(text, &got)
		}
		if ok != (want != nil) {
			t.Fatalf("%s %s, whole %t: found %t in %q", f.dialect, f.name, whole, ok, text)
		}
		for i := range f.shape.pieces {
			if ok && got[i] != want[i+1] {
				t.Fatalf("%s %s, whole %t: piece %d of %q is %q, want %q", f.dialect, f.name, whole, i, text, got[i], want[i+1])
			}
		}
	}
}

func FuzzShapes(f *testing.F) {
	for _, text := range []string{
		"", "<think>a</think> <answer>b</answer>", "<think></think>\u3000<answer></answer><answer>c</answer>",
		"<think><observation>a</observation></observation>\x1f<prediction>b</prediction></think>\n<answer>c</answer> ",
		"<observation>a</observation>b<think>c</think><answer>d</answer><prediction>e</prediction></prediction>",
		"<action><action>x</action></action>", "<think>\xff</think><answer>\xfe</answer>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i := range formats {
			compareShape(t, &formats[i], text)
		}
	})
}

// Random strings of tags, which plain fuzzing seldom generates.
func TestShapesMatchAsRegularExpressionsDo(t *testing.T) {
	tokens := []string{"a", " ", "\n", "\u3000"}
	for _, tag := range []string{"think", "observation", "reasoning", "prediction", "answer", "action"} {
		tokens = append(tokens, "<"+tag+">", "</"+tag+">")
	}
	next := rand.New(rand.NewPCG(1, 2)).IntN
	for i := range formats {
		f := &formats[i]
		// Mostly well-formed: the tags of the format in order, with some dropped,
		// doubled or replaced.
		var tags []string
		for _, anchor := range f.shape.anchors {
			tags = append(tags, anchor...)
		}
		for range 200 {
			var b strings.Builder
			for _, tag := range tags {
				switch next(12) {
				case 0:
				case 1:
					b.WriteString(tag + tag)
				case 2:
					b.WriteString(tokens[next(len(tokens))] + tag)
				default:
					b.WriteString(tag)
				}
				if next(3) == 0 {
					b.WriteString(tokens[next(len(tokens))])
				}
			}
			compareShape(t, f, b.String())
			compareShape(t, f, b.String()+b.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("<think>a</think><answer>Up,Down</answer>", ",", uint8(1))
	f.Add("<observation>o</observation><answer>\xff||İ</answer><prediction>p</prediction>", "|", uint8(0))
	f.Fuzz(func(t *testing.T, text, sep string, limit uint8) {
		for i := range formats {
			o := ParserOptions{Dialect: formats[i].dialect, ActionSep: sep, MaxActions: int(limit)}
			if o.Dialect == Legacy {
				o.SpecialTokens = []string{"<think>", "a"}
			}
			p, err := NewParser(formats[i].name, o)
			require.NoError(t, err)
			r := p.Parse(text)
			if limit > 0 && len(r.Actions) > int(limit) {
				t.Errorf("%d actions, allowed are %d", len(r.Actions), limit)
			}
			for _, a := range r.Actions {
				if pytext.Strip(a) == "" {
					t.Errorf("empty action in %q", r.Actions)
				}
			}
		}
	})
}
