package pyjson

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// object has members in an order of its own.
type object = members

func text(t testing.TB, v any, s Style) string {
	t.Helper()
	b, err := Append(nil, v, s)
	require.NoError(t, err)
	return string(b)
}

// The right-hand sides are what Python 3.11 prints.
func TestFloatsAreWrittenAsPythonDoes(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1, "1.0"}, {-1.5, "-1.5"}, {0.1, "0.1"}, {1e-4, "0.0001"},
		{9.999e-5, "9.999e-05"},
		{1e15, "1000000000000000.0"}, {1e16, "1e+16"}, {123456789012345680, "1.2345678901234568e+17"}, {1.5e300, "1.5e+300"},
		{5e-324, "5e-324"}, {3600, "3600.0"}, {1795297090.5246358, "1795297090.5246358"}, {1 << 53, "9007199254740992.0"},
		{1e22, "1e+22"},
		{0.1 + 0.2, "0.30000000000000004"}, {math.NaN(), "NaN"}, {math.Inf(1), "Infinity"}, {math.Inf(-1), "-Infinity"},
	} {
		if c.f == 0.1+0.2 {
			a, b := 0.1, 0.2
			c.f = a + b // the sum of constants is exact
		}
		assert.Equal(t, c.want, text(t, c.f, Lite))
	}
}

func TestTextIsEscapedAsPythonDoes(t *testing.T) {
	const s = "a\"\\/\b\f\n\r\t\x00\x1f\x7f é漢😀\u2028"
	assert.Equal(t, `"a\"\\/\b\f\n\r\t\u0000\u001f\u007f \u00e9\u6f22\ud83d\ude00\u2028"`, text(t, s, Legacy))
	assert.Equal(t, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f é漢😀\u2028\"", text(t, s, Lite))
	assert.Equal(t, "\"a\ufffdb\"", text(t, "a\xffb", Lite), "what is not UTF-8 is marked")
	assert.Equal(t, `"a\ufffdb"`, text(t, "a\xffb", Legacy))
}

func TestStyles(t *testing.T) {
	v := object{{"b", []any{1, 2.0, nil, true}}, {"a", object{{"z", "é"}, {"y", []string{}}}}}
	assert.Equal(t, `{"b": [1, 2.0, null, true], "a": {"z": "é", "y": []}}`, text(t, v, Lite))
	assert.Equal(t, `{"b":[1,2.0,null,true],"a":{"z":"é","y":[]}}`, text(t, v, Plain))
	assert.Equal(t, `{"a":{"y":[],"z":"\u00e9"},"b":[1,2.0,null,true]}`, text(t, v, Legacy))
	assert.Equal(t, `{}`, text(t, object(nil), Lite))
	assert.Equal(t, `[[1,2], 3]`, text(t, []any{Raw("[1,2]"), 3}, Lite), "what is written stays as it is")
}

func TestValuesOfOtherTypes(t *testing.T) {
	type name string
	n := 7
	assert.Equal(t, `[1, 2, 3.0, "x", true, 7, null, [1, 2], {"k": 1}, {"a": 1, "b": 2}]`,
		text(t, []any{int8(1), uint64(2), float32(3), name("x"), struct{ bool }{true}.bool, &n, (*int)(nil), [2]int{1, 2},
			map[name]int{"k": 1}, map[string]any{"b": 2, "a": 1}}, Lite))
	for _, bad := range []any{make(chan int), struct{}{}, map[int]int{1: 1}, func() {}, complex(1, 1)} {
		_, err := Append(nil, map[string]any{"here": []any{bad}}, Lite)
		assert.ErrorContains(t, err, `"here": entry 0: a value of type`)
	}
	loop := map[string]any{}
	loop["loop"] = loop
	_, err := Append(nil, loop, Lite)
	assert.ErrorContains(t, err, "nested deeper than 100")
}

func TestParseTakesWhatPythonTakes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want any
	}{
		{` null `, nil}, {`true`, true}, {`false`, false}, {`12`, int64(12)}, {`-0`, int64(0)}, {`1.50`, 1.5},
		{`-1e3`, -1000.0}, {`1E+2`, 100.0},
		{`9223372036854775807`, int64(math.MaxInt64)}, {`9223372036854775808`, 9223372036854775808.0}, {`1e999`, math.Inf(1)},
		{`-Infinity`, math.Inf(-1)}, {`[]`, []any{}}, {"[1 ,\t[2]\n]", []any{int64(1), []any{int64(2)}}},
		{`{"a":1,"a":2}`, map[string]any{"a": int64(2)}}, {`{ }`, map[string]any{}}, {`"\u00e9\ud83d\ude00\/\n"`, "é😀/\n"},
		{`"\ud83d"`, "\ufffd"}, {`"\ude00x"`, "\ufffdx"}, {`"\ud83d\u0041"`, "\ufffdA"},
		{`"a\u2028b` + "\u2028" + `"`, "a\u2028b\u2028"},
	} {
		got, err := Parse([]byte(c.in))
		require.NoError(t, err, c.in)
		assert.Equal(t, c.want, got, c.in)
	}
	got, err := Parse([]byte("NaN"))
	require.NoError(t, err)
	assert.True(t, math.IsNaN(got.(float64)))
}

func TestParseRefusesWhatIsNoJSON(t *testing.T) {
	for _, in := range []string{"", " ", "nul", "nan", "01", "1.", ".5", "1e", "+1", "-", "--1", "[1,]", "[1 2]", "[", "{",
		`{"a"}`, `{"a":}`, `{"a":1,}`,
		`{a:1}`, `"`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"a\nb\"", `"\u0041` + "\x01\"", "1 2", "\ufeff1", "\"\xff\"", "'a'",
		"[1}", `"\`,
		strings.Repeat("[", 101) + strings.Repeat("]", 101)} {
		_, err := Parse([]byte(in))
		assert.ErrorIs(t, err, ErrSyntax, "%q", in)
	}
	_, err := Parse([]byte(strings.Repeat("[", 100) + strings.Repeat("]", 100)))
	assert.NoError(t, err)
	_, err = Parse([]byte(`{"a": [1, x]}`))
	assert.ErrorContains(t, err, "at byte 10")
}

// What is written in any style is read as the same value, and written again as
// the same text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, NaN, "x\ud83d\ude00\u0000"], "b": null}`,
		`[-Infinity, 1e400, 123456789012345678901]`, `"\ud800"`, "\"\u007f\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Parse(in)
		if err != nil {
			return
		}
		for _, s := range []Style{Lite, Plain, Legacy} {
			once := text(t, v, s)
			again, err := Parse([]byte(once))
			if err != nil {
				t.Fatalf("%q became %q: %v", in, once, err)
			}
			if twice := text(t, again, s); twice != once {
				t.Fatalf("%q became %q and then %q", in, once, twice)
			}
		}
	})
}

func TestTextsOfTooManyValuesAreRefused(t *testing.T) {
	list := func(n int, value string) []byte {
		return []byte("[" + strings.Repeat(value+",", n-1) + value + "]")
	}
	_, err := Parse(list(MaxValues-1, "0"))
	assert.NoError(t, err)
	_, err = Parse(list(MaxValues, "0"))
	assert.ErrorIs(t, err, ErrLimit)
	_, err = Parse(list(MaxValues/2, `{"":0}`))
	assert.ErrorIs(t, err, ErrLimit, "values within others count")
}
