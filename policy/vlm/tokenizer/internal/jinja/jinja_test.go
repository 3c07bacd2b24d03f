package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

func render(src string, vars map[string]any) (string, error) {
	t, err := Parse(src)
	if err != nil {
		return "", err
	}
	return t.Render(vars)
}

// example is a template with its output, or with a part of its error.
type example struct{ Src, Want string }

// The expected outputs are those of jinja2 3.1 with the settings of transformers.
func TestOutputEqualsJinja2(t *testing.T) {
	vars := map[string]any{
		"s": " Text\n", "n": 7, "yes": true, "none": nil, "list": []any{"a", "b", "c"}, "empty": []any{},
		"d": map[string]any{"role": "user", "items": 1},
		"messages": []any{map[string]any{"role": "user", "content": "x"},
			map[string]any{"role": "assistant", "content": "y"}},
	}
	for _, c := range golden.Table[[]example](t, "output.yaml") {
		got, err := render(c.Src, vars)
		require.NoError(t, err, c.Src)
		require.Equal(t, c.Want, got, c.Src)
	}
}

// The expected outputs are those of jinja2 3.1 with json.dumps, as in transformers.
func TestJSONKeepsTheOrderOfItsKeys(t *testing.T) {
	raw := json.RawMessage(
		`{"b": [1, 2.50, -0.0, 1e20, 1e-7, 123456789.25, true, null, []], "a": {"z": "q\"\\\n\u0001\u007f é\u2028", "y": {}}}`,
	)
	for src, want := range map[string]string{
		"{{ v[0]|tojson }}":           "{\"b\": [1, 2.5, -0.0, 1e+20, 1e-07, 123456789.25, true, null, []], \"a\": {\"z\": \"q\\\"\\\\\\n\\u0001\u007f é\u2028\", \"y\": {}}}",
		"{{ v[0]|tojson(indent=4) }}": "{\n    \"b\": [\n        1,\n        2.5,\n        -0.0,\n        1e+20,\n        1e-07,\n        123456789.25,\n        true,\n        null,\n        []\n    ],\n    \"a\": {\n        \"z\": \"q\\\"\\\\\\n\\u0001\u007f é\u2028\",\n        \"y\": {}\n    }\n}",
		"{% for k in v[0] %}{{ k }}{% endfor %}{% for k, x in v[0].a.items() %}{{ k }};{% endfor %}": "baz;y;",
		"{{ v[0].b|length }}{{ v[0].a is mapping }}":                                                 "9True",
	} {
		got, err := render(src, map[string]any{"v": []any{raw}})
		require.NoError(t, err, src)
		require.Equal(t, want, got, src)
	}
	_, err := render("", map[string]any{"v": json.RawMessage(`{"a"`)})
	require.ErrorContains(t, err, "not JSON")
}

func TestErrorsNameUnknownConstructs(t *testing.T) {
	for _, c := range golden.Table[[]example](t, "errors.yaml") {
		_, err := render(c.Src, nil)
		require.ErrorContains(t, err, c.Want, c.Src)
	}
}

// The expected texts are those of Python's strftime.
func TestTheClockIsAVariable(t *testing.T) {
	src := "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y, %A %H:%M:%S %I%p %j %y%m%a %B 100%%') }}{% else %}none{% endif %}"
	for at, want := range map[any]string{
		nil:                    "none",
		"2026-01-02":           "02 Jan 2026, Friday 00:00:00 12AM 002 2601Fri January 100%",
		"2026-11-26T15:04:05Z": "26 Nov 2026, Thursday 15:04:05 03PM 330 2611Thu November 100%",
	} {
		vars := map[string]any{}
		if at != nil {
			vars["strftime_now"] = at
		}
		got, err := render(src, vars)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := render("", map[string]any{"strftime_now": "today"})
	require.ErrorContains(t, err, "strftime_now: today: must be a time")
	_, err = render("{{ strftime_now('%Q') }}", map[string]any{"strftime_now": "2026-01-02"})
	require.ErrorContains(t, err, "strftime_now with %Q is not supported")
}

func TestRaisedExceptionsAreErrors(t *testing.T) {
	_, err := render("{{ raise_exception('no ' ~ 1) }}", nil)
	var raised *RaisedError
	require.True(t, errors.As(err, &raised))
	require.Equal(t, "no 1", raised.Message)
}

func TestHostileTemplatesReachALimit(t *testing.T) {
	grow := "{% set ns = namespace(x='xxxxxxxxxxxxxxxx', l=[1]) %}{% for i in range(100) %}"
	long := "{% set ns = namespace(x='xxxxxxxxxxxxxxxx', y='') %}{% for i in range(14) %}{% set ns.x = ns.x + ns.x %}{% endfor %}" +
		"{% set ns.y = ns.x ~ '' %}{% for i in range(2000) %}"
	for name, src := range map[string]string{
		"loops":     "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}",
		"range":     "{{ range(1000000000)|length }}",
		"text":      grow + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"replace":   grow + "{% set ns.x = ns.x.replace('x', ns.x) %}{% endfor %}",
		"join":      grow + "{% set ns.x = ns.x|join(ns.x) %}{% endfor %}",
		"list":      grow + "{% set ns.l = ns.l + ns.l %}{% endfor %}",
		"output":    grow + "{% set ns.x = ns.x ~ 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy' * 10000 %}{% endfor %}",
		"recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"brackets":  "{{ " + strings.Repeat("(", 100000) + " }}",
		"nots":      "{{ " + strings.Repeat("not ", 100000) + "x }}",
		"minus":     "{{ " + strings.Repeat("-", 100000) + "1 }}",
		"blocks":    strings.Repeat("{% if x %}", 100000),
		"elifs":     "{% if x %}" + strings.Repeat("{% elif x %}", 100000) + "{% endif %}",
		"sums":      "{{ " + strings.Repeat("1+", 1<<19) + "1 }}",
		"length":    long + "{{ ns.x|length }}{% endfor %}",
		"methods":   long + "{{ ns.x.strip('y').startswith('y') }}{% endfor %}",
		"search":    long + "{{ 'y' in ns.x }}{% endfor %}",
		"equality":  long + "{{ ns.x == ns.y }}{% endfor %}",
		"slices":    long + "{{ ns.x[0] ~ ns.x[:1] }}{% endfor %}",
		"ranges":    "{% set ns = namespace(x=[]) %}{% for a in range(20000) %}{% set ns.x = [ns.x, range(20000)] %}{% endfor %}",
		"discarded": "{% for a in range(20000) %}{% for b in range(20000) if false %}{% endfor %}{% endfor %}",
		"cuts":      "{% set l = range(15000) %}{% set ns = namespace(x=[]) %}{% for a in range(15000) %}{% set ns.x = [ns.x, l[1:]] %}{% endfor %}",
		"sorted":    "{% set d = {'a': 1} %}{% set l = range(15000) %}{% for a in l %}{{ l|reverse|length }}{% endfor %}",
		"spelled":   long + "{{ ns.x|list|length }}{% endfor %}",
		"kept": "{% set ns = namespace(x='xxxxxxxxxxxxxxxx', l=[]) %}{% for i in range(14) %}{% set ns.x = ns.x + ns.x %}{% endfor %}" +
			"{% for i in range(10000) %}{% set ns.l = [ns.l, ns.x ~ i] %}{% endfor %}",
		"stripped": "{% set ns = namespace(x='xxxxxxxxxxxxxxxx', y='yyyyyyyyyyyyyyyy') %}{% for i in range(15) %}{% set ns.x = ns.x + ns.x %}{% set ns.y = ns.y + ns.y %}{% endfor %}" +
			"{% for i in range(1000) %}{{ ns.x.strip(ns.y ~ 'x') }}{% endfor %}",
		"prefixes": long + "{{ ns.x.startswith([ns.y ~ 'a', ns.y ~ 'b', ns.y ~ 'c', ns.y ~ 'd']) }}{% endfor %}",
		"sought":   long + "{{ ns.y in [ns.x ~ 'a', ns.x ~ 'b', ns.x ~ 'c'] }}{% endfor %}",
		"macros":   "{% for i in range(15000) %}" + strings.Repeat("{% macro m() %}{% endmacro %}", 1000) + "{% endfor %}",
		"breaks":   "{% for i in range(15000) %}" + strings.Repeat("{% set x %}{% endset %}", 1000) + "{% endfor %}",
		"doubled":  "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
		"repeated": grow + "{% set ns.x = ns.x * 1000 %}{% set ns.l = ns.l * 1000 %}{% endfor %}",
		"attributes": "{% set ns = namespace() %}{% set ns.a = ns %}{% set n = 'a.' * 100000 ~ 'a' %}{% for i in range(10) %}" +
			"{{ [ns]|map(attribute=n)|length }}{% endfor %}",
		"largest": "{{ range(9223372036854775000, 9223372036854775807, 1000)|length }}{{ range(100000)|length }}",
		// Nested lists that contain the same list twice have millions of leaves.
		"equal lists": "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(24) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := render(src, nil)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "runtime error", name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<29), "%s: bytes in all, also of the parser", name)
	}
}

// TestIntegersAreThoseOfPython: jinja2 gives the number, the default where Python reads none, or there is an error.
func TestIntegersAreThoseOfPython(t *testing.T) {
	for text, want := range map[string]string{
		"12": "12", " 12\n": "12", " 12\x1c": "7", "-3.9": "-3", "0x10": "7", "0x1p4": "7", "a_b": "7", "inf": "7", "nan": "7",
		"1e999": "7", "1e15": "1000000000000000",
	} {
		got, err := render("{{ '"+text+"'|int(7) }}", nil)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"'1_000'", "'1_0.5'", "'1e20'", "'99999999999999999999'", "'\u0661\u0662'", "x"} {
		_, err := render("{{ "+text+"|int(7) }}", map[string]any{"x": 1e300})
		require.Error(t, err, text)
	}
}

func TestJSONIsNotNestedTooDeeply(t *testing.T) {
	const deep = 200_000 // millions would exhaust the stack, which ends the process
	text := strings.Repeat("[", deep) + strings.Repeat("]", deep)
	_, err := render("{{ x|length }}", map[string]any{"x": json.RawMessage(text)})
	require.ErrorContains(t, err, "nested more than 10000 deep")
}

// A panic in this package becomes an error.
func TestBugsOfThePackageAreErrors(t *testing.T) {
	broken := function(func(call) any { return []int{}[1] })
	_, err := render("{{ f() }}", map[string]any{"f": broken})
	require.ErrorContains(t, err, "jinja: runtime error: index out of range")
}

func TestRenderDoesNotChangeVariables(t *testing.T) {
	vars := map[string]any{"x": 1, "l": []any{"a", "b"}}
	out, err := render("{% set x = 2 %}{% set l = l|reverse %}{{ x }}{{ l|join }}", vars)
	require.NoError(t, err)
	require.Equal(t, "2ba", out)
	require.Equal(t, map[string]any{"x": 1, "l": []any{"a", "b"}}, vars)
}

// No template makes parsing or rendering panic or hang.
func FuzzRender(f *testing.F) {
	for _, src := range []string{
		"{% for m in messages %}{{ m.role + '\\n' + m['content']|trim }}{% endfor %}",
		"{%- set ns = namespace(a=1) -%}{% if x is not none %}{{ ns.a ~ [1,2][0] }}{% else %}{{ 'a'.split('b')[-1] }}{% endif %}",
		"{% macro f(a, b=2) %}{{ a }}{% endmacro %}{{ f(1) }}{# c #}{{ messages[::-1][0].content[1:] }}",
		"{% set ns = namespace(x=[]) %}{% for a in range(20000) %}{% set ns.x = [ns.x, range(20000)] %}{% endfor %}",
		"{% for a in range(9999) %}{% for b in range(9999) if a in [b] %}{{ loop.index }}{% endfor %}{% endfor %}",
		"{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = (ns.x ~ ns.x).replace('x', 'yx')|reverse %}{% endfor %}",
		"{{ range(3)|list|length // 2 % 3 }}{{ {'a': 1}.a }}",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 2000 {
			return
		}
		tpl, err := Parse(src)
		if err != nil {
			require.NotContains(t, err.Error(), "runtime error")
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = tpl.Render(map[string]any{"messages": []any{map[string]any{"role": "user", "content": "héllo"}}, "x": nil})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<29))
		require.NotContains(t, fmt.Sprint(err), "runtime error")
	})
}
