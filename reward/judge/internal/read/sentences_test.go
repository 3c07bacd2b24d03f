package read

import (
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/reward"
)

// said is a phrase or a frame with what it states.
type said struct{ text, want string }

// section reads a section of the sentences of our own, some of them composed of a frame and phrases for places, so
// that each construction meets each phrase.
func section(t *testing.T, name string) (list []said) {
	_, rest, ok := strings.Cut(testkit.Text(t, "testdata/sentences.txt"), "\n# "+name+": ")
	require.True(t, ok, name)
	rest, _, _ = strings.Cut(rest, "\n\n# ")
	for _, line := range strings.Split(strings.TrimSuffix(rest, "\n"), "\n")[1:] {
		want, text, ok := strings.Cut(line, "\t")
		if !ok {
			want, text = "", line
		}
		list = append(list, said{strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(text), want})
	}
	require.NotEmpty(t, list, name)
	return list
}

func letters(list []reward.Relation) string {
	short := func(s string) string { return (s + "-")[:1] }
	var words []string
	for _, r := range list {
		words = append(words, short(r.Object)+short(r.Vertical)+short(r.Horizontal))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

func TestSentencesAssertWhatAReaderUnderstands(t *testing.T) {
	for name, objects := range map[string]string{"phrasings": "target hole hole hole box box",
		"idioms": "target hole box"} {
		var truth []reward.Relation
		for _, o := range strings.Fields(objects) {
			truth = append(truth, reward.Relate(o, 0, 0))
		}
		for _, p := range section(t, name) {
			environment, list, _ := strings.Cut(p.want, " ")
			want := strings.Fields(list)
			sort.Strings(want)
			c := reward.Claim{Env: map[string]string{"f": "frozenlake", "s": "sokoban"}[environment], Text: p.text, Truth: truth}
			if got := letters(Relations(c)); got != strings.Join(want, " ") {
				t.Errorf("%q asserts %q, want %q", p.text, got, list)
			}
		}
	}
}

// counter counts the composed sentences that are misread. Known misreadings remain; the bounds only note a loss.
type counter struct{ wrong, all int }

// check composes a frame of phrases in the places {0} and {1}, with a capital, and reads it on a board with one box
// and one target.
func (c *counter) check(frame said, want string, phrases ...string) {
	text := frame.text
	for i, p := range phrases {
		text = strings.ReplaceAll(text, "{"+string(rune('0'+i))+"}", p)
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	list := strings.Fields(want)
	sort.Strings(list)
	c.all++
	got := Relations(reward.Claim{Env: "sokoban", Text: text,
		Truth: []reward.Relation{reward.Relate("target", 0, 0), reward.Relate("box", 0, 0)}})
	if letters(got) != strings.Join(list, " ") {
		c.wrong++
	}
}

// within fails the test if more than a share of the sentences was misread.
func (c *counter) within(t *testing.T, share float64) {
	t.Helper()
	t.Logf("%d of %d composed sentences misread", c.wrong, c.all)
	require.LessOrEqual(t, float64(c.wrong), share*float64(c.all))
}

func TestEachFrameReadsEachPlace(t *testing.T) {
	var c counter
	for _, length := range []string{"full", "short"} {
		places := section(t, length)
		for _, f := range section(t, length+" frames") {
			for _, p := range places {
				c.check(f, "b"+p.want, p.text)
			}
		}
	}
	c.within(t, 0.015)
}

// mirror swaps above and below, left and right.
func mirror(w string) string {
	return strings.NewReplacer("a", "b", "b", "a", "l", "r", "r", "l").Replace(w)
}

func TestTwoObjectsAndThePlayerAsSubject(t *testing.T) {
	var c counter
	for _, length := range []string{"full", "short"} {
		places := section(t, "few "+length)
		for _, f := range section(t, "two "+length) {
			for _, a := range places {
				for _, b := range places {
					c.check(f, "b"+a.want+" t"+b.want, a.text, b.text)
				}
			}
		}
	}
	of := func(p said, object string) string { return strings.ReplaceAll(p.text, "{x}", object) }
	swapped, one, two := section(t, "swapped"), section(t, "swap frames"), section(t, "swap two")
	for _, a := range swapped {
		for _, f := range one {
			c.check(f, "b"+mirror(a.want), of(a, "the box"))
		}
		for _, b := range swapped {
			for _, f := range two {
				c.check(f, "b"+mirror(a.want)+" t"+mirror(b.want), of(a, "the box"), of(b, "the target"))
			}
		}
	}
	c.within(t, 0.045)
}

func TestMoodsAndCorrectionsOfEachPlace(t *testing.T) {
	var c counter
	few, hedges, mixed := section(t, "few full"), section(t, "hedges"), section(t, "mixed")
	for _, a := range few {
		for _, f := range hedges {
			c.check(f, "", a.text)
		}
		for _, b := range few {
			for _, f := range mixed {
				c.check(f, "b"+a.want, a.text, b.text)
			}
		}
	}
	frames := section(t, "other frames")
	for _, a := range section(t, "others") {
		for _, f := range frames {
			c.check(f, "", a.text)
		}
	}
	corrections, opposed := section(t, "corrections"), section(t, "opposed")
	for i := 0; i < len(opposed); i += 2 {
		for _, f := range corrections {
			c.check(f, "b"+opposed[i].want, opposed[i].text, opposed[i+1].text)
		}
	}
	c.within(t, 0.04)
}
