package sft_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/sft"
)

// letters is an encoder with a token per byte. A message of the context is its role's first
// letter, its text and a line break; a response ends with '.'.
type letters struct{ limit int }

func (l letters) MaxPositions() int { return l.limit }

func (l letters) Encode(messages []policy.Message) (out []policy.Piece, images []policy.Image, err error) {
	var context []int32
	for _, m := range messages {
		if m.Role != policy.Assistant {
			context = append(context, tokens(string(m.Role[0])+m.Text+"\n")...)
			for _, im := range m.Images {
				images = append(images, policy.Image{Hash: [32]byte{byte(im.Bounds().Dx())}, Image: im})
			}
			continue
		}
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: tokens(m.Text + "."), Response: true})
		context = nil
	}
	return out, images, nil
}

// Ends implements policy.Aligner.
func (letters) Ends(tokens []int32) []int {
	ends := make([]int, len(tokens))
	for i := range ends {
		ends[i] = i + 1
	}
	return ends
}

func tokens(text string) (out []int32) {
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out
}

func text(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte(byte(t))
	}
	return b.String()
}

// learned replaces the tokens without a weight by "_".
func learned(b *policy.Batch, row int) string {
	var out strings.Builder
	for i := b.Offsets[row]; i < b.Offsets[row+1]; i++ {
		if b.Weight[i] == 0 {
			out.WriteByte('_')
		} else {
			out.WriteByte(byte(b.Tokens[i]))
		}
	}
	return out.String()
}

// settings is a supervised stage on files, in their order, in batches of one.
func settings(files ...string) config.Config {
	c := config.Default()
	c.Trainer.Stage = config.StageSFT
	c.SFT.TrainFiles, c.SFT.Shuffle, c.SFT.Batch, c.SFT.ValFraction = files, false, 1, 0
	return c
}

// lines is a supervised stage on a file of JSON lines.
func lines(t testing.TB, text string) config.Config {
	return settings(testkit.File(t, "a.jsonl", text))
}

// table writes a file of rows and returns its path.
func table[R any](t testing.TB, rows []R, options ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, parquet.WriteFile(path, rows, options...))
	return path
}

func opened(t testing.TB, c *config.Config) *sft.Data {
	t.Helper()
	d, err := sft.Open(t.Context(), c, nil, nil)
	require.NoError(t, err)
	return d
}

// refused opens files that have an error.
func refused(t testing.TB, files ...string) error {
	t.Helper()
	c := settings(files...)
	_, err := sft.Open(t.Context(), &c, nil, nil)
	return err
}

func open(t testing.TB, c config.Config, encode policy.Encoder) *sft.Data {
	t.Helper()
	d, err := sft.Open(t.Context(), &c, builtin.Registry(), nil)
	require.NoError(t, err)
	require.NoError(t, d.Encode(t.Context(), encode))
	return d
}

// unencoded opens a stage whose examples an encoder refuses.
func unencoded(t testing.TB, c config.Config, encode policy.Encoder, want string) {
	t.Helper()
	require.ErrorContains(t, opened(t, &c).Encode(t.Context(), encode), want)
}

// shown is the text of the first batch.
func shown(t testing.TB, d *sft.Data) string {
	t.Helper()
	return text(batch(t, d, 1).Tokens)
}

func batch(t testing.TB, d *sft.Data, step int) *policy.Batch {
	t.Helper()
	return seeded(t, d, step, 0)
}

func seeded(t testing.TB, d *sft.Data, step int, seed uint64) *policy.Batch {
	t.Helper()
	b, err := d.Batch(step, seed)
	require.NoError(t, err)
	return b
}

func picture(side int) []byte {
	im := image.NewNRGBA(image.Rect(0, 0, side, 2))
	im.Set(0, 0, color.White)
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const chat = `{"messages":[{"role":"system","content":"S"},{"role":"user","content":"a?"},{"role":"assistant","content":"yes"},` +
	`{"role":"tool","content":"7"},{"role":"user","content":"b?"},{"role":"assistant","content":"no"}]}`

// TestOnlyTheAssistantIsLearned: all of its messages, or the first or last one, each with the
// token that ends it.
func TestOnlyTheAssistantIsLearned(t *testing.T) {
	path := testkit.File(t, "a.jsonl", chat+"\n\n")
	for turns, want := range map[string]string{
		"all": "_______yes._______no.", "first": "_______yes.__________", "last": "__________________no.",
	} {
		c := settings(path)
		c.SFT.Turns = turns
		d := open(t, c, letters{})
		b := batch(t, d, 1)
		require.Equal(t, "sS\nua?\nyes.t7\nub?\nno.", text(b.Tokens))
		require.Equal(t, want, learned(b, 0), turns)
	}
}

// formal is an encoder whose chat template shows reasoning.
type formal struct{ letters }

func (formal) ToolCalls(text, calls string) (string, error) {
	return strings.ReplaceAll(text, "</think>", "\n</think>\n\n") + calls, nil
}

func (f formal) WithTools(string) (policy.Encoder, error) { return f, nil }

// TestReasoningInAFieldOfItsOwnIsLearned: in front of the answer, as the model is to write it.
func TestReasoningInAFieldOfItsOwnIsLearned(t *testing.T) {
	for fields, want := range map[string]string{
		`"content":"yes","reasoning_content":"hm"`:              "___<think>hm</think>yes.",
		`"content":"yes","reasoning":"hm"`:                      "___<think>hm</think>yes.",
		`"content":null,"reasoning":"hm"`:                       "___<think>hm</think>.",
		`"content":"<think>so</think>yes","reasoning":"hm"`:     "___<think>so</think>yes.",
		`"content":"yes","reasoning":"","reasoning_content":""`: "___yes.",
	} {
		path := testkit.File(t, "a.jsonl",
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant",`+fields+`}]}`)
		d := open(t, settings(path), letters{})
		require.Equal(t, want, learned(batch(t, d, 1), 0), fields)
		d = open(t, settings(path), formal{})
		want = strings.ReplaceAll(want, "</think>", "\n</think>\n\n")
		require.Equal(t, want, learned(batch(t, d, 1), 0), "as the template shows it")
	}
	require.ErrorContains(t, refused(t, testkit.File(t, "a.jsonl",
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"y","reasoning":7}]}`)),
		"line 1: messages[1].reasoning: it is a number, must be a text")
}

// TestWeightsOfMessagesScaleTheirTokens, and a batch's weights sum to 1 unless tokens are counted.
func TestWeightsOfMessagesScaleTheirTokens(t *testing.T) {
	path := testkit.File(t, "a.jsonl", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"x","weight":3},{"role":"user","content":"b"},{"role":"assistant","content":"y","weight":0}]}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"xyz"}]}`)
	for mode, want := range map[string][]float32{"token-mean": {.3, .1}, "seq-mean-token-mean": {.25, .125},
		"token-count": {.5, 1. / 6}} {
		c := settings(path)
		c.SFT.Batch, c.SFT.Aggregation = 2, mode
		d := open(t, c, letters{})
		b := batch(t, d, 1)
		require.Equal(t, "___x._____", learned(b, 0))
		require.InDelta(t, want[0], b.Weight[3], 1e-7, mode)
		require.InDelta(t, want[1], b.Weight[len(b.Weight)-1], 1e-7, mode)
		sum := 0.0
		for _, w := range b.Weight {
			sum += float64(w)
		}
		if mode == config.SFTTokenCount { // two tokens of weight 3 and four of 1
			sum /= 10. / 6
		}
		require.InDelta(t, 1, sum, 1e-6, "float32 weights")
	}
}

type weighed[W any] struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
	Weight  W      `parquet:"weight"`
}

func weights[W any](t *testing.T, node parquet.Node, three, one W) {
	t.Helper()
	type rec struct {
		Messages []weighed[W] `parquet:"messages,list"`
	}
	message := parquet.Group{"role": parquet.String(), "content": parquet.String(), "weight": node}
	schema := parquet.NewSchema("r", parquet.Group{"messages": parquet.List(message)})
	path := table(t, []rec{{[]weighed[W]{
		{"user", "a", one}, {"assistant", "x", three}, {"user", "b", one}, {"assistant", "y", one},
	}}}, schema)
	d := open(t, settings(path), letters{})
	require.Equal(t, []float32{0, 0, 0, .375, .375, 0, 0, 0, .125, .125}, batch(t, d, 1).Weight, "%T", one)
}

// TestWeightsMayHaveAnyNumberType of parquet.
func TestWeightsMayHaveAnyNumberType(t *testing.T) {
	for _, bits := range []int{8, 16, 32} {
		weights(t, parquet.Int(bits), int32(3), 1)
		weights(t, parquet.Uint(bits), uint32(3), 1)
	}
	weights(t, parquet.Int(64), int64(3), 1)
	weights(t, parquet.Uint(64), uint64(3), 1)
	weights(t, parquet.Leaf(parquet.FloatType), float32(3), 1)
	weights(t, parquet.Leaf(parquet.DoubleType), float64(3), 1)
	weights(t, parquet.Decimal(2, 9, parquet.Int32Type), int32(300), 100)
	weights(t, parquet.Decimal(2, 18, parquet.Int64Type), int64(300), 100)
	weights(t, parquet.Leaf(parquet.FixedLenByteArrayType(2)), [2]byte{0x00, 0x42}, [2]byte{0x00, 0x3c}) // float16
}

// TestImagesComeFromFilesURLsAndBytes: paths relative to the file, data URLs, the record's
// list of images, and bytes in parquet.
func TestImagesComeFromFilesURLsAndBytes(t *testing.T) {
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "p.png"), picture(3))
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture(5))
	record := fmt.Sprintf(`{"images":["p.png",{"path":"p.png"}],"messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"image","image":"p.png"},`+
		`{"type":"image_url","image_url":{"url":%q}},{"type":"image"}]},{"role":"assistant","content":[{"type":"text","text":"ok"}]},{"role":"user","content":"<image>B"},{"role":"assistant","content":"ok"}]}`, url)
	jsonl := filepath.Join(dir, "a.jsonl")
	testkit.Write(t, jsonl, record)
	d := open(t, settings(jsonl), letters{})
	b := batch(t, d, 1)
	require.Equal(t, "uA<image><image><image>\nok.u<image>B\nok.", text(b.Tokens))
	sides := func(b *policy.Batch) (out []int) {
		for _, im := range b.Images[0] {
			require.Equal(t, byte(im.Image.Bounds().Dx()), im.Hash[0])
			out = append(out, im.Image.Bounds().Dx())
		}
		return out
	}
	require.Equal(t, []int{3, 5, 3, 3}, sides(b))

	type img struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type msg struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type rec struct {
		Messages []msg `parquet:"messages,list"`
		Images   []img `parquet:"images,list"`
		Other    int64 `parquet:"other"`
	}
	path := table(t, []rec{{[]msg{{"user", "<image>?"}, {"assistant", "yes"}}, []img{
		{Bytes: picture(7)}}, 1}, {[]msg{{"user", "?"}, {"assistant", "no"}}, nil, 2}})
	d = open(t, settings(path), letters{})
	require.Equal(t, []int{7}, sides(batch(t, d, 1)))
	require.Equal(t, "u?\nno.", text(batch(t, d, 2).Tokens))
}

// TestVerlsColumnsAreRead: a prompt, as text or messages, and a response, also nested.
func TestVerlsColumnsAreRead(t *testing.T) {
	type info struct {
		Question string `parquet:"question"`
		Answer   string `parquet:"answer"`
	}
	type rec struct {
		Prompt   string `parquet:"prompt"`
		Response string `parquet:"response"`
		Info     info   `parquet:"extra_info"`
	}
	path := table(t, []rec{{"p", "r", info{"q", "a"}}})
	d := open(t, settings(path), letters{})
	require.Equal(t, "up\nr.", shown(t, d))
	c := settings(path)
	c.SFT.Prompt, c.SFT.Response = "extra_info.question", "extra_info.answer"
	d = open(t, c, letters{})
	require.Equal(t, "uq\na.", shown(t, d))
	d = open(t, lines(t,
		`{"prompt":[{"role":"system","content":"S"},{"role":"user","content":"q"}],"response":"r"}`), letters{})
	require.Equal(t, "sS\nuq\nr.", shown(t, d))
}

func TestAFileWithoutRowsSaysSo(t *testing.T) {
	type rec struct {
		Prompt   string `parquet:"prompt"`
		Response string `parquet:"response"`
	}
	path := table(t, []rec{})
	err := refused(t, path)
	require.ErrorContains(t, err, "a.parquet: bad example: it has 0 rows")
}

// TestTextThatIsNotUTF8IsRefused with file, line and byte. A byte order mark is skipped.
func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	const good = "\xef\xbb\xbf" + `{"prompt":"a","response":"b"}` + "\n"
	for put, want := range map[string]string{"\xe9": "line 2: it is not a JSON object: byte 31: 0xe9 is not UTF-8",
		`\ud800x`: `byte 31: \ud800 is half of a surrogate pair`} {
		path := testkit.File(t, "latin.jsonl", good+` {"prompt":"a","response":"caf`+put+`"}`)
		err := refused(t, path)
		testkit.Error(t, err, sft.ErrExample, path, want)
	}
	d := open(t, lines(t, good), letters{})
	require.Equal(t, "ua\nb.", shown(t, d))
}

// callers is an encoder that shows tools.
type callers struct {
	letters
	tools string
}

func (c callers) ToolCalls(text, calls string) (string, error)   { return text + calls, nil }
func (c callers) WithTools(tools string) (policy.Encoder, error) { return callers{tools: tools}, nil }

func (c callers) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	out, images, err := c.letters.Encode(messages)
	return append([]policy.Piece{{Tokens: tokens(c.tools)}}, out...), images, err
}

// TestDeepRecordsAreReadOnce: a line of 60 kB with other columns nested deeply would otherwise be copied once per
// level.
func TestDeepRecordsAreReadOnce(t *testing.T) {
	const levels = 4500
	path := testkit.File(t, "a.jsonl",
		`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [],`+
			` "other": `+strings.Repeat(`{"a":[`, levels)+strings.Repeat("]}", levels)+`}`)
	c := settings(path)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	opened(t, &c)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
}

// TestToolsReachTheEncoderInTheirOrder of keys, from lists and from JSON texts; an encoder that
// shows no tools refuses them.
func TestToolsReachTheEncoderInTheirOrder(t *testing.T) {
	const tools, calls = `[{"z": 1, "a": {"y": 2, "b": 3}}]`, `[{"name": "f", "arguments": {"z": 1, "a": 2}}]`
	quoted := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }
	for _, shape := range []func(string) string{func(text string) string { return text }, quoted} {
		line := "\xef\xbb\xbf" + `{"tools": ` + shape(tools) + `, "messages": [{"role": "user", "content": "a"},` +
			`{"role": "assistant", "content": null, "tool_calls": ` + shape(calls) +
			`}, {"role": "tool", "content": "7"}, {"role": "assistant", "content": "b", "tool_calls": []}]}`
		path := testkit.File(t, "a.jsonl", line)
		d := open(t, settings(path), callers{})
		b := batch(t, d, 1)
		require.Equal(t, tools+"ua\n"+calls+".t7\nb.", text(b.Tokens))
		require.Equal(t, calls+".___b.", learned(b, 0)[len(tools)+3:])
		c := settings(path)
		unencoded(t, c, letters{}, "line 1: bad example: tools: it is set, but the learner shows no tools")
	}
	type function struct {
		Name      string `parquet:"name"`
		Arguments string `parquet:"arguments"`
	}
	type call struct {
		Function function `parquet:"function"`
	}
	type msg struct {
		Role    string  `parquet:"role"`
		Content *string `parquet:"content,optional"`
		Calls   []call  `parquet:"tool_calls,list"`
	}
	type rec struct {
		Tools    string `parquet:"tools"`
		Messages []msg  `parquet:"messages,list"`
	}
	ask := "a"
	path := table(t, []rec{{tools, []msg{
		{"user", &ask, nil}, {"assistant", nil, []call{{function{"f", `{"z":1,"a":2}`}}}},
	}}})
	d := open(t, settings(path), callers{})
	require.Equal(
		t,
		tools+"ua\n"+`[{"function":{"arguments":"{\"z\":1,\"a\":2}","name":"f"}}].`,
		shown(t, d),
	)
}

// TestBadRecordsAreNamed by file, line or row, and field.
func TestBadRecordsAreNamed(t *testing.T) {
	for record, want := range golden.Table[map[string]string](t, "badrecords.yaml") {
		path := testkit.File(t, "bad.jsonl", chat+"\n"+record)
		err := refused(t, path)
		require.ErrorIs(t, err, config.ErrConfig, record)
		testkit.Error(t, err, sft.ErrExample, path, want)
	}
	c := lines(t,
		`{"messages":[{"role":"user","content":[{"type":"image","image":"gone.png"}]},{"role":"assistant","content":"b"}]}`)
	d := opened(t, &c)
	err := d.Encode(t.Context(), letters{})
	require.ErrorContains(t, err, "a.jsonl: line 1")
	require.ErrorContains(t, err, "message 0: image 0: open ")
	for path, want := range map[string]string{
		testkit.File(t, "a.txt", chat):     `ends in ".txt", must end in .jsonl or .parquet`,
		testkit.File(t, "a.parquet", chat): "a.parquet: bad example",
		t.TempDir():                        "has no files in .jsonl or .parquet", "missing.jsonl": "missing.jsonl",
		testkit.File(t, "e.jsonl", "\n"): "the file has no conversations",
	} {
		err := refused(t, path)
		testkit.Error(t, err, sft.ErrExample, want)
	}
}

// TestLongExamplesAreRefusedDroppedOrCut: cutting leaves whole turns with their images.
func TestLongExamplesAreRefusedDroppedOrCut(t *testing.T) {
	path := testkit.File(t, "a.jsonl", chat+"\n"+`{"prompt":"a","response":"b"}`)
	c := settings(path)
	c.SFT.MaxLength = 17
	unencoded(t, c, letters{}, "a.jsonl: line 1: bad example: it has 21 tokens, sft.max_length is 17")
	c.SFT.Truncation = config.TruncationDrop
	d := open(t, c, letters{})
	require.Equal(t, "ua\nb.", shown(t, d))
	c.SFT.Truncation = config.TruncationRight
	d = open(t, c, letters{})
	require.Equal(t, "sS\nua?\nyes.", shown(t, d))
	c.SFT.MaxLength = 0
	unencoded(t, c, letters{limit: 20}, "it has 21 tokens, the model allows 20")
	c.SFT.MaxLength = 2
	unencoded(t, c, letters{}, "all examples were dropped")
}

// TestTurnsAreSelectedBeforeTheyAreCut: a cut conversation whose last turn is learned has
// nothing to learn, rather than another turn.
func TestTurnsAreSelectedBeforeTheyAreCut(t *testing.T) {
	c := lines(t, chat+"\n"+`{"prompt":"a","response":"b"}`)
	c.SFT.MaxLength, c.SFT.Truncation, c.SFT.Turns = 17, config.TruncationRight, config.TurnsLast
	d := open(t, c, letters{})
	rows, _ := d.Rows()
	require.Equal(t, 1, rows)
	require.Equal(t, "___b.", learned(batch(t, d, 1), 0))
	c = lines(t, chat)
	c.SFT.MaxLength, c.SFT.Truncation, c.SFT.Turns = 17, config.TruncationRight, config.TurnsLast
	unencoded(t, c, letters{}, "all examples were dropped, because they are longer than the limit")
}

// opening is an encoder that refuses learned responses without a thought.
type opening struct{ letters }

func (o opening) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	for i, m := range messages {
		if m.Role == policy.Assistant && !m.Unlearned && !strings.HasPrefix(m.Text, "<think>") {
			return nil, nil, fmt.Errorf("message %d has no thought", i)
		}
	}
	return o.letters.Encode(messages)
}

// TestOnlyLearnedMessagesNeedTheThought: chats keep that of the last message only.
func TestOnlyLearnedMessagesNeedTheThought(t *testing.T) {
	const stripped = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"%s},` +
		`{"role":"user","content":"c"},{"role":"assistant","content":"d","reasoning_content":"e"}]}`
	for _, o := range []struct{ turns, weight, fault string }{
		{config.TurnsAll, "", "message 1 has no thought"},
		{config.TurnsFirst, "", "message 1 has no thought"},
		{config.TurnsAll, `,"weight":0`, ""},
		{config.TurnsLast, "", ""},
	} {
		c := lines(t, fmt.Sprintf(stripped, o.weight))
		c.SFT.Turns = o.turns
		d := opened(t, &c)
		err := d.Encode(t.Context(), opening{})
		if o.fault != "" {
			require.ErrorContains(t, err, o.fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "________<think>e</think>d.", learned(batch(t, d, 1), 0))
	}
}

// TestExamplesWithoutWeightsAreNotCalledTooLong.
func TestExamplesWithoutWeightsAreNotCalledTooLong(t *testing.T) {
	const idle = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0}]}` + "\n"
	for text, want := range map[string]string{
		idle:               "no example is left: 0 are longer than the limit, and 1 have no token with a weight above 0",
		idle + chat + "\n": "no example is left: 1 are longer than the limit, and 1 have no token with a weight above 0",
	} {
		c := lines(t, text)
		c.SFT.MaxLength, c.SFT.Truncation = 10, config.TruncationDrop
		unencoded(t, c, letters{}, want)
	}
}

// TestBatchesDependOnTheStepOnly, every epoch has every example once, and epochs follow each
// other without a gap.
func TestBatchesDependOnTheStepOnly(t *testing.T) {
	var file strings.Builder
	for i := range 10 {
		fmt.Fprintf(&file, `{"prompt":"p","response":"%d"}`+"\n", i)
	}
	c := lines(t, file.String())
	c.SFT.Shuffle, c.SFT.Batch, c.SFT.Epochs = true, 4, 2
	read := func(seed uint64, steps ...int) (out string) {
		now := c
		d := opened(t, &now)
		require.NoError(t, d.Encode(t.Context(), letters{}))
		require.Equal(t, 5, now.Trainer.Steps, "two epochs of ten in batches of four")
		for _, step := range steps {
			b := seeded(t, d, step, seed)
			require.Equal(t, 4, b.Len())
			for r := range b.Len() {
				out += string(rune(b.Tokens[b.Offsets[r]+3]))
			}
		}
		return out
	}
	all := read(1, 1, 2, 3, 4, 5)
	require.Equal(t, all[12:], read(1, 4, 5), "after a resume")
	require.NotEqual(t, all, read(2, 1, 2, 3, 4, 5))
	require.NotEqual(t, all[:10], all[10:])
	for _, epoch := range []string{all[:10], all[10:]} {
		require.ElementsMatch(t, []byte("0123456789"), []byte(epoch))
	}
	c.SFT.Steps = 7
	require.NoError(t, opened(t, &c).Encode(t.Context(), letters{}))
	require.Equal(t, 100, c.Trainer.Steps, "is set by config.Supervised")
}

// TestHeldOutExamplesAreNotTrainedOn.
func TestHeldOutExamplesAreNotTrainedOn(t *testing.T) {
	var file strings.Builder
	for i := range 20 {
		fmt.Fprintf(&file, `{"prompt":"p","response":"%c"}`+"\n", 'a'+i)
	}
	c := lines(t, file.String())
	c.SFT.ValFraction, c.SFT.Batch = 0.2, 3
	d := open(t, c, letters{})
	seen := map[int32]int{}
	train, val := d.Rows()
	require.Equal(t, []int{16, 4}, []int{train, val})
	sizes := []int{}
	for b, err := range d.Held {
		require.NoError(t, err)
		sizes = append(sizes, b.Len())
		for r := range b.Len() {
			seen[b.Tokens[b.Offsets[r]+3]]++
			require.Equal(t, float32(1), b.Weight[b.Offsets[r]+3])
		}
	}
	require.Equal(t, []int{3, 1}, sizes)
	for step := range 6 {
		b := batch(t, d, step+1)
		for r := range b.Len() {
			seen[-b.Tokens[b.Offsets[r]+3]]++
		}
	}
	for token := range seen {
		require.Zero(t, seen[-token], "%c is in both parts", token)
	}
	c.SFT.ValFiles = []string{testkit.File(t, "v.jsonl", chat)}
	d = open(t, c, letters{})
	train, val = d.Rows()
	require.Equal(t, []int{20, 1}, []int{train, val})
}

// episodes writes a file of recorded episodes: a success with an image and a forced token, a
// failure, and one that cannot be used.
func episodes(t *testing.T, dir string, withImages bool) string {
	t.Helper()
	made := func(success bool, end rollout.End, reward float64) *rollout.Trajectory {
		var s mask.Sequence
		require.NoError(t, s.AppendContext(mask.Prompt, tokens("up\n")...))
		require.NoError(t, s.AppendResponse(tokens("one.")...))
		require.NoError(t, s.AppendContext(mask.Observation, tokens("uq\n")...))
		require.NoError(t, s.AppendResponse(tokens("two.")...))
		require.NoError(t, s.AddSpan(mask.Forced, 4, 5))
		im := policy.Image{Hash: [32]byte{9}, Image: image.NewNRGBA(image.Rect(0, 0, 9, 1))}
		turn := rollout.Turn{Response: "one", Stop: policy.StopEnd}
		turn.Reward = append(turn.Reward, struct {
			Name  string
			Value float64
		}{"r", reward})
		return &rollout.Trajectory{Rows: []rollout.Row{{Sequence: s, LogProbs: make([]float32, s.Len()),
			Images: []policy.Image{im}}},
			Turns: []rollout.Turn{turn, {Response: "two", Stop: policy.StopEnd}}, Success: success, End: end}
	}
	g, err := store.OpenGallery(dir, store.GalleryOptions{NamesOnly: !withImages})
	require.NoError(t, err)
	require.NoError(t, g.Save("step_1.parquet", 1, []*rollout.Trajectory{made(true, rollout.EndDone, 1), made(false,
		rollout.EndDone, 3), made(true, rollout.EndHang, 5)}))
	return filepath.Join(dir, "step_1.parquet")
}

// TestRecordedEpisodesAreLearnedTokenForToken, those that the filters select, without forced
// tokens.
func TestRecordedEpisodesAreLearnedTokenForToken(t *testing.T) {
	dir := t.TempDir()
	path := episodes(t, dir, true)
	testkit.Write(t, filepath.Join(dir, "step_1.scores.parquet"), "")
	d := open(t, settings(dir), letters{})
	n, _ := d.Rows()
	require.Equal(t, 1, n, "the success")
	b := batch(t, d, 1)
	require.Equal(t, "up\none.uq\ntwo.", text(b.Tokens))
	require.Equal(t, "___o_e.___two.", learned(b, 0))
	require.Equal(t, 9, b.Images[0][0].Image.Bounds().Dx())
	require.Equal(t, [32]byte{9}, b.Images[0][0].Hash)
	c := settings(path)
	c.SFT.Episodes = config.EpisodesAll
	d = open(t, c, letters{})
	n, _ = d.Rows()
	require.Equal(t, 2, n)
	most := 2.0
	c.SFT.MinReturn, c.SFT.Turns = &most, config.TurnsLast
	d = open(t, c, letters{})
	n, _ = d.Rows()
	require.Equal(t, 1, n)
	require.Equal(t, "__________two.", learned(batch(t, d, 1), 0))
	most = 9
	_, err := sft.Open(t.Context(), &c, nil, nil)
	require.ErrorContains(t, err, "no example is left: 3 recorded episodes are left out")
	c = settings(episodes(t, t.TempDir(), false))
	_, err = sft.Open(t.Context(), &c, nil, nil)
	require.ErrorContains(t, err, "step_1.parquet: bad example: episode 0")
}

// double is letters with another tokenizer: every token is two bytes of text.
type double struct{ letters }

func (double) Ends(tokens []int32) []int {
	ends := make([]int, len(tokens))
	for i := range ends {
		ends[i] = 2 * (i + 1)
	}
	return ends
}

func TestEpisodesOfAnotherTokenizerAreRefused(t *testing.T) {
	c := settings(episodes(t, t.TempDir(), true))
	err := opened(t, &c).Encode(t.Context(), double{})
	testkit.Error(t, err, sft.ErrExample, "recorded with another tokenizer")
}

// TestLessonsAreScriptedEpisodes of the levels before those of training, as one conversation
// per episode or per turn.
func TestLessonsAreScriptedEpisodes(t *testing.T) {
	for name, options := range map[string]map[string]any{
		"frozenlake": {"render_mode": "text", "max_actions_per_step": 1},
		"sokoban":    {"render_mode": "text", "dim_room": []any{5, 5}, "max_actions_per_step": 1},
	} {
		c := settings()
		c.Env.Name, c.Env.Config, c.Rollout.MaxTurns = name, options, 3
		c.SFT.Lessons.Teacher, c.SFT.Lessons.Episodes, c.SFT.Lessons.Noise = "shortest_path", 4, 0.5
		require.Equal(t, c.Env.Seed-4, c.FirstLesson())
		d := open(t, c, letters{})
		n, _ := d.Rows()
		require.Equal(t, 4, n, name)
		b := batch(t, d, 1)
		require.Contains(t, strings.Trim(learned(b, 0), "_"), "</answer>", name)
		require.NotContains(t, learned(b, 0), "\n", "observations have no loss")
		again := open(t, c, letters{})
		require.Equal(t, b, batch(t, again, 1), "the same lessons for the same seed")
		turns := 0
		for i := range n {
			turns += strings.Count(learned(batch(t, d, i+1), 0), "</answer>")
		}
		c.Trainer.Harness = "no_concat"
		d = open(t, c, letters{})
		n, _ = d.Rows()
		require.Equal(t, turns, n, "a row per turn")
		require.Equal(t, 1, strings.Count(learned(batch(t, d, n), 0), "</answer>"))
		held := c
		held.SFT.ValFraction = 0.4
		d = open(t, held, letters{})
		trained, val := d.Rows()
		held.SFT.ValFraction, held.Trainer.Harness = 0, "concat"
		whole := open(t, held, letters{})
		var sizes []int // turns of each lesson
		for i := range 4 {
			sizes = append(sizes, strings.Count(learned(batch(t, whole, i+1), 0), "</answer>"))
		}
		sums := map[int]bool{}
		for i := range sizes {
			for k := range i {
				sums[sizes[i]+sizes[k]] = true
			}
		}
		require.True(t, sums[val], "%d turns of %d are of two whole lessons of %v", val, trained+val, sizes)
		c.SFT.Lessons.Teacher = "wizard"
		_, err := sft.Open(t.Context(), &c, builtin.Registry(), nil)
		require.ErrorIs(t, err, env.ErrScript)
		testkit.Error(t, err, config.ErrConfig, `"wizard", must be one of shortest_path`)
	}
	c := settings()
	c.Env.Name, c.SFT.Lessons.Teacher = "blackjack", "shortest_path"
	_, err := sft.Open(t.Context(), &c, builtin.Registry(), nil)
	require.ErrorContains(t, err, "blackjack has no scripts")
}

func TestReadingStopsWithItsContext(t *testing.T) {
	c := lines(t, chat)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sft.Open(ctx, &c, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, config.ErrConfig)
}

// FuzzJSONLines reads damaged files: each is an error that wraps ErrExample, or examples of
// which every one can be encoded and has a token to learn.
func FuzzJSONLines(f *testing.F) {
	f.Add([]byte(chat))
	f.Add([]byte(`{"prompt":"<image>a","response":"b","images":["data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(picture(1)) + `"]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":"b","weight":0.5}]}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := lines(t, string(data))
		d, err := sft.Open(t.Context(), &c, nil, nil)
		if err == nil {
			err = d.Encode(t.Context(), letters{})
		}
		if err != nil {
			require.ErrorIs(t, err, sft.ErrExample)
			return
		}
		b := batch(t, d, 1)
		require.NotEmpty(t, strings.Trim(learned(b, 0), "_"))
	})
}
