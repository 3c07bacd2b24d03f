package reward

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vagen/internal/nearest"
	"vagen/internal/pytext"
)

// ErrFormat is wrapped by NewParser for a dialect or format that does not exist.
var ErrFormat = errors.New("unknown response format")

// ParserOptions are settings that do not depend on the format. The zero value parses
// the Lite dialect with any number of actions, separated by commas.
type ParserOptions struct {
	Dialect       Dialect  // "" means Lite
	ActionSep     string   // separator of actions; "" means ","
	MaxActions    int      // actions beyond this number are dropped; 0 drops none
	SpecialTokens []string // removed, in order, from every section; legacy dialect only
	KeepCase      bool     // actions are not lower-cased; Next dialect only
	AnswerBox     bool     // free_think also reads actions from a model's own answer box; Next dialect only
}

// Parser reads responses of one format. Its time is linear in the text for every
// input, and it is safe for concurrent use. No response has the format of the zero value.
//
// Text is treated as the original systems did, in Python: white space and lower
// case are Unicode's, tags are case-sensitive, free text may hold line breaks,
// tags and bytes that are not UTF-8.
//
//   - A legacy format is correct when the whole text has its shape. no_think and
//     free_think have neither sections nor actions otherwise; the formats with
//     sections inside the think block are read from the first match anywhere,
//     so that actions run even when the format is not rewarded.
//   - A Lite format is correct when its shape is found anywhere.
//   - A Next format is correct when the whole text has its shape. Otherwise
//     sections and actions are salvaged from tags and labels of older formats.
//   - The answer is split at the separator, actions are stripped, empty ones are
//     dropped, and the first MaxActions are kept.
type Parser struct {
	format  *format
	sep     string
	join    string // between actions of an answer that was cut
	max     int
	special []string
	lower   bool
	box     bool
}

// NewParser returns the parser of a format, one of Formats(o.Dialect).
// Errors wrap ErrFormat when the dialect or the format is unknown.
func NewParser(name string, o ParserOptions) (*Parser, error) {
	if o.Dialect == "" {
		o.Dialect = Lite
	}
	known := Formats(o.Dialect)
	if known == nil {
		return nil, fmt.Errorf("reward: dialect %q: %w; known dialects are %v", o.Dialect, ErrFormat, Dialects())
	}
	i := slices.IndexFunc(formats, func(f format) bool { return f.dialect == o.Dialect && f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("reward: format %q of dialect %q: %w%s; known formats are %s",
			name, o.Dialect, ErrFormat, nearest.Hint(name, known), strings.Join(known, ", "))
	}
	return newParser(&formats[i], o)
}

// newParser returns the parser of a format with the options, which it checks.
func newParser(f *format, o ParserOptions) (*Parser, error) {
	name := f.name
	if o.MaxActions < 0 {
		return nil, fmt.Errorf("reward: format %q: max_actions is %d, it must not be negative", name, o.MaxActions)
	}
	if slices.Contains(o.SpecialTokens, "") {
		return nil, fmt.Errorf("reward: format %q: a special token is empty", name)
	}
	if len(o.SpecialTokens) > 0 && o.Dialect != Legacy {
		return nil, fmt.Errorf("reward: format %q: special tokens belong to the legacy dialect, the dialect is %q", name,
			o.Dialect)
	}
	if (o.KeepCase || o.AnswerBox) && o.Dialect != Next {
		return nil, fmt.Errorf("reward: format %q: keeping the case and answer boxes belong to the next dialect, the dialect is %q", name, o.Dialect)
	}
	p := &Parser{
		format: f, sep: o.ActionSep, max: o.MaxActions, special: slices.Clone(o.SpecialTokens),
		lower: f.dialect.lowers() && !o.KeepCase, box: o.AnswerBox,
	}
	if p.sep == "" {
		p.sep = ","
	}
	p.join = p.sep
	if o.Dialect == Legacy {
		p.join = " " + p.sep + " "
	}
	return p, nil
}

// Format returns the name of the format.
func (p *Parser) Format() string { return p.own().name }

// Dialect returns the dialect of the format.
func (p *Parser) Dialect() Dialect { return p.own().dialect }

// own returns the format; that of the zero Parser has no section.
func (p *Parser) own() *format { return cmp.Or(p.format, new(format)) }

// Sections returns the names of the format's sections, in the order in which they
// occur in a response.
func (p *Parser) Sections() []string {
	var names []string
	for _, name := range p.own().shape.pieces {
		if name != pieceBefore && name != pieceAfter {
			names = append(names, name)
		}
	}
	return names
}

// Tag returns the tag of a section, which differs from its name in some dialects.
func (p *Parser) Tag(section string) string {
	switch f := p.own(); {
	case section == SectionAnswer && f.dialect == LiteNavigation:
		return actionTag
	case section == SectionObservation && f.dialect == Next && f.name != ObservePredict:
		return perceptionTag
	}
	return section
}

// Compose writes a response of the format with the contents that fill returns for
// each of Sections; for free text outside tags it calls fill(SectionThink).
func (p *Parser) Compose(fill func(section string) string) string {
	sh := &p.own().shape
	var b strings.Builder
	for i, anchor := range sh.anchors {
		for _, tag := range anchor {
			b.WriteString(tag)
		}
		if i == len(sh.pieces) {
			break
		}
		switch name := sh.pieces[i]; name {
		case pieceBefore:
			b.WriteString(fill(SectionThink))
		case pieceAfter:
		default:
			b.WriteString(fill(name))
		}
	}
	return b.String()
}

// Rejoin returns the response of a model whose reasoning a service returned apart from its
// answer: the reasoning in <think> tags, which all formats with thoughts have, in front of the
// answer. The answer alone is the response if it already has an opening tag, or if it has the
// format and would not have it with the reasoning. p may be nil if the format is not known.
func (p *Parser) Rejoin(reasoning, answer string) string {
	whole := thinkOpen + reasoning + thinkClose + answer
	switch {
	case strings.Contains(answer, thinkOpen):
		return answer
	case p != nil && p.Parse(answer).FormatCorrect && !p.Parse(whole).FormatCorrect:
		return answer
	}
	return whole
}

// Parse reads one response.
func (p *Parser) Parse(text string) Response {
	f := p.format
	if f == nil {
		return Response{Raw: text, Sections: map[string]string{}}
	}
	if f.dialect == Next && f.name != ObservePredict {
		return p.parseNext(text)
	}
	if f.dialect == Legacy && f.strict {
		text = strings.ReplaceAll(text, imageMark, "")
	}
	r := Response{Raw: text, Sections: make(map[string]string, len(f.shape.pieces)+1)}
	var got, first pieces
	if f.strict {
		r.FormatCorrect = f.shape.covers(text, &got)
	}
	switch found := f.shape.find(text, &first); {
	case f.anchored && r.FormatCorrect:
		p.sections(&r, &got)
	case found && (r.FormatCorrect || !f.whole):
		r.FormatCorrect = r.FormatCorrect || !f.strict
		p.sections(&r, &first)
	case f.answer:
		r.Sections[SectionAnswer] = p.clean(firstAnswer(f, text))
	}
	r.Actions, r.Dropped = p.actions(r.Sections[SectionAnswer])
	if r.Dropped > 0 {
		r.Sections[SectionAnswer] = strings.Join(r.Actions, p.join)
	}
	return r
}

// sections fills in the contents of a match.
func (p *Parser) sections(r *Response, got *pieces) {
	f := p.format
	var think strings.Builder
	for i, name := range f.shape.pieces {
		if f.rich && name != SectionAnswer {
			think.WriteString("<" + name + ">" + got[i] + "</" + name + ">")
		}
		if name != pieceBefore && name != pieceAfter {
			r.Sections[name] = p.clean(got[i])
		}
	}
	switch {
	case f.rich:
		r.Sections[SectionThink] = p.clean(think.String())
	case f.name == "free_wm":
		text := pytext.Strip(pytext.Strip(got[1]) + " " + pytext.Strip(got[3]))
		r.Sections[SectionThink], r.Sections[SectionReasoning] = text, text
	case f.name == "wm" && f.dialect == Lite:
		r.Sections[SectionReasoning] = r.Sections[SectionThink]
	}
}

// clean prepares the content of a section: Lite strips it; legacy removes the
// special tokens, and strips when there are any.
func (p *Parser) clean(s string) string {
	if p.format.dialect != Legacy {
		return pytext.Strip(s)
	}
	for _, token := range p.special {
		s = pytext.Strip(strings.ReplaceAll(s, token, ""))
	}
	return s
}

// actions splits an answer into actions and counts those beyond the limit.
func (p *Parser) actions(answer string) (actions []string, dropped int) {
	actions = make([]string, 0, 4)
	for word, rest, more := "", answer, true; more; {
		word, rest, more = strings.Cut(rest, p.sep)
		if word = pytext.Strip(word); word == "" {
			continue
		}
		if p.max > 0 && len(actions) == p.max {
			dropped++
			continue
		}
		if p.lower {
			word = lower(word)
		}
		actions = append(actions, word)
	}
	return actions, dropped
}

// Canonical writes a response from the sections of a parsed one, without other text
// around or between them. A response without sections gives empty tags.
func (p *Parser) Canonical(r Response) string {
	names := p.Sections()
	if p.own().rich {
		names = []string{SectionThink, SectionAnswer}
	}
	var b strings.Builder
	for _, name := range names {
		tag := p.Tag(name)
		b.WriteString("<" + tag + ">")
		b.WriteString(pytext.Strip(r.Sections[name]))
		b.WriteString("</" + tag + ">")
	}
	return b.String()
}

// firstAnswer returns the content of the first answer block of a text.
func firstAnswer(f *format, text string) string {
	last := f.shape.anchors[len(f.shape.anchors)-1]
	closing := last[len(last)-1]
	opening := "<" + strings.TrimPrefix(closing, "</")
	_, rest, ok := strings.Cut(text, opening)
	if !ok {
		return ""
	}
	if body, _, ok := strings.Cut(rest, closing); ok {
		return body
	}
	return ""
}
