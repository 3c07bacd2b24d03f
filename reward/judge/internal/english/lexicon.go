package english

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"vagen/reward"
)

//go:embed words.txt
var wordList string

// class is what a word contributes to a sentence. words.txt describes the classes of its words.
type class uint8

const (
	unknown class = iota
	dir
	letter
	clock
	exact
	same
	level
	align
	axis
	along
	share
	more
	me
	we
	my
	poss
	pron
	its
	ordinal
	last
	other
	void
	no
	both
	cell
	num
	det
	indefinite
	unit
	and
	or
	comma
	colon
	but
	stop
	ask
	of
	from
	in
	near
	like
	be
	see
	motion
	reach
	hedge
	silent
	judge
	condition
	past
	not
	fix
	yes
	skip
	say
	object // a name of the claim
	line   // the end of a line
)

// in reports whether a class is one of some.
func (c class) in(classes ...class) bool { return slices.Contains(classes, c) }

// classNames are the names of the classes in words.txt.
var classNames = strings.Fields(
	"? dir letter clock exact same level align axis along share more me we my poss pron its ordinal " +
		"last other void no both cell num det a unit and or comma colon but stop ask of from in near like be see go " +
		"reach hedge silent judge if past not fix yes skip say")

// The values of a direction, as bits: an object that was given several has none.
const (
	less  = 1 // above, left
	after = 2 // below, right
	equal = 4 // same row, same column

	beside = less | after
)

// place holds the values of the two directions, vertical and horizontal.
type place [2]uint8

// word is the meaning of a word or a phrase.
type word struct {
	class  class
	at     place
	n      int    // of a number
	option string // "ref", "counted", "region"
}

// phrase is what several words mean that start with the same two.
type phrase struct {
	rest []string
	word word
	says []string // the words that it stands for
}

// lexicon maps the first two words of a phrase, of which the second may be missing, to the phrases,
// longest first. It is read when the first text is: programs that judge nothing start without it.
var lexicon = sync.OnceValue(func() map[[2]string][]phrase { return readLexicon(wordList) })

// readLexicon reads words.txt. It panics if a class is not known, as regexp.MustCompile does.
func readLexicon(text string) map[[2]string][]phrase {
	m := make(map[[2]string][]phrase, 1000)
	for l := range strings.Lines(text) {
		head, list, ok := strings.Cut(strings.TrimSpace(l), " = ")
		if !ok || head[0] == '#' {
			continue
		}
		name, options, _ := strings.Cut(head, " ")
		c := slices.Index(classNames, name)
		if c < 0 {
			panic(fmt.Sprintf("english: words.txt: class %q is not known", name))
		}
		w := word{class: class(c), at: placeOf(options), option: options[strings.LastIndexByte(options, ' ')+1:]}
		var says []string
		if w.class == say {
			says = strings.Fields(options)
		}
		for n, p := range strings.Split(list, ", ") {
			if w.n = n; w.class == ordinal {
				w.n++
			}
			for _, variant := range variants(strings.Trim(p, `"`)) {
				f := append(strings.Fields(variant), "")
				key, rest := [2]string(f), f[min(2, len(f)-1):len(f)-1]
				at := 0
				for at < len(m[key]) && len(m[key][at].rest) >= len(rest) {
					at++ // of phrases of the same length the first one holds
				}
				m[key] = slices.Insert(m[key], at, phrase{rest, w, says})
			}
		}
	}
	return m
}

// variants returns those of a phrase with {alternatives|of} words and [optional] ones.
func variants(p string) []string {
	i := strings.IndexAny(p, "{[")
	if i < 0 || len(p) == 1 {
		return []string{p}
	}
	end := i + strings.IndexAny(p[i:], "}]")
	inner := strings.Split(p[i+1:end], "|")
	if p[i] == '[' {
		inner = append(inner, "")
	}
	var out []string
	for _, alternative := range inner {
		for _, rest := range variants(p[end+1:]) {
			out = append(out, p[:i]+alternative+rest)
		}
	}
	return out
}

// placeOf reads letters such as "al", above and left; "s" is the same row before "-", the same column after it.
func placeOf(options string) (at place) {
	first, _, _ := strings.Cut(options, " ")
	for i, c := range first {
		if k := strings.IndexRune("ablrs", c); k >= 0 && len(first) <= 2 {
			at[[5]int{0, 0, 1, 1, i}[k]] = [5]uint8{less, after, less, after, equal}[k]
		}
	}
	return at
}

// The values of the two directions in a relation, by bits.
var (
	verticals   = [8]string{less: reward.Above, after: reward.Below, equal: reward.Same}
	horizontals = [8]string{less: reward.Left, after: reward.Right, equal: reward.Same}
)

// Vertical reads the value of a vertical relation: one of the usual three words, or
// another word for one of them such as south; "" for any other.
func Vertical(s string) string { return value(s, 0, &verticals) }

// Horizontal is Vertical for the other direction.
func Horizontal(s string) string { return value(s, 1, &horizontals) }

func value(s string, axis int, names *[8]string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "" {
		return ""
	}
	switch w, _, n := longest([]string{s}); {
	case n == 1 && w.class == dir:
		return names[w.at[axis]]
	case n == 1 && w.class == same:
		return reward.Same
	}
	return ""
}
