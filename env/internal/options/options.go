// Package options reads and checks the options of environments.
package options

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/nearest"
	"vagen/reward"
)

// Read decodes the options of a configuration over the defaults of the rule set that its
// option "rules" names, "" by default. Errors begin with the name of the
// environment.
func Read[R ~string, O any](name string, config map[string]any, defaults func(R) O) (O, error) {
	rules, _ := config["rules"].(string)
	o := defaults(R(rules))
	if err := env.Decode(config, &o); err != nil {
		return o, fmt.Errorf("%s: %w", name, err)
	}
	return o, nil
}

// Formats returns the prompt formats of a rule set, nil if it is unknown: Lite's in the
// given dialect, and those of Legacy that mark sections with tags, except those with one
// of the suffixes.
func Formats(rules string, lite reward.Dialect, without ...string) []string {
	switch rules {
	case "lite":
		return reward.Formats(lite)
	case "next":
		return reward.Formats(reward.Next)
	case "legacy":
		return slices.DeleteFunc(reward.Formats(reward.Legacy), func(format string) bool {
			return format == "raw_response" ||
				slices.ContainsFunc(without, func(suffix string) bool { return strings.HasSuffix(format, suffix) })
		})
	}
	return nil
}

// Parser returns the parser of a rule set for a prompt format. The dialect in po is
// Lite's. Special tokens are for the legacy rules, KeepCase and AnswerBox for the next.
func Parser(name, rules, format string, po reward.ParserOptions) (*reward.Parser, error) {
	if rules == "legacy" {
		po.Dialect = reward.Legacy
	} else {
		po.SpecialTokens = nil
	}
	if rules == "next" {
		po.Dialect = reward.Next
	} else {
		po.KeepCase, po.AnswerBox = false, false
	}
	p, err := reward.NewParser(format, po)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Faults collects invalid options of an environment. Each fault names the environment
// and the option and wraps env.ErrOption.
type Faults struct {
	env  string
	list []error
}

// Check returns empty Faults for the named environment.
func Check(name string) *Faults { return &Faults{env: name} }

// Err returns all faults in the order found, nil when there are none.
func (f *Faults) Err() error { return errors.Join(f.list...) }

// Addf reports an option: what was found, and what is allowed.
func (f *Faults) Addf(option, format string, args ...any) {
	f.list = append(f.list, fmt.Errorf("%s: option %q: %w: %s", f.env, option, env.ErrOption, fmt.Sprintf(format, args...)))
}

// OneOf reports a text that is not one of the allowed ones, with the nearest of them.
func (f *Faults) OneOf(option, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.Addf(option, "%q is not one of %s%s", value, strings.Join(allowed, ", "), nearest.Hint(value, allowed))
	}
}

// Within reports a number outside low..high.
func Within[N int | float64](f *Faults, option string, value, low, high N) {
	if !(value >= low && value <= high) {
		f.Addf(option, "%v is outside %v..%v", value, low, high)
	}
}

// Positive reports a count below 1.
func (f *Faults) Positive(option string, value int) {
	if value < 1 {
		f.Addf(option, "%d is below 1", value)
	}
}

// Finite reports infinities and NaN.
func (f *Faults) Finite(option string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		f.Addf(option, "%v is not finite", value)
	}
}

// ActionSep reports an empty separator of actions (option action_sep).
func (f *Faults) ActionSep(sep string) {
	if sep == "" {
		f.Addf("action_sep", "empty, must be a non-empty text")
	}
}

// ImagePlaceholder reports a placeholder other than env.ImageMark; old configurations
// set this option.
func (f *Faults) ImagePlaceholder(mark string) {
	if mark != env.ImageMark {
		f.Addf("image_placeholder", "%q, must be %q", mark, env.ImageMark)
	}
}

// Unread reports options that are not read and yet differ from the defaults of the
// rule set. Fields of the struct o say so by a tag besides that of the name:
//
//	rules:"lite next"   read under these rules alone
//	unread:"why"        never read; old configurations have it
//	noted:"why"         never read, and accepted with any value
func Unread[O any](f *Faults, rules string, o, defaults O) {
	got, want := reflect.ValueOf(o), reflect.ValueOf(defaults)
	for i := range got.NumField() {
		field := got.Type().Field(i)
		name, value := field.Tag.Get("option"), got.Field(i)
		if name == "" || reflect.DeepEqual(value.Interface(), want.Field(i).Interface()) {
			continue
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if readers := strings.Fields(field.Tag.Get("rules")); len(readers) > 0 && !slices.Contains(readers, rules) {
			f.Addf(name, "%v has no effect under the %s rules; leave it out, or choose the rules %s", value, rules, strings.Join(readers, " or "))
		}
		if why := field.Tag.Get("unread"); why != "" {
			f.Addf(name, "%v has no effect: %s; leave it out", value, why)
		}
	}
}

// EnvName reports the name of another environment; old configurations repeat it
// among the options.
func (f *Faults) EnvName(name string, known ...string) {
	if name != "" {
		f.OneOf("env_name", name, known...)
	}
}

// StateReward reports judged state reward with a rule set without it, or with a format
// that makes no statements about the state.
func (f *Faults) StateReward(on bool, rules, format string) {
	switch {
	case on && rules == "lite":
		f.Addf("use_state_reward", "the lite rules have no judged state reward")
	case on && rules == "legacy" && !strings.Contains(format, "grounding") && !strings.Contains(format, "worldmodeling") && format != reward.ObservePredict:
		f.Addf("use_state_reward", "the format %q contains no statements about the state; use grounding, worldmodeling or grounding_worldmodeling", format)
	case on && rules == "next" && !strings.Contains(format, "wm") && format != reward.ObservePredict:
		f.Addf("use_state_reward", "the format %q contains no statements about the state; use wm", format)
	}
}
