// Package turns holds what environments do alike in every turn: it reads the response and
// rewards statements about the state.
package turns

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"vagen/env"
	"vagen/env/internal/calls"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Base is what the environments have alike: the parts that depend on the options alone,
// and the check of the order of calls. An environment embeds it, and so has Close, the
// methods of env.Claimant, System and the parser of its responses.
type Base struct {
	Calls  calls.Guard
	Texts  prompts.Set // templates of the user
	Prompt Prompt      // set by New's caller
	rules  env.Rules
	strict bool
	parser *reward.Parser
	state  options.StateReward

	earlier *Truth // before the previous turn, nil in the first; only with judged state reward
}

// New returns the Base of an environment, or the error of invalid options. name is the environment's in errors. The
// dialect in po is that of the lite rules; of po, KeepCase and AnswerBox are for the next
// rules. names are the placeholders of the environment's templates.
func New(name string, invalid error, o options.Ruled, names prompts.Names, po reward.ParserOptions) (Base, error) {
	if invalid != nil {
		return Base{}, invalid
	}
	po.ActionSep, po.MaxActions, po.Dialect = o.ActionSep, o.MaxActions, options.Dialect(o.Rules, po.Dialect)
	if o.Rules == env.Legacy {
		po.SpecialTokens = o.SpecialTokens
	}
	if o.Rules != env.Next {
		po.KeepCase, po.AnswerBox = false, false
	}
	c := options.Check(name)
	texts := prompts.Load(c, &o.Response, names)
	if err := c.Err(); err != nil {
		return Base{}, err
	}
	p, err := options.NewParser(&o.Response, po)
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", name, err)
	}
	return Base{Calls: calls.Guard{Env: name}, Texts: texts, rules: o.Rules, parser: p, state: o.StateReward}, nil
}

// Strict makes malformed turns of the next rules have no effect.
func (b Base) Strict(on bool) Base {
	b.strict = on
	return b
}

// Claiming implements env.Claimant.
func (b *Base) Claiming() bool { return b.state.UseStateReward }

// Parser returns the parser of responses.
func (b *Base) Parser() *reward.Parser { return b.parser }

// Read parses a response. Under the next rules a turn with too many actions is malformed.
func Read(b *Base, response string) reward.Response {
	r := b.parser.Parse(response)
	if b.rules == env.Next {
		r = words.EnforceFormat(r, b.strict)
	}
	return r
}

// Close closes the environment.
func (b *Base) Close() error { return b.Calls.Close() }

// Prompt has the parts of an environment's system prompt without templates: its own text, the instruction about
// the format of responses, and an example of one.
type Prompt struct {
	Own, Format, Example func() string
	Brief                bool           // Own is the whole prompt
	Shown                bool           // the example is shown
	Lead                 string         // before the example; "" means "\nFor example:\n"
	More                 prompts.Values // other placeholders of the templates
}

// System returns the system prompt.
func (b *Base) System(ctx context.Context) (env.Observation, error) {
	if err := b.Calls.Open(ctx); err != nil {
		return env.Observation{}, err
	}
	p := &b.Prompt
	return env.Observation{Text: b.Texts.System(func() string {
		text := p.Own()
		if p.Brief {
			return text
		}
		text += b.FormatText()
		if p.Shown {
			text += cmp.Or(p.Lead, "\nFor example:\n") + p.Example()
		}
		return text
	}, b.FormatText, p.Example, p.More)}, nil
}

// FormatText returns the instruction about the format of responses.
func (b *Base) FormatText() string {
	if b.Prompt.Format == nil { // of a zero value
		return ""
	}
	return b.Texts.Format(b.parser, b.Prompt.Format)
}

// Outcome is that of a turn, with the metrics that environments have alike.
func Outcome(r reward.Response, done, success, valid, effective bool) env.Outcome {
	return env.Outcome{
		Response: r, Done: done, Success: success,
		Turn:       env.Metrics{"action_is_valid": words.Number(valid), "action_is_effective": words.Number(effective)},
		Trajectory: env.Metrics{"success": words.Number(success)},
	}
}

// Describe rewards sections that describe the state before and after the turn in an
// environment's vocabulary: the share of correct words times the weight, as a part named
// after the section. A section with weight 0 is left out. more is of the observation, which
// may be described by more than the prediction.
func Describe[S any](out *env.Outcome, observation, prediction float64, before, after S, more bool,
	describe func(state S, more bool) string) {
	score := func(section string, weight float64, state S, more bool) {
		if weight != 0 {
			score := words.Score(out.Response.Sections[section], describe(state, more))
			out.Turn[section+"_score"] = score
			out.Reward.Add(section, weight*score)
		}
	}
	score(reward.SectionObservation, observation, before, more)
	score(reward.SectionPrediction, prediction, after, false)
}

// Claim attaches a response's statements to the outcome for a judge, if judged state
// reward is on and the format is rewarded; with an unrewarded format the judged metrics
// are zero. Observations are about the state before the turn, predictions about the one
// after. judged is the name under which judges know the environment, and truth sets the
// true facts of a state. Claim is called in every turn, whatever the response: it remembers
// the truth for the claims of the next turn.
func Claim[S any](
	b *Base, out *env.Outcome, judged string, rewarded bool, before, after S, truth func(*reward.Claim, S),
) {
	if !b.state.UseStateReward {
		return
	}
	unchanged := reflect.DeepEqual(before, after)
	known := truthOf(before, truth)
	earlier := b.earlier
	b.earlier = &known
	for _, about := range []struct {
		section string
		truth   func() Truth
		earlier *Truth
		weight  float64
	}{
		{reward.SectionObservation, func() Truth { return known }, earlier, b.state.GroundingWeight},
		{reward.SectionPrediction, func() Truth { return truthOf(after, truth) }, &known, b.state.WorldModelingWeight},
	} {
		text := out.Response.Sections[about.section]
		switch {
		case text == "":
		case !rewarded:
			out.Turn[env.ClaimMetric(about.section)] = 0
		default:
			c := reward.Claim{Section: about.section, Text: text, Env: judged, Weight: about.weight, Unchanged: unchanged}
			now := about.truth()
			c.Truth, c.State = now.Relations, now.State
			if about.earlier != nil {
				c.Earlier, c.EarlierState = about.earlier.Relations, about.earlier.State
			}
			out.Claims = append(out.Claims, c)
		}
	}
}
