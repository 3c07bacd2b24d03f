// Package options holds the options that environments share, with their defaults and
// checks. An environment embeds them in its own options.
package options

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/field"
	"vagen/reward"
)

// Make decodes the options of a configuration over the defaults of the rule set that its
// option "rules" names, "" by default, and builds the environment. Errors begin with the
// name of the environment.
func Make[O any, E env.Env](
	name string, config map[string]any, defaults func(env.Rules) O, build func(O) (E, error),
) (env.Env, error) {
	rules, _ := config["rules"].(string)
	o := defaults(env.Rules(rules))
	if err := env.Decode(config, &o); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	e, err := build(o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Formats returns the prompt formats of a rule set, nil if it is unknown: Lite's in the
// given dialect, and those of Legacy that mark sections with tags, except those with one
// of the suffixes.
func Formats(rules env.Rules, lite reward.Dialect, without ...string) []string {
	switch rules {
	case env.Lite:
		return reward.Formats(lite)
	case env.Next:
		return reward.Formats(reward.Next)
	case env.Legacy:
		return slices.DeleteFunc(reward.Formats(reward.Legacy), func(format string) bool {
			return format == "raw_response" ||
				slices.ContainsFunc(without, func(suffix string) bool { return strings.HasSuffix(format, suffix) })
		})
	}
	return nil
}

// Check returns checks for the options of the named environment, with what the tags of the fields of o refuse, see
// field.Checks.Tags. Their errors wrap env.ErrOption.
func Check(name string, o ...any) *field.Checks {
	c := field.Options(name, env.ErrOption)
	for _, v := range o {
		c.Struct(v, "option")
	}
	return c
}

// Unread reports options that are not read and yet differ from the defaults of the
// rule set. Fields of the struct o say so by a tag besides that of the name:
//
//	rules:"lite next"   read under these rules alone
//	with:"option"       read if that option is true
//	unread:"why"        never read; old configurations have it
//	noted:"why"         never read, and accepted with any value
func Unread[O any](c *field.Checks, rules env.Rules, o, defaults O) {
	got, want := reflect.ValueOf(o), reflect.ValueOf(defaults)
	for name, f := range field.Named(got.Type(), "option") {
		value := got.FieldByIndex(f.Index)
		if reflect.DeepEqual(value.Interface(), want.FieldByIndex(f.Index).Interface()) {
			continue
		}
		value = reflect.Indirect(value)
		if readers := strings.Fields(f.Tag.Get("rules")); len(readers) > 0 && !slices.Contains(readers, string(rules)) {
			c.Bad(name, "%v, which has no effect under the %s rules; leave it out, or choose the rules %s", value, rules,
				strings.Join(readers, " or "))
		}
		for other, g := range field.Named(got.Type(), "option") {
			if other == f.Tag.Get("with") && !got.FieldByIndex(g.Index).Bool() {
				c.Bad(name, "%v, which has no effect, as %s is false; leave it out", value, other)
			}
		}
		if why := f.Tag.Get("unread"); why != "" {
			c.Bad(name, "%v, which has no effect: %s; leave it out", value, why)
		}
	}
}
