// Package redact removes secrets from data that is written to files or sent to services.
//
// A secret is recognised by its key (token, password, api_key, …; everything in headers),
// or as the user information or a named parameter of a URL. Each is replaced by Mark.
// Names of environment variables, such as key_env, are not secrets.
package redact

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Mark replaces a secret.
const Mark = "REDACTED"

// secrets are keys of secrets. Keys that end in one, such as hub_token, are included.
var secrets = []string{"token", "password", "passwd", "secret", "api_key", "apikey", "access_key", "private_key",
	"authorization", "credential", "credentials", "cookie"}

// Secret reports whether a value of this name is a secret.
func Secret(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	return slices.ContainsFunc(secrets, func(s string) bool { return name == s || strings.HasSuffix(name, "_"+s) })
}

// headers reports whether all strings below a key count as secrets.
func headers(name string) bool {
	name = strings.ToLower(name)
	return name == "header" || name == "headers" || strings.HasSuffix(name, "_headers")
}

var (
	userinfo  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#]*)@`)
	parameter = regexp.MustCompile(`([?&;]([A-Za-z0-9_.-]+)=)([^\s&;#"']+)`)
)

// Text replaces the secrets in URLs of a text: passwords, users without one, and
// parameters with the name of a secret.
func Text(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	s = userinfo.ReplaceAllStringFunc(s, func(found string) string {
		part := userinfo.FindStringSubmatch(found)
		if user, _, ok := strings.Cut(part[2], ":"); ok {
			return part[1] + user + ":" + Mark + "@"
		}
		return part[1] + Mark + "@"
	})
	return parameter.ReplaceAllStringFunc(s, func(found string) string {
		part := parameter.FindStringSubmatch(found)
		if !Secret(part[2]) {
			return found
		}
		return part[1] + Mark
	})
}

// Value replaces the secrets in a setting of this name: a text, a list or a mapping,
// which it does not change. Other values, and those without secrets, are returned as
// they are.
func Value(name string, v any) any {
	out, _ := value(v, Secret(name), headers(name))
	return out
}

// value is like Value and also reports whether anything was replaced.
func value(v any, secret, all bool) (any, bool) {
	switch v := v.(type) {
	case string:
		switch {
		case v == "":
			return v, false
		case secret || all:
			return Mark, true
		}
		s := Text(v)
		return s, s != v
	case []string:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = x
		}
		if out, changed := value(list, secret, all); changed {
			return out, true
		}
		return v, false
	case []any:
		out, changed := slices.Clone(v), false
		for i, x := range v {
			y, c := value(x, secret, all)
			out[i], changed = y, changed || c
		}
		if changed {
			return out, true
		}
		return v, false
	case map[string]any:
		out, changed := maps.Clone(v), false
		for name, x := range v {
			y, c := value(x, secret || Secret(name), all || headers(name))
			out[name], changed = y, changed || c
		}
		if changed {
			return out, true
		}
		return v, false
	}
	return v, false
}

// Marked lists the keys below a setting of this name whose value contains Mark.
func Marked(name string, v any) []string {
	switch v := v.(type) {
	case string:
		if v == Mark || strings.Contains(v, "://"+Mark+"@") || strings.Contains(v, ":"+Mark+"@") ||
			strings.Contains(v, "="+Mark) {
			return []string{name}
		}
	case []any:
		var out []string
		for _, x := range v {
			out = append(out, Marked(name, x)...)
		}
		return slices.Compact(out)
	case map[string]any:
		var out []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, Marked(name+"."+key, v[key])...)
		}
		return out
	}
	return nil
}
