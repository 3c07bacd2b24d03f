package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// edited returns a tiny tokenizer whose tokenizer.json went through edit.
func edited(t *testing.T, words []string, edit func(file map[string]any)) (*Tokenizer, error) {
	t.Helper()
	all := maps.Clone(tiny(t, words...).files)
	var file map[string]any
	require.NoError(t, json.Unmarshal(all[tokenizerFile], &file))
	edit(file)
	raw, err := json.Marshal(file)
	require.NoError(t, err)
	all[tokenizerFile] = raw
	delete(all, configFile)
	return parse(all)
}

// tokensOf decodes each id by itself.
func tokensOf(t *testing.T, tok *Tokenizer, text string) []string {
	t.Helper()
	ids, err := tok.Encode(text)
	require.NoError(t, err)
	var list []string
	for _, id := range ids {
		s, ok := tok.Token(id)
		require.True(t, ok)
		list = append(list, s)
	}
	return list
}

func TestAddedTokensAreCutLongestFirst(t *testing.T) {
	tok := tiny(t, "<think>", "<thinking>", " goal", "goal", "go", "\n\n")
	require.Equal(t, []string{"<thinking>", "goal", " goal", "go", " ", "go", "<think>", "s", "\n\n", "\n"},
		tokensOf(t, tok, "<thinking>goal goalgo go<think>s\n\n\n"))
	require.Equal(t, []string{"<", "t", "h", "i", "n", "k"}, tokensOf(t, tok, "<think"))
	require.Equal(t, []string{"<|im_end|>", "x"}, tokensOf(t, tok, "<|im_end|>x"))
}

// What the flags mean was checked against Hugging Face's tokenizers 0.23 on
// 12,000 random texts; these are typical ones.
func TestFlagsOfAddedTokens(t *testing.T) {
	tok, err := edited(t, []string{"left", "right", "word", "both", "é a"}, func(file map[string]any) {
		for _, a := range file["added_tokens"].([]any) {
			a := a.(map[string]any)
			switch a["content"] {
			case "left":
				a["lstrip"] = true
			case "right":
				a["rstrip"] = true
			case "both":
				a["lstrip"], a["rstrip"] = true, true
			case "word":
				a["single_word"] = true
			}
		}
		file["added_tokens"] = append(file["added_tokens"].([]any),
			map[string]any{"id": 300, "content": "Å!", "normalized": true, "lstrip": false, "rstrip": false,
				"single_word": false, "special": false})
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "left", " ", "b"}, tokensOf(t, tok, "a  left b"))
	require.Equal(t, []string{"a", " ", "right", "b"}, tokensOf(t, tok, "a right \n b"))
	require.Equal(t, []string{"left", "both", "b"}, tokensOf(t, tok, "left  both  b"))
	require.Equal(t, []string{"right", "left"}, tokensOf(t, tok, "right  left"), "the first takes the space between")
	require.Equal(t, []string{"word", "-", "word"}, tokensOf(t, tok, "word-word"))
	require.Equal(t, strings.Split("words", ""), tokensOf(t, tok, "words"))
	require.Equal(t, strings.Split("1word", ""), tokensOf(t, tok, "1word"))
	id, ok := tok.TokenID("Å!")
	require.True(t, ok)
	ids, err := tok.Encode("A\u030a!")
	require.NoError(t, err)
	require.Equal(t, []int32{id}, ids, "matched after normalisation")
	ids, err = tok.Encode("e\u0301 a")
	require.NoError(t, err)
	require.Equal(t, bytesToIDs("é a"), ids, "not matched before normalisation")
}

func TestEncodeRefusesInvalidUTF8(t *testing.T) {
	_, err := tiny(t).Encode("abé\xff")
	testkit.Error(t, err, ErrText, "byte 4")
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	tok := tiny(t)
	dst := make([]int32, 1, 10)
	got, err := tok.Append(dst, "ab")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 'a', 'b'}, got)
	require.Same(t, &dst[0], &got[0])
}

func TestPrefixSpace(t *testing.T) {
	tok, err := edited(t, nil, func(file map[string]any) {
		file["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}
	})
	require.NoError(t, err)
	require.Equal(t, []string{" ", "a", " ", "b"}, tokensOf(t, tok, "a b"))
	require.Equal(t, []string{" ", "a"}, tokensOf(t, tok, " a"))
}

// TestDeepComponentsAreReadOnce: a file of 300 kB whose sequences hold each other would otherwise be copied once per
// level.
func TestDeepComponentsAreReadOnce(t *testing.T) {
	const levels = 4000
	files := maps.Clone(tiny(t).files)
	var file map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(files[tokenizerFile], &file))
	deep := func(list, inner string) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"type":"Sequence","`+list+`":[`, levels) + inner + strings.Repeat("]}", levels))
	}
	file["normalizer"] = deep("normalizers", `{"type":"NFC"}`)
	file["pre_tokenizer"] = deep("pretokenizers", string(file["pre_tokenizer"]))
	raw, err := json.Marshal(file)
	require.NoError(t, err)
	files[tokenizerFile] = raw
	delete(files, configFile)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tok, err := parse(files)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(60<<20))
	require.Equal(t, []string{"a", "\xc3", "\xa9"}, tokensOf(t, tok, "ae\u0301"), "composed, as the innermost normalizer says")
}

func TestSettingsThatAreNotKnownAreNamed(t *testing.T) {
	model := func(key string, value any) func(map[string]any) {
		return func(file map[string]any) { file["model"].(map[string]any)[key] = value }
	}
	part := func(key, value string) func(map[string]any) {
		return func(file map[string]any) { file[key] = json.RawMessage(value) }
	}
	for want, edit := range map[string]func(map[string]any){
		`model type "WordPiece"`:               model("type", "WordPiece"),
		`model.dropout 0.1`:                    model("dropout", 0.1),
		`model.continuing_subword_prefix "##"`: model("continuing_subword_prefix", "##"),
		`model.end_of_word_suffix "</w>"`:      model("end_of_word_suffix", "</w>"),
		`normalizer "Lowercase"`: part("normalizer",
			`{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`),
		`pre_tokenizer "Metaspace"`: part("pre_tokenizer",
			`{"type":"Sequence","pretokenizers":[{"type":"Metaspace"}]}`),
		`by the pattern "a(?=b)"`: part("pre_tokenizer",
			`{"type":"Split","pattern":{"Regex":"a(?=b)"},"behavior":"Isolated"}`),
		`without a regular expression`: part("pre_tokenizer",
			`{"type":"Split","pattern":{"String":" "},"behavior":"Isolated"}`),
		`behavior "MergedWithNext"`: part("pre_tokenizer",
			mustJSON(map[string]any{"type": "Split", "pattern": map[string]string{"Regex": patternQwen2},
				"behavior": "MergedWithNext"})),
		`pre_tokenizer without ByteLevel`: part("pre_tokenizer", `null`),
		`decoder "Metaspace"`:             part("decoder", `{"type":"Metaspace"}`),
		`decoder ""`:                      part("decoder", `null`),
	} {
		_, err := edited(t, nil, edit)
		testkit.Error(t, err, ErrUnsupported, want)
	}
	_, err := edited(t, nil, func(file map[string]any) {
		model("dropout", 0.5)(file)
		part("decoder", `{"type":"WordPiece"}`)(file)
	})
	require.ErrorContains(t, err, "dropout")
	require.ErrorContains(t, err, "WordPiece", "all of them at once")
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestMalformedFilesAreNamed(t *testing.T) {
	model := func(key, value string) func(map[string]any) {
		return func(file map[string]any) { file["model"].(map[string]any)[key] = json.RawMessage(value) }
	}
	add := func(token string) func(map[string]any) {
		return func(file map[string]any) {
			file["added_tokens"] = append(file["added_tokens"].([]any), json.RawMessage(token))
		}
	}
	for want, edit := range map[string]func(map[string]any){
		`vocab is empty`:                        model("vocab", `{}`),
		`id 5 of`:                               model("vocab", `{"a":5,"b":5}`),
		`id -1 of "a"`:                          model("vocab", `{"a":-1}`),
		`id 99999999 of`:                        model("vocab", `{"a":99999999}`),
		`model.merges[0]: "a" and "b"`:          model("merges", `["a b"]`),
		`merge "ab"`:                            model("merges", `["ab"]`),
		`merge of 3 parts`:                      model("merges", `[["a","b","c"]]`),
		`added_tokens[7] is null`:               add(`null`),
		`added token "": id 300 is not allowed`: add(`{"id":300,"content":""}`),
		`"<|im_end|>" has ids 258 and 300`:      add(`{"id":300,"content":"<|im_end|>"}`),
		`id 97 means both "a" and the added`:    add(`{"id":97,"content":"x y"}`),
		`token "a" has id 300, but 97`:          add(`{"id":300,"content":"a"}`),
		`token id 99999999`:                     add(`{"id":99999999,"content":"x y"}`),
	} {
		_, err := edited(t, nil, edit)
		testkit.Error(t, err, ErrFormat, want)
	}
}

func TestMergesOfOldAndNewFilesAreTheSame(t *testing.T) {
	for _, merges := range []string{`["a b","ab c"]`, `[["a","b"],["ab","c"]]`} {
		tok, err := edited(t, nil, func(file map[string]any) {
			m := file["model"].(map[string]any)
			m["merges"] = json.RawMessage(merges)
			m["vocab"].(map[string]any)["ab"] = 300
			m["vocab"].(map[string]any)["abc"] = 301
		})
		require.NoError(t, err)
		require.Equal(t, []string{"abc", "ab"}, tokensOf(t, tok, "abcab"))
		require.Equal(t, 302, tok.VocabSize(), "ids may have gaps")
	}
}

func withConfig(t *testing.T, config string) (*Tokenizer, error) {
	t.Helper()
	all := maps.Clone(tiny(t, "<think>").files)
	all[configFile] = []byte(config)
	delete(all, jinjaFile)
	return parse(all)
}

func TestConfigAddsToTokenizerJSON(t *testing.T) {
	tok, err := withConfig(t, `{"eos_token":{"content":"<|im_end|>"},"bos_token":"<|im_start|>","pad_token":null,
		"additional_special_tokens":["<think>"],
		"added_tokens_decoder":{"300":{"content":"<tool>","special":false},"258":{"content":"<|im_end|>","special":true}}}`)
	require.NoError(t, err)
	s := tok.Special()
	require.Equal(t, [4]int32{257, 258, -1, -1}, [4]int32{s.BOS, s.EOS, s.Pad, s.Unk})
	require.Equal(t, []string{"a", "<tool>"}, tokensOf(t, tok, "a<tool>"))
	ids, err := tok.Encode("<think>x<tool>")
	require.NoError(t, err)
	require.Equal(t, "x<tool>", tok.Decode(ids, SkipSpecial), "declared special in the config")

	_, err = withConfig(t, `{"added_tokens_decoder":{"300":{"content":"<|im_end|>"}}}`)
	require.ErrorContains(t, err, `"<|im_end|>" has id 258 in tokenizer.json and 300 in tokenizer_config.json`)
	_, err = withConfig(t, `{"added_tokens_decoder":{"x":{"content":"a"}}}`)
	require.ErrorIs(t, err, ErrFormat)
	_, err = withConfig(t, `{"split_special_tokens":true}`)
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = withConfig(t, `[`)
	require.ErrorIs(t, err, ErrFormat)
}

func TestSpecialTokensAreLookedUp(t *testing.T) {
	s := tiny(t).Special()
	require.Equal(t, Special{BOS: -1, EOS: 258, Pad: 256, Unk: -1, TurnStart: 257, TurnEnd: 258,
		VisionStart: 259, VisionEnd: 260, ImagePad: 261, VideoPad: 262}, s)
	tok, err := edited(t, nil, func(file map[string]any) { file["added_tokens"] = []any{} })
	require.NoError(t, err)
	require.Equal(t, Special{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, tok.Special())
}

func TestSaveWritesWhatWasLoaded(t *testing.T) {
	tok := tiny(t, "<think>")
	dir := t.TempDir()
	require.NoError(t, tok.Save(dir))
	again, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, tok.files, again.files)
	require.Equal(t, tok.tokens, again.tokens)
	require.Error(t, tok.Save(filepath.Join(dir, "missing")))
	_, err = Load(t.TempDir())
	testkit.Error(t, err, os.ErrNotExist, "tokenizer.json")
}

func TestConcurrentEncodingAgrees(t *testing.T) {
	tok, rec := loadRecorded(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				for _, c := range rec.Encodings {
					ids, err := tok.Encode(c.Text)
					if err != nil || tok.Decode(ids, KeepSpecial) != c.Decoded {
						t.Errorf("%q: %v", c.Text, err)
					}
				}
			}
		})
	}
	group.Wait()
}

func TestPaddedSize(t *testing.T) {
	tok := tiny(t, "<think>") // 256 bytes, 7 special tokens, 1 word
	require.Equal(t, 264, tok.VocabSize())
	require.Equal(t, 288, tok.PaddedSize(32))
	require.Equal(t, 264, tok.PaddedSize(8))
	require.Equal(t, 264, tok.PaddedSize(0))
}

func TestTinyRefusesWordsItCannotHold(t *testing.T) {
	_, err := NewTiny([]string{"ok", "", "ok", "\xff", "<|im_end|>", "é", "V", "V", "Ġx"})
	require.ErrorIs(t, err, ErrText)
	for _, want := range []string{`word 1, "", is empty`, `word 2, "ok", is repeated`, `word 3, "\xff", is not valid`,
		`word 4, "<|im_end|>", is repeated`, `word 5, "é", cannot be decoded`, `word 7, "V", is repeated`,
		`word 8, "Ġx", cannot`} {
		require.ErrorContains(t, err, want)
	}
	tok := tiny(t, "V", " é", "机器")
	require.Equal(t, []string{"V", " é", "机器"}, tokensOf(t, tok, "V é机器"))
	require.Equal(t, 256+7+2, tok.VocabSize(), "a byte is a token already")
}

func TestTinyIsDeterministic(t *testing.T) {
	require.Equal(t, tiny(t, "a b", "c d").files, tiny(t, "a b", "c d").files)
}

// x/text would put U+034F into long runs of marks.
func TestNormalizeIsNFCForLongRunsOfMarks(t *testing.T) {
	marks := strings.Repeat("\u0316\u0301", 40)
	got := normalizeNFC("e" + marks + "\u0327x")
	require.Equal(t, "ȩ"+strings.Repeat("\u0316", 40)+strings.Repeat("\u0301", 40)+"x", got)
	require.Equal(t, "각\u1eb9\u0301", normalizeNFC("\u1100\u1161\u11a8e\u0301\u0323"))
	for _, s := range []string{"\u1100\u1161\u11a8", "e\u0323\u0301", "Å", "\u0344", "ﬁ e\u0301\u0301"} {
		require.Equal(t, composeNFC(s), normalizeNFC(s), "%q: both ways", s)
	}
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"Hello world", "<think>go</think>", "e\u0301 Å 각", "  \n\n x", "<|im_start|>user\n",
		"\u200d🙂"} {
		f.Add(s)
	}
	small, _ := loadRecorded(f)
	toks := []*Tokenizer{small, tiny(f, "<think>", " goal")}
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range toks {
			ids, err := tok.Encode(s)
			if err != nil {
				continue
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.VocabSize() {
					t.Fatalf("%q: id %d", s, id)
				}
			}
			// Decoding gives the text back, up to normalisation.
			if got := tok.Decode(ids, KeepSpecial); composeNFC(got) != composeNFC(s) {
				t.Fatalf("%q became %q", s, got)
			}
		}
	})
}

// A tokenizer.json is refused or can encode.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny(f, "<think>").files[tokenizerFile]), []byte(`{"eos_token":"<think>"}`))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, raw, cfg []byte) {
		tok, err := parse(files{tokenizerFile: raw, configFile: cfg})
		if err != nil {
			return
		}
		if ids, err := tok.Encode("ab <think> c"); err == nil {
			tok.Decode(ids, SkipSpecial)
		}
	})
}
