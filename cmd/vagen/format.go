package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/cli"
	"vagen/internal/nearest"
	"vagen/reward"
)

// style puts an answer into a response format.
type style func(answer string) string

const formatUsage = "response `format` such as wm or lite:wm; the prefix is the dialect, if several have a format of that name"

// styleOf finds the response style of an environment: that of the named format, its own,
// or the one in its system prompt or first observation.
func styleOf(ctx context.Context, e env.Env, format string, seed int64) (style, error) {
	if format != "" {
		p, err := parserNamed(format)
		if err != nil {
			return nil, err
		}
		return composed(p), nil
	}
	if p := env.ParserOf(e); p != nil {
		return composed(p), nil
	}
	system, err := e.System(ctx)
	if err != nil {
		return nil, err
	}
	if p := parserShown(system.Text); p != nil {
		return composed(p), nil
	}
	first, err := e.Reset(ctx, seed)
	if err != nil {
		return nil, err
	}
	if p := parserShown(first.Text); p != nil {
		return composed(p), nil
	}
	return thinkAndAnswer, nil
}

// thinkAndAnswer is the default style.
func thinkAndAnswer(answer string) string { return "<think>-</think><answer>" + answer + "</answer>" }

// composed returns the style of a parser's format, with a dash in sections other than
// the answer.
func composed(p *reward.Parser) style {
	return func(answer string) string {
		return p.Compose(func(section string) string {
			if section == reward.SectionAnswer {
				return answer
			}
			return "-"
		})
	}
}

// dialects are the dialects in the order in which a format is searched.
var dialects = []reward.Dialect{reward.Lite, reward.Next, reward.Legacy, reward.LiteNavigation,
	reward.LitePrimitiveSkill}

// parserNamed returns the parser of the format in --format.
func parserNamed(format string) (*reward.Parser, error) {
	among, name := dialects, format
	if dialect, rest, ok := strings.Cut(format, ":"); ok {
		among, name = []reward.Dialect{reward.Dialect(dialect)}, rest
	}
	var known []string
	for _, d := range among {
		names := reward.Formats(d)
		if slices.Contains(names, name) {
			return reward.NewParser(name, reward.ParserOptions{Dialect: d})
		}
		known = append(known, names...)
	}
	if len(known) == 0 {
		return nil, cli.Usagef("--format: dialect is %q, must be one of %q", among[0], reward.Dialects())
	}
	return nil, cli.Usagef("--format: unknown format %q%s", name, nearest.Hint(name, known))
}

var tagPattern = regexp.MustCompile(`</?[a-z]+>`)

// parserShown returns the parser whose tags occur in order in a text that describes a
// response format; of several, the one with most tags; nil if there is none.
func parserShown(text string) *reward.Parser {
	var best *reward.Parser
	most := 0
	shown := tags(text)
	for _, d := range dialects {
		for _, name := range reward.Formats(d) {
			p, err := reward.NewParser(name, reward.ParserOptions{Dialect: d})
			if err != nil {
				continue // formats are those of the dialect
			}
			sought := tags(composed(p)("-"))
			if len(sought) > most && strings.Contains(shown, sought) {
				best, most = p, len(sought)
			}
		}
	}
	return best
}

// tags returns the tags of a text without the text between them.
func tags(text string) string { return strings.Join(tagPattern.FindAllString(text, -1), "") }

// shape returns an example response for display.
func (s style) shape() string { return strings.ReplaceAll(fmt.Sprint(s("…")), "-", "…") }
