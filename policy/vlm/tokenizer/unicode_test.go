package tokenizer

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// classesOf are the classes of a character, one bit each, in the order of the recorded ones.
func classesOf(r rune) (bits byte) {
	for k, in := range []func(rune) bool{isLetter, isNumber, unicode.IsSpace, isDigit, isWord} {
		if in(r) {
			bits |= 1 << k
		}
	}
	return bits
}

func shortHash(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:8] }

// The hashes are those of tokenizers 0.23.3; testdata/README.md has the program. It was also compared with
// this package's scanners and normalisation on each of the 1,112,064 code points alone and between other
// characters, 44 times, and on 770,176 strings of characters that combine.
func TestEveryCharacterIsClassifiedAsTokenizersDoes(t *testing.T) {
	raw, err := os.ReadFile("testdata/unicode.txt")
	require.NoError(t, err)
	blocks := 0
	for line := range strings.Lines(string(raw)) {
		var first, last rune
		var classes, forms string
		_, err := fmt.Sscanf(line, "%X %X %s %s", &first, &last, &classes, &forms)
		require.NoError(t, err)
		for at := first; at < last; at += 1024 {
			blocks++
			var got [1024]byte
			var text strings.Builder
			for i := range got {
				r := at + rune(i)
				got[i] = classesOf(r)
				if r < 0xd800 || r >= 0xe000 {
					text.WriteString("x" + string(r) + "\u0334x\u0345" + string(r) + "x" + string(r) + "\u0301")
				}
			}
			require.Equal(t, classes, shortHash(got[:]), "classes of U+%04X to U+%04X", at, at+1023)
			if forms != "-" {
				normal := shortHash([]byte(normalizeNFC(text.String())))
				require.Equal(t, forms, normal, "normal forms of U+%04X to U+%04X", at, at+1023)
			}
		}
	}
	require.Equal(t, 259, blocks)
}

// Characters that came with Unicode 10 or later are neither composed nor moved nor composed across, as in
// tokenizers 0.23.3.
func TestNormalisationIsThatOfTokenizers(t *testing.T) {
	for _, s := range []string{
		// pairs with a composite
		"\U00011935\U00011930", "\U000113c2\U000113b8", "\U0001611e\U00016129", "\U00016d67\U00016d67", "\U000105d2\u0307",
		"e\u0c3c\u0301", "a\U00010efd\u0323", "x\u0345\u1ac1", "e\u0eba\u0301",
	} {
		require.Equal(t, s, normalizeNFC(s), "%+q", s)
	}
	require.Equal(
		t, "é\u07fdé\u07fd", normalizeNFC("e\u0301\u07fde\u0301\u07fd"), "the parts between them are normalised",
	)
}
