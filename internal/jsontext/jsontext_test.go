package jsontext

import (
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
