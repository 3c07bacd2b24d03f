package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func tiny(t testing.TB, words ...string) *Tokenizer {
	t.Helper()
	tok, err := NewTiny(words)
	require.NoError(t, err)
	return tok
}

func bytesToIDs(s string) []int32 {
	ids := make([]int32, len(s)) // of a tiny tokenizer: the id is the byte
	for i := range ids {
		ids[i] = int32(s[i])
	}
	return ids
}

// The replacements are those of Python's and Rust's decoders.
func TestInvalidBytesBecomeOneReplacementPerMaximalPart(t *testing.T) {
	tok := tiny(t)
	for in, want := range map[string]string{
		"\xff":                     "�",
		"a\x80b":                   "a�b",
		"\xe2\x82":                 "�",
		"\xe2\x82\xac":             "€",
		"\xe2\x82a":                "�a",
		"\xf0\x9f\x98":             "�",
		"\xf0\x9f\x98\x80":         "😀",
		"\xf0\x9f\xf0\x9f":         "��",
		"\xc0\xaf":                 "��", // overlong
		"\xe0\x80\x80":             "���",
		"\xed\xa0\x80":             "���", // surrogate
		"\xf4\x90\x80\x80":         "����",
		"\xf1\x80\x80\xe1\x80\xc2": "���",
		"\xef\xbf\xbd":             "�",
		"é\xc3":                    "é�",
	} {
		require.Equal(t, want, tok.Decode(bytesToIDs(in), KeepSpecial), "%q", in)
		require.Equal(t, want, stream(tok, bytesToIDs(in), false), "%q streamed", in)
	}
}

func TestStreamGivesTextAsSoonAsItIsComplete(t *testing.T) {
	tok := tiny(t, " goal")
	goal, _ := tok.TokenID(" goal")
	end := tok.Special().TurnEnd
	d := tok.NewDecoder(SkipSpecial)
	var got []string
	for _, id := range []int32{'a', 0xf0, 0x9f, 0x98, 0x80, goal, end, 0xe2, 0x82, 'b', 0xc3} {
		got = append(got, d.Add(id))
	}
	require.Equal(t, []string{"a", "", "", "", "😀", " goal", "", "", "", "�b", ""}, got)
	require.Equal(t, "�", d.Flush())
	require.Equal(t, "", d.Flush())
	require.Equal(t, "z", d.Add('z'), "it can be used again")
}

func TestDecodePassesOverIDsWithoutToken(t *testing.T) {
	tok := tiny(t)
	require.Equal(t, "ab", tok.Decode([]int32{'a', -1, int32(tok.VocabSize()), 1 << 30, 'b'}, false))
	_, ok := tok.Token(int32(tok.VocabSize()))
	require.False(t, ok)
}

// TestEndsFollowTheText: ends give the length of the text after each token; characters of several
// tokens end with their last one.
func TestEndsFollowTheText(t *testing.T) {
	tok := tiny(t, "left", "right")
	for _, text := range []string{"<think>go left</think><answer>Left</answer>", "goal up — λ 🙂 é", "x"} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		ends := tok.Ends(ids)
		require.Len(t, ends, len(ids))
		last := 0
		for i, end := range ends {
			require.GreaterOrEqual(t, end, last)
			last = end
			if whole := tok.Decode(ids[:i+1], KeepSpecial); whole == text[:min(len(whole), len(text))] {
				require.Equal(t, len(whole), end, "%q: token %d", text, i)
			}
		}
		require.Equal(t, len(text), last)
	}
	require.Empty(t, tok.Ends(nil))
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("héllo \xf0\x9f\x98\x80 \xf0\x9f\xff"), true)
	f.Add([]byte{0xe2, 0x82, 0, 0xed, 0xa0, 0x80}, false)
	tok := tiny(f, "<think>", " é ")
	f.Fuzz(func(t *testing.T, raw []byte, skip bool) {
		ids := make([]int32, 0, len(raw))
		for i, b := range raw {
			id := int32(b)
			if i%5 == 4 { // a few from the added ones, and some that don't exist
				id = 250 + id%20
			}
			ids = append(ids, id)
		}
		if got, want := stream(tok, ids, DecodeMode(skip)), tok.Decode(ids, DecodeMode(skip)); got != want {
			t.Fatalf("%v: streamed %q, at once %q", ids, got, want)
		}
	})
}
