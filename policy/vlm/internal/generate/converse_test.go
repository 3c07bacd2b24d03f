package generate_test

import (
	"context"
	"image"
	"image/color"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

func TestContinuedConversationsEqualOnePassOverTheirRow(t *testing.T) {
	for _, family := range model.Families() {
		t.Run(string(family), func(t *testing.T) {
			m := New(t, family, Options{})
			played := PlayOn(t, m, m.Cfg.Vision != nil, policy.Sampling{Temperature: 1, MaxTokens: 16})
			require.Len(t, played[3].Tokens, m.Gen.Chats[3].Length)
			requireScored(t, played, m, 1)
		})
	}
}

func TestEncodeGivesWhatGenerateReadAndWrote(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Llama} {
		m := New(t, family, Options{})
		_, end := m.Text.Chat.EndOfTurn()
		msgs := append([]policy.Message{{Role: policy.System, Text: "you play"}}, Say("left?")...)
		if m.Cfg.Vision != nil {
			msgs = append(msgs[:1], Say("left?<image>", Drawing(3, 16, 8))...)
		}
		played := Stories{}
		first := played.Play(t, m, []policy.Prompt{{Conversation: 1, Messages: msgs}}, policy.Sampling{MaxTokens: 1})[0]
		answer := policy.Message{Role: policy.Assistant, Text: "right"}
		next := policy.Message{Role: policy.User, Text: "sure?"}
		pieces, images, err := m.Text.Encode(append(append(slices.Clone(msgs), answer, next),
			policy.Message{Role: policy.Assistant, Text: "yes"}))
		require.NoError(t, err)
		require.Len(t, pieces, 4)
		require.Equal(t, first.Context, pieces[0].Tokens, "%s", family)
		require.Equal(t, len(first.Images), len(images))
		require.Equal(t, []bool{false, true, false, true}, []bool{pieces[0].Response, pieces[1].Response, pieces[2].Response,
			pieces[3].Response})
		require.Equal(t, end, pieces[1].Tokens[len(pieces[1].Tokens)-1])
		require.Equal(t, "right", m.Text.Tok.Decode(pieces[1].Tokens[:len(pieces[1].Tokens)-1], tokenizer.KeepSpecial))
	}
}

func TestEncodedConversationsCanBeScored(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	assistant := func(text string) policy.Message { return policy.Message{Role: policy.Assistant, Text: text} }
	look, trailing := Say("<image>?", Drawing(1, 8, 8)), Say("<image> and?", Drawing(2, 8, 16))
	pieces, images, err := m.Text.Encode([]policy.Message{look[0], assistant("left"), trailing[0]})
	require.NoError(t, err)
	require.Len(t, images, 1, "what awaits a response is left out")
	require.Len(t, pieces, 2)
	rows := policy.Rows{Tokens: append(pieces[0].Tokens, pieces[1].Tokens...), Images: [][]policy.Image{images}}
	rows.Offsets = []int{0, len(rows.Tokens)}
	_, err = m.Score(t.Context(), &rows, Trues(len(rows.Tokens)), policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)

	pad := m.Text.Tok.Decode([]int32{m.Cfg.ImageToken}, tokenizer.KeepSpecial)
	for want, msgs := range map[string][]policy.Message{
		"message 1: 1 images, but the assistant": {look[0], {Role: policy.Assistant, Text: "x", Images: look[0].Images}},
		"message 1: tokenizer: ":                 {look[0], assistant("see " + pad)},
		"message 0: ":                            {{Role: policy.User, Text: "<image>"}, assistant("x")},
		"image 0 is nil": {{Role: policy.User, Text: "<image>", Images: make([]image.Image, 1)},
			assistant("x")},
		"before message 1: ": {Say("see " + pad)[0], assistant("x")},
	} {
		_, _, err := m.Text.Encode(msgs)
		require.ErrorContains(t, err, want)
	}
}

func TestConversationsLongerThanTheContextAreErrors(t *testing.T) {
	m := Open(t, Folder(t, model.Qwen25VL, Object{"max_position_embeddings": 80}), Options{})
	played := Stories{}
	o := policy.Sampling{MaxTokens: 4}
	p := func(key uint64) policy.Prompt { return policy.Prompt{Conversation: key, Messages: Say("on")} }
	for range 20 {
		c := played.Play(t, m, []policy.Prompt{p(1)}, o)[0]
		if c.Err != nil {
			testkit.Error(t, c.Err, policy.ErrNoRoom, "the model allows 80")
			break
		}
		require.LessOrEqual(t, len(played[1].Tokens), 80)
	}
	require.Greater(t, len(played[1].Tokens), 40, "it continued while there was room")
	// A new conversation in the same call is not affected, and one that never fits fails at
	// once.
	long := policy.Prompt{Conversation: 3,
		Messages: Say("this is a sentence that alone has more than eighty bytes, each of which is a token")}
	got := played.Play(t, m, []policy.Prompt{p(1), p(2), long}, o)
	require.ErrorIs(t, got[0].Err, policy.ErrNoRoom)
	require.NoError(t, got[1].Err)
	require.ErrorIs(t, got[2].Err, policy.ErrNoRoom)
	require.NotContains(t, m.Gen.Chats, uint64(3))
	// Without a limit there are too many tokens, too.
	out, err := m.Generate(t.Context(), []policy.Prompt{p(4)}, policy.Sampling{MaxTokens: math.MaxInt})
	require.NoError(t, err)
	require.ErrorIs(t, out[0].Err, policy.ErrNoRoom)
}

func TestForgettingFreesTheCache(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{MaxRows: 2})
	before, _ := m.Dev.Live()
	o := policy.Sampling{MaxTokens: 5}
	alone := Stories{}
	alone.Play(t, m, Asks()[:1], o)
	alone.Play(t, m, []policy.Prompt{{Conversation: 1, Messages: Say("on")}}, o)
	m.Forget(1)

	played := Stories{}
	played.Play(t, m, Asks(), o)
	both, _ := m.Dev.Live()
	require.Greater(t, both, before)
	m.Forget(3, 4, 77) // a whole batch, and one that is not there
	one, _ := m.Dev.Live()
	require.Less(t, one, both)
	m.Forget(2)
	played.Play(t, m, []policy.Prompt{{Conversation: 1, Messages: Say("on")}}, o)
	require.Equal(t, alone[1].Tokens, played[1].Tokens, "who stays continues as if alone")
	m.Forget(1)
	m.Forget(1)
	after, _ := m.Dev.Live()
	require.Equal(t, before, after)
	require.Empty(t, m.Gen.Chats)
	require.Empty(t, m.Gen.Batches)
}

// Batches of 64 rows and more of a tiny model shrink when half of them have ended.
func TestShrinkingABatchChangesNoConversation(t *testing.T) {
	for _, family := range []model.Family{model.Qwen2, model.Qwen35Text} {
		testShrinking(t, New(t, family, Options{}))
	}
}

func testShrinking(t *testing.T, m *Model) {
	t.Helper()
	var first, second []policy.Prompt
	var others []uint64
	for key := range uint64(64) {
		first = append(first, policy.Prompt{Conversation: key, Messages: Say("go"), Seed: key, MaxTokens: 1 + int(key%3)})
		if key%9 == 5 {
			second = append(second, policy.Prompt{Conversation: key, Messages: Say("on"), Seed: key})
		} else {
			others = append(others, key)
		}
	}
	o := policy.Sampling{Temperature: 1, MaxTokens: 4}
	played := Stories{}
	played.Play(t, m, first, o)
	m.Forget(others...)
	for _, key := range others {
		delete(played, key)
	}
	played.Play(t, m, second, o)
	require.Len(t, m.Gen.Batches[0].Rows, 32)
	requireScored(t, played, m, 1)
}

func TestCancelledGenerationLeavesAWorkingModel(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	before, _ := m.Dev.Live()
	o := policy.Sampling{MaxTokens: 4}
	want := Ask(t, m, o, Asks())
	done := false
	for looks := 0; !done; looks++ {
		ctx := Countdown(t.Context(), looks)
		_, err := m.Generate(ctx, Asks(), o)
		if done = err == nil; done {
			require.Greater(t, looks, 3, "it looks at the context at every step")
			continue
		}
		require.ErrorIs(t, err, ctx.Err())
		require.Empty(t, m.Gen.Chats, "conversations end with a broken call")
		live, _ := m.Dev.Live()
		require.Equal(t, before, live, "after %d looks", looks)
	}
	m.Forget(KeysOf(Asks())...)
	for key, c := range Ask(t, m, o, Asks()) {
		require.Equal(t, want[key].Tokens, c.Tokens)
	}
}

// TestMessagesThatTheModelCannotReadFailAlone: a placeholder in a text, and an image for a model of texts.
func TestMessagesThatTheModelCannotReadFailAlone(t *testing.T) {
	for family, said := range map[model.Family][]policy.Message{
		model.Qwen25VL: Say("a <|image_pad|> b"), model.Llama: Say("<image>", Drawing(1, 8, 8)),
	} {
		m := New(t, family, Options{})
		out, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 1, Messages: said},
			{Conversation: 2, Messages: Say("left")}}, policy.Sampling{MaxTokens: 2})
		require.NoError(t, err)
		require.ErrorIs(t, out[0].Err, policy.ErrMessages, family)
		require.Equal(t, family == model.Llama, strings.Contains(out[0].Err.Error(), "no vision tower"))
		require.NoError(t, out[1].Err, family)
	}
}

// torn is an image without its pixels.
type torn struct{ image.Image }

func TestImagesThatPanicAreErrors(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	var none *image.RGBA
	for name, im := range map[string]image.Image{
		"nil pointer": none, "nil embedded": torn{}, "too few pixels": &image.RGBA{Stride: 64, Rect: image.Rect(0, 0, 16,
			16)},
	} {
		prompts := []policy.Prompt{{Conversation: 1, Messages: Say("<image>", im)}, {Conversation: 2, Messages: Say("left")}}
		out, err := m.Generate(t.Context(), prompts, policy.Sampling{MaxTokens: 2})
		require.NoError(t, err, name)
		require.ErrorContains(t, out[0].Err, "image 0: image cannot be read", name)
		require.NoError(t, out[1].Err, "the other conversation continues")
		m.Forget(1, 2)
		rows := policy.Rows{Offsets: []int{0, 2}, Tokens: []int32{65, m.Cfg.ImageToken},
			Images: [][]policy.Image{{{Image: im}}}}
		_, err = m.Score(t.Context(), &rows, Trues(2), policy.ScoreRequest{LogProbs: true}, 1)
		require.ErrorContains(t, err, "row 0: image 0: processor: image cannot be used: it cannot be read", name)
	}
}

// vast is an image that is computed, of any size.
type vast struct{ image.Rectangle }

func (v vast) Bounds() image.Rectangle { return v.Rectangle }

func (vast) At(int, int) color.Color { panic("was read") }

// The memory for scaling an image down is checked before it is allocated.
func TestHugeImagesAreRefusedWithoutDecoding(t *testing.T) {
	im := vast{image.Rect(0, 0, 1<<15, 1<<15)}
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen2} {
		m := New(t, family, Options{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 1, Messages: Say("<image>", im)}},
			policy.Sampling{MaxTokens: 2})
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Error(t, out[0].Err)
		require.NotContains(t, out[0].Err.Error(), "image cannot be read")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	}
}

// If the device fails while a call is being cancelled, a cache is half-written as in any
// other failure.
func TestFailingDevicesEndConversationsOfCancelledCalls(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	both := []policy.Prompt{{Conversation: 1, Messages: Say("left")}, {Conversation: 2, Messages: Say("right")}}
	_, err := m.Generate(t.Context(), both, policy.Sampling{MaxTokens: 1})
	require.NoError(t, err)
	require.Len(t, m.Gen.Chats, 2)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = m.Gen.Stream(ctx, []policy.Prompt{{Conversation: 1, Messages: Say("on")}}, policy.Sampling{MaxTokens: 32},
		func(int, int32) {
			cancel()
			m.Dev.Close()
		})
	require.ErrorIs(t, err, device.ErrClosed)
	require.Empty(t, m.Gen.Chats, "the other one shared the cache")
	require.Empty(t, m.Gen.Batches)
}
