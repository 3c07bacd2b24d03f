package draw

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// declaration is one property of a style.
type declaration struct{ name, value string }

// maxDeclarations bounds those of one style; further ones are forgotten.
const maxDeclarations = 256

// declarations reads "name: value; name: value".
func declarations(text string) []declaration {
	var list []declaration
	for one := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(one, ":")
		if !ok {
			continue
		}
		if len(list) == maxDeclarations {
			break
		}
		value, _, _ = strings.Cut(value, "!") // of importance there is one level only
		list = append(list, declaration{strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)})
	}
	return list
}

// compound is a selector of one element: a name, an id and classes, all of which
// must fit.
type compound struct {
	name, id string
	classes  []string
}

func (c compound) matches(n *node) bool {
	if c.name != "" && c.name != n.name || c.id != "" && c.id != n.attr("id") {
		return false
	}
	return !slices.ContainsFunc(c.classes, func(class string) bool { return !slices.Contains(n.classes, class) })
}

// rule is a selector with its declarations. The elements of the selector are
// nested in each other with any number of others between them, the last one is
// styled.
type rule struct {
	selector []compound
	weight   int // specificity
	style    []declaration
}

// matches also returns how many elements it looked at.
func (r *rule) matches(n *node) (ok bool, looks int) {
	last := len(r.selector) - 1
	if !r.selector[last].matches(n) {
		return false, 1
	}
	for last--; last >= 0; last-- {
		for n = n.parent; n != nil && !r.selector[last].matches(n); n = n.parent {
			looks++
		}
		if n == nil {
			return false, looks + 1
		}
	}
	return true, looks + len(r.selector)
}

// sheet is a style sheet: rules in order of increasing weight.
type sheet []rule

var comment = regexp.MustCompile(`(?s)/\*.*?(?:\*/|$)`)

// parseSheet reads the rules of a style sheet. At-rules and selectors other than
// names, ids, classes and nesting are passed over.
func parseSheet(text string, limit int) sheet {
	var s sheet
	text = comment.ReplaceAllString(text, "")
	for len(s) < limit {
		head, rest, ok := strings.Cut(text, "{")
		if !ok {
			break
		}
		body, tail, _ := strings.Cut(rest, "}")
		text = tail
		style := declarations(body)
		for one := range strings.SplitSeq(head, ",") {
			if sel, weight, ok := parseSelector(one); ok && len(s) < limit {
				s = append(s, rule{sel, weight, style})
			}
		}
	}
	slices.SortStableFunc(s, func(a, b rule) int { return cmp.Compare(a.weight, b.weight) })
	return s
}

func parseSelector(text string) (selector []compound, weight int, ok bool) {
	for word := range strings.FieldsSeq(text) {
		c, w, ok := parseCompound(word)
		if !ok {
			return nil, 0, false
		}
		selector, weight = append(selector, c), weight+w
	}
	return selector, weight, len(selector) > 0
}

func parseCompound(word string) (c compound, weight int, ok bool) {
	if strings.ContainsAny(word, ":[]>+~@()\"'") {
		return c, 0, false
	}
	for len(word) > 0 {
		kind := byte(0)
		if word[0] == '.' || word[0] == '#' {
			kind, word = word[0], word[1:]
		}
		end := strings.IndexAny(word, ".#")
		if end < 0 {
			end = len(word)
		}
		name := word[:end]
		word = word[end:]
		switch {
		case name == "":
			return c, 0, false
		case kind == '.' && len(c.classes) == maxClasses:
			return c, 0, false
		case kind == '.':
			c.classes, weight = append(c.classes, name), weight+100
		case kind == '#':
			c.id, weight = name, weight+10_000
		case name != "*":
			c.name, weight = name, weight+1
		}
	}
	return c, weight, true
}

// declarationWork is what a declaration counts as, in crossings.
const declarationWork = 20

// styled returns the declarations that hold for an element, later ones winning:
// its own attributes, those of the sheet, its style attribute. The text of them all is work, because it is
// read again each time the element is drawn.
func (r *renderer) styled(n *node) []declaration {
	list := append(make([]declaration, 0, len(n.attrs)+4), n.attrs...)
	for i := range r.sheet {
		ok, work := r.sheet[i].matches(n)
		if ok {
			list = append(list, r.sheet[i].style...)
			work += declarationWork * len(r.sheet[i].style)
		}
		if !r.spend(work) {
			break
		}
	}
	list = append(list, declarations(n.attr("style"))...)
	r.read(list)
	return list
}

// read spends the work of reading values again.
func (r *renderer) read(list []declaration) {
	work := 0
	for _, d := range list {
		work += len(d.value)
	}
	r.spend(work)
}
