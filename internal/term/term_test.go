package term

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestControlCharactersAreEscaped: ends of lines, tabs and all other characters stay.
func TestControlCharactersAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain ü 日本 🙂 \t\n\uFFFD":     "plain ü 日本 🙂 \t\n\uFFFD",
		"\x1b]0;title\a\x1b[2J":       `\x1b]0;title\x07\x1b[2J`,
		"a\rb\bc\x00\x7f":             `a\x0db\x08c\x00\x7f`,
		"\u009b31m ü":                 `\u009b31m ü`,
		"caf\xe9 \x9b \xe6\x97 \xff":  `caf\xe9 \x9b \xe6\x97 \xff`,
		"\xed\xa0\x80":                `\xed\xa0\x80`,
		"model/\x1b[31mred\x1b[0m.py": `model/\x1b[31mred\x1b[0m.py`,
	} {
		require.Equal(t, want, Escape(text), "%q", text)
		var at1, at2 bytes.Buffer
		whole, split := NewWriter(&at1), NewWriter(&at2)
		n, err := whole.Write([]byte(text + "."))
		require.NoError(t, err)
		require.Equal(t, len(text)+1, n)
		for _, b := range []byte(text + ".") {
			n, err := split.Write([]byte{b})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		require.Equal(t, want+".", at1.String(), "%q", text)
		require.Equal(t, want+".", at2.String(), "%q", text)
	}
}

// TestAWriterKnowsItsTerminal, and a program's own control sequences pass below it.
func TestAWriterKnowsItsTerminal(t *testing.T) {
	var b bytes.Buffer
	require.False(t, IsTerminal(NewWriter(&b)))
	require.Same(t, &b, Raw(NewWriter(&b)))
	require.Same(t, &b, Raw(&b))
	if f, err := os.Open("/dev/null"); err == nil { // a character device, too
		defer f.Close()
		require.True(t, IsTerminal(NewWriter(f)))
	}
}
