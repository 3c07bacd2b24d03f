package jsontext

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTextThatIsNotUTF8IsRefusedWithLineAndByte: encoding/json would replace it by U+FFFD.
func TestTextThatIsNotUTF8IsRefusedWithLineAndByte(t *testing.T) {
	for text, want := range map[string]string{
		"\"caf\xe9\"":                  "line 1, byte 5: 0xe9 is not UTF-8",
		"{\n\"é\":\n \"caf\xe9\"}":     "line 3, byte 6: 0xe9 is not UTF-8",
		"\xff\xfe{\x00}\x00":           "line 1, byte 1: 0xff is not UTF-8",
		"\"\xed\xa0\x80\"":             "line 1, byte 2: 0xed is not UTF-8", // a surrogate
		`"a\ud800"`:                    `line 1, byte 3: \ud800 is half of a surrogate pair, without the other half`,
		"[\n\"\\uDC00\"]":              `line 2, byte 2: \uDC00 is half`,
		`"\ud83d\ud83d\ude00"`:         `line 1, byte 2: \ud83d is half`,
		`"\ud83dude00"`:                `line 1, byte 2: \ud83d is half`,
		`"\ud83d\\ude00"`:              `line 1, byte 2: \ud83d is half`,
		"\xef\xbb\xbf[\"\\n\\ud9ab\"]": `line 1, byte 8: \ud9ab is half`,
	} {
		var v any
		require.ErrorContains(t, Unmarshal([]byte(text), &v), want, "%q", text)
	}
	var v any
	require.EqualError(t, UnmarshalLine([]byte(" \"\xe9\""), 7, &v), "byte 3: 0xe9 is not UTF-8")
}

func TestTextInUTF8IsDecodedAsBefore(t *testing.T) {
	for text, want := range map[string]any{
		`"é \ud83d\ude00 \\ud800 \u00e9\"\n\ufffd"`: "é 😀 \\ud800 é\"\n\ufffd",
		"\xef\xbb\xbf[1]": []any{1.0},
		`"\uD83D\uDE00"`:  "😀",
		"\"\ufffd\"":      "\ufffd",
	} {
		var v any
		require.NoError(t, Unmarshal([]byte(text), &v), text)
		require.Equal(t, want, v)
	}
	var v any
	for _, text := range []string{`"\`, `"\u12`, `\u`, "[1]\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf1"} {
		require.Error(t, Unmarshal([]byte(text), &v), text)
	}
	require.NoError(t, UnmarshalLine([]byte("\xef\xbb\xbf[1]"), 1, &v))
	require.Error(t, UnmarshalLine([]byte("\xef\xbb\xbf[1]"), 2, &v))
}

// TestNumbersOfTrees: Whole gives the types of YAML, Exact keeps integers that are no float64.
func TestNumbersOfTrees(t *testing.T) {
	for text, want := range map[string][2]any{
		"1": {uint64(1), 1.0}, "-1": {int64(-1), -1.0}, "2.0": {2.0, 2.0}, "1e3": {1e3, 1e3}, "-0": {int64(0), math.Copysign(0, -1)},
		"9007199254740993":     {uint64(9007199254740993), json.Number("9007199254740993")},
		"18446744073709551615": {uint64(math.MaxUint64), json.Number("18446744073709551615")},
	} {
		whole, err := Tree[[]any]("["+text+"]", Whole)
		require.NoError(t, err)
		exact, err := Tree[[]any]("["+text+"]", Exact)
		require.NoError(t, err)
		require.Equal(t, want, [2]any{whole[0], exact[0]}, text)
	}
	_, err := Tree[[]any]("[18446744073709551616]", Whole)
	require.ErrorContains(t, err, "out of range")
	exact, err := Tree[[]any]("[18446744073709551616, 1E2]", Exact)
	require.NoError(t, err)
	require.Equal(t, []any{json.Number("18446744073709551616"), 100.0}, exact)
	_, err = Tree[[]any]("[1e999]", Exact)
	require.Error(t, err)
	for _, more := range []string{"]", "}", " 2"} {
		_, err = Tree[[]any]("[1]"+more, Exact)
		require.ErrorContains(t, err, "text after")
	}
}

// TestTextIsAJSONString as encoding/json reads it, and nothing else is.
func TestTextIsAJSONString(t *testing.T) {
	for _, raw := range []string{`"a"`, `""`, `"\u00e4\n"`, `"é😀"`, "\"\xff\"", `"\ud800"`, `"a" `, `"`, ``, `a"`, `"a"b"`, `"a","b"`,
		`"\"`, "\"\n\"", "null", "3", `["a"]`, "\"\x7f\ufffd\""} {
		var want string
		wrong := json.Unmarshal([]byte(raw), &want)
		got, ok := Text([]byte(raw))
		require.Equal(t, wrong == nil && raw[0] == '"', ok, raw)
		if ok {
			require.Equal(t, want, got, raw)
		}
	}
}
