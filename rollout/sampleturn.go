package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
)

// ErrTurn is wrapped by errors of CheckTurn.
var ErrTurn = errors.New("the chat template and the response format do not fit")

// TryTurn resets an environment, checks a sample turn by CheckTurn unless t is nil, and returns the system prompt and
// the first observation. The program of a Caller is not started: nothing is returned.
func TryTurn(
	ctx context.Context, e env.Env, seed int64, t policy.Templated,
) (system, first env.Observation, err error) {
	if e == nil {
		return system, first, errors.New("rollout: sample turn: the environment is nil")
	}
	if c, err := CallerOf(e); c != nil || err != nil {
		return system, first, err
	}
	if system, err = e.System(ctx); err == nil {
		first, err = e.Reset(ctx, seed)
	}
	if err == nil && t != nil {
		err = CheckTurn(t, env.ParserOf(e), system, first)
	}
	return system, first, err
}

// CheckTurn writes a sample turn with a policy's chat template and tokenizer, and reads it with
// an environment's parser: what the environment says before the first turn, without images, and
// a response of the format after the text that the template opens. It returns an error if no
// response that begins with that text has the format, or if the parser reads something else
// than what was written. parser is nil if it is not known; then only the template is checked.
func CheckTurn(t policy.Templated, parser *reward.Parser, system, first env.Observation) error {
	if t == nil {
		return errors.New("rollout: sample turn: the encoder is nil")
	}
	response := closed(t.Opened()) + "-"
	if parser != nil {
		var ok bool
		if response, ok = sampleResponse(parser, t.Opened()); !ok {
			return fmt.Errorf("rollout: %w: the chat template begins every response with %q, "+
				"and no response that begins so has the format %s (%s): choose %s, or a chat template that does not open the response",
				ErrTurn, t.Opened(), parser.Format(), parser.Compose(dash), fitting(parser, t.Opened()))
		}
	}
	read := strings.ReplaceAll(system.Text+"\n"+first.Text, env.ImageMark, "")
	pieces, _, err := t.Encode(
		[]policy.Message{{Role: policy.User, Text: read}, {Role: policy.Assistant, Text: response}},
	)
	if err != nil {
		return fmt.Errorf("rollout: %w: %w", ErrTurn, err)
	}
	if parser == nil {
		return nil
	}
	var back string
	for _, p := range pieces {
		if p.Response {
			back = t.Response(p.Tokens)
		}
	}
	want, got := parser.Parse(response), parser.Parse(back)
	same := maps.EqualFunc(want.Sections, got.Sections, alike) && slices.Equal(want.Actions, got.Actions)
	if !got.FormatCorrect || !same {
		return fmt.Errorf("rollout: %w: after chat template and tokenizer the response %q of the format %s is %q, "+
			"in which the parser finds the sections %q", ErrTurn, response, parser.Format(), back, got.Sections)
	}
	return nil
}

// sampleResponse returns a response of the parser's format that begins with the text that a
// template opens, with a dash in each section. ok is false if there is none.
func sampleResponse(p *reward.Parser, opened string) (response string, ok bool) {
	response = p.Compose(dash)
	if !strings.HasPrefix(response, strings.TrimSpace(opened)) {
		response = closed(opened) + response
	}
	return response, p.Parse(response).FormatCorrect
}

// alike reports whether texts are equal without their white space, some of which a template writes.
func alike(a, b string) bool {
	return strings.Join(strings.Fields(a), "") == strings.Join(strings.Fields(b), "")
}

func dash(string) string { return "-" }

var openedTag = regexp.MustCompile(`<([^<>/]+)>`)

// closed returns opened text with a dash and its closing tags after it; "" stays empty.
func closed(opened string) string {
	if opened == "" {
		return ""
	}
	text := strings.TrimSpace(opened) + "-"
	for _, tag := range slices.Backward(openedTag.FindAllStringSubmatch(opened, -1)) {
		text += "</" + tag[1] + ">"
	}
	return text
}

// fitting names the formats of a parser's dialect with responses that begin with opened text.
func fitting(p *reward.Parser, opened string) string {
	var names []string
	for _, name := range reward.Formats(p.Dialect()) {
		other, err := reward.NewParser(name, reward.ParserOptions{Dialect: p.Dialect()})
		if err != nil {
			continue // formats are those of the dialect
		}
		if _, ok := sampleResponse(other, opened); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "a format of other rules"
	}
	return "one of the formats " + strings.Join(names, ", ")
}
