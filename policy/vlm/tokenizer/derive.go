package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// Chat derives the chat format from the checkpoint's template: it runs the template
// on short conversations, extracts the text around each message, and then verifies
// that concatenating these texts reproduces the template's output for a range of
// other conversations. A template that changes messages in any other way, or that
// uses an unknown construct, is rejected with ErrUnsupported and the difference.
//
// vars are further variables for the template, such as "enable_thinking": false;
// nil means none. A template gets no clock, so the result is always the same: strftime_now is
// undefined, or shows the fixed time of the variable "strftime_now", such as "2026-01-31".
func (t *Tokenizer) Chat(vars map[string]any) (*Chat, error) {
	c, err := t.derive(vars)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: chat template: %w", err)
	}
	return c, nil
}

func (t *Tokenizer) derive(vars map[string]any) (*Chat, error) {
	if t.template == "" {
		return nil, fmt.Errorf("%w: the checkpoint has no chat template", ErrUnsupported)
	}
	parsed, err := jinja.Parse(t.template)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	p := &probe{template: parsed, vars: map[string]any{"tools": nil, "documents": nil}}
	for name, text := range t.names {
		p.vars[name] = text
	}
	maps.Copy(p.vars, vars)
	c, err := p.parts()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	a, size := t.raw.longest(c.assistant.after)
	if a == nil {
		return nil, fmt.Errorf("%w: the text after a response is %q, must begin with an added token", ErrUnsupported,
			c.assistant.after)
	}
	c.end, c.endID = c.assistant.after[:size], a.ID
	if id := t.special.ImagePad; id >= 0 {
		c.pad = t.tokens[id].bytes
		p.images(c)
	}
	if err := p.verify(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	p.tools(c)
	return c, nil
}

// CheckVariables reports the first variable that has no effect, because the chat template does not read it or
// each conversation sets it, with ErrUnsupported. A variable that is false or nil is accepted: VAGEN's scripts
// switch enable_thinking off for models that cannot think.
func (t *Tokenizer) CheckVariables(vars map[string]any) error {
	if len(vars) == 0 {
		return nil
	}
	parsed, err := jinja.Parse(t.template)
	if err != nil {
		return fmt.Errorf("tokenizer: chat template: %w: %w", ErrUnsupported, err)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		why := "the model's chat template does not read it"
		if name == "messages" || name == "add_generation_prompt" {
			why = "conversations set it"
		} else if v := vars[name]; v == nil || v == false || parsed.Reads(name) {
			continue
		}
		return fmt.Errorf("tokenizer: %w: template variable %s is %v, but %s: remove it", ErrUnsupported, name, vars[name],
			why)
	}
	return nil
}

// probe runs a template on artificial conversations.
type probe struct {
	template *jinja.Template
	vars     map[string]any
}

// Texts that no template contains.
const (
	textA = "probe-qzA"
	textB = "probe-qzB"
	textC = "probe-qzC"
)

func (p *probe) render(generate bool, messages ...Message) (string, error) {
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = jinja.Dict{{Key: "role", Value: m.Role}, {Key: "content", Value: m.content()}}
	}
	return p.run(generate, list)
}

// run renders messages in the form in which templates get them.
func (p *probe) run(generate bool, list []any) (string, error) {
	vars := maps.Clone(p.vars)
	vars["messages"], vars["add_generation_prompt"] = list, generate
	return p.template.Render(vars)
}

func (p *probe) cut(messages ...Message) ([]string, error) {
	out, err := p.render(false, messages...)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, text := range []string{textA, textB, textC}[:len(messages)] {
		before, after, ok := strings.Cut(out, text)
		if !ok || strings.Contains(after, text) {
			return nil, fmt.Errorf("the messages' texts must each appear once and in order, found: %q", out)
		}
		parts, out = append(parts, before), after
	}
	return append(parts, out), nil
}

// parts determines the text around each message.
func (p *probe) parts() (*Chat, error) {
	messages := []Message{Text(RoleUser, textA), Text(RoleAssistant, textB), Text(RoleUser, textC)}
	var around [3][]string // the first message, the first two, and all
	for i := range around {
		var err error
		if around[i], err = p.cut(messages[:i+1]...); err != nil {
			return nil, err
		}
	}
	one, two, three := around[0], around[1], around[2]
	c := &Chat{}
	c.user.after, c.assistant.after = one[1], two[2]
	var ok [3]bool
	c.assistant.before, ok[0] = strings.CutPrefix(three[1], c.user.after)
	c.user.before, ok[1] = strings.CutPrefix(three[2], c.assistant.after)
	c.open, ok[2] = strings.CutSuffix(one[0], c.user.before)
	if ok != [3]bool{true, true, true} {
		return nil, fmt.Errorf("messages are not simply concatenated: %q, %q and %q surround three of them, %q and %q one",
			three[0], three[1], three[2], one[0], one[1])
	}
	plain := one[0] + textA + one[1]
	asking, err := p.render(true, messages[0])
	if err != nil {
		return nil, err
	}
	if c.generate, ok[0] = strings.CutPrefix(asking, plain); !ok[0] || c.generate == "" {
		return nil, fmt.Errorf("add_generation_prompt changes %q to %q, must only append", plain, asking)
	}
	c.opened = openedBy(c.generate, c.assistant.before)
	p.systemPart(c)
	p.trims(c)
	return c, nil
}

var openingTag = regexp.MustCompile(`<([A-Za-z][\w:.-]*)>`)

// openedBy returns the end of a request for a response from the first tag on that it opens,
// and does not close. A tag that the text before a finished response opens at the same place, and
// does not close either, is no part of responses.
func openedBy(request, before string) string {
	same := 0
	for same < min(len(request), len(before)) && request[same] == before[same] {
		same++
	}
	for _, at := range openingTag.FindAllStringSubmatchIndex(request, -1) {
		closing := "</" + request[at[2]:at[3]] + ">"
		shared := at[1] <= same && !strings.Contains(before[at[1]:], closing)
		if !shared && !strings.Contains(request[at[1]:], closing) {
			return request[at[0]:]
		}
	}
	return ""
}

// systemPart is optional: some templates support no system message. Some put its text into the
// user's first message.
func (p *probe) systemPart(c *Chat) {
	parts, err := p.cut(Text(RoleSystem, textA), Text(RoleUser, textB))
	if err != nil {
		return
	}
	after, apart := strings.CutSuffix(parts[1], c.user.before)
	c.system = turn{before: parts[0], after: after}
	c.hasSystem, c.merges = apart || parts[2] == c.user.after, !apart
}

// trims determines which roles' texts are trimmed.
func (p *probe) trims(c *Chat) {
	pad := func(s string) string { return " \n " + s + "\t\n " }
	try := func(t *turn, messages ...Message) {
		if out, err := p.render(false, messages...); err == nil && !strings.Contains(out, pad(textA)) {
			t.trim = true
		}
	}
	try(&c.user, Text(RoleUser, pad(textA)))
	try(&c.assistant, Text(RoleUser, textB), Text(RoleAssistant, pad(textA)), Text(RoleUser, textC))
	if c.hasSystem {
		try(&c.system, Text(RoleSystem, pad(textA)), Text(RoleUser, textB))
	}
}

// images determines the placeholder of an image.
func (p *probe) images(c *Chat) {
	out, err := p.render(false, Message{RoleUser, []Part{{Text: textA}, {Image: true}, {Text: textB}}})
	if err != nil {
		return
	}
	_, rest, okA := strings.Cut(out, textA)
	image, _, okB := strings.Cut(rest, textB)
	if okA && okB && strings.Count(image, c.pad) == 1 {
		c.image = image
	}
}

// verify compares a Chat with the template it was derived from. Conversations that a
// template may reject or render in its own way determine which ones Chat supports.
func (p *probe) verify(c *Chat) error {
	u, a, s := probeText(RoleUser), probeText(RoleAssistant), probeText(RoleSystem)
	must := [][]Message{
		{u("one")}, {u(" padded \n")}, {u("")}, {u("a\n\nb <tag> {{ x }} 'quoted' \\n")},
		{u("one"), a("two"), u("three")}, {u("one"), a(" two\n"), u("three")}, {u("one"), a(""), u("three")},
		{u("one"), a("two"), u("three"), a("four"), u("five")},
	}
	system := [][]Message{{s(""), u("one")}, {s(" \n"), u("one")}}
	c.blank = c.hasSystem && !c.merges && p.compare(c, system[0]) != nil
	for _, m := range must {
		system = append(system, append([]Message{s("be brief ")}, m...))
	}
	if c.merges && p.compareAll(c, system) != nil {
		c.hasSystem, c.merges = false, false
	}
	if c.hasSystem {
		must = append(must, system...)
	}
	if err := p.compareAll(c, must); err != nil {
		return err
	}
	for _, m := range imageProbes(c.hasSystem) {
		if c.image != "" && p.compare(c, m) != nil {
			c.image = ""
		}
	}
	take := func(flag *bool, conversations ...[]Message) {
		*flag = true
		for _, m := range conversations {
			if p.compare(c, m) != nil {
				*flag = false
			}
		}
	}
	take(&c.repeats, []Message{u("one"), u("two")}, []Message{u("one"), a("two"), a("three"), u("four")})
	take(&c.leads, []Message{a("one"), u("two")}, []Message{a("one")})
	faithful := false
	take(&faithful,
		[]Message{u("one"), a("two")},
		[]Message{u("one"), a("<think>\nmull\n</think>\n\ntwo"), u("three")},
		[]Message{u("one"), a("<think>mull</think>two"), u("three"), a("<think>more</think> four")},
	)
	c.rewrites = !faithful || c.generate != c.assistant.before+c.opened || c.assistant.trim
	return nil
}

func probeText(role string) func(string) Message {
	return func(s string) Message { return Text(role, s) }
}

func imageProbes(system bool) [][]Message {
	image := Part{Image: true}
	list := [][]Message{
		{{RoleUser, []Part{image}}},
		{{RoleUser, []Part{image, image, {Text: " then "}, image}}},
		{{RoleUser, []Part{{Text: " \nsee "}, image, {Text: "\n"}}}, Text(RoleAssistant, "two"),
			{RoleUser, []Part{image, {Text: "three"}}}},
	}
	if system {
		list = append(list, []Message{Text(RoleSystem, "be brief"), {RoleUser, []Part{{Text: "see "}, image}}})
	}
	return list
}

var errDiffers = errors.New("the template does more than concatenate messages")

func (p *probe) compareAll(c *Chat, conversations [][]Message) error {
	for _, m := range conversations {
		if err := p.compare(c, m); err != nil {
			return err
		}
	}
	return nil
}

// compare renders a conversation with the Chat and with the template, with and without a request for a
// response.
func (p *probe) compare(c *Chat, messages []Message) error {
	free := *c
	free.repeats, free.leads = true, true
	for _, generate := range []bool{false, true} {
		want, err := p.render(generate, messages...)
		if err != nil {
			return err
		}
		got, err := free.render(messages, generate)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%w: it gives %q, expected %q", errDiffers, want, got)
		}
	}
	return nil
}
