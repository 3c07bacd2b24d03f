package chat

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
)

func TestPromptsThatBreakTheContractAreRefused(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Transport = tripper(ok)
	m := newModel(t, o)
	one(t, m, prompt(1, system("be"), user("hi")))
	for want, p := range map[string]policy.Prompt{
		"message 0: a system message can only open": prompt(1, system("again"), user("hi")),
		"message 1: a system message can only open": prompt(2, user("hi"), system("be"), user("hi")),
		`message 0: the role "tool" is not one of`:  prompt(2, policy.Message{Role: "tool"}, user("hi")),
		"the last of 0 messages must be the user's": prompt(2),
		"the last of 1 messages must be the user's": prompt(2, system("be")),
		"message 0: the assistant cannot show image": prompt(2, policy.Message{Role: policy.Assistant, Images: []image.Image{
			painted(red)}}, user("hi")),
		"the response may have -1 tokens": {Conversation: 2, Messages: []policy.Message{user("hi")},
			MaxTokens: -1},
	} {
		_, err := asks(m, prompt(9, user("fine")), p)
		require.ErrorContains(t, err, "chat: prompt 1: "+want)
	}
	_, err := asks(m, prompt(2, user("a")), prompt(2, user("b")))
	require.ErrorContains(t, err, "prompts 0 and 1 continue the same conversation, 2")
	require.Len(t, m.chats, 1)
	require.Equal(t, int64(1), m.Usage().Requests)
	out, err := m.Generate(context.Background(), nil, short)
	require.NoError(t, err)
	require.Empty(t, out)
}

// Invalid messages of one conversation fail only that conversation.
func TestBadMessagesAffectOnlyTheirConversation(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Transport = tripper(ok)
	m := newModel(t, o)
	out, err := asks(m,
		prompt(1, user("<image> and <image>", painted(red))), prompt(2, user(" \n")), prompt(3, user("<image>", nil)),
		prompt(4, user("<image>", image.NewRGBA(image.Rect(3, 3, 3, 9)))), prompt(5, user("<image>", (*image.RGBA)(nil))),
		prompt(6, user("<image>", &image.RGBA{Stride: 8, Rect: image.Rect(0, 0, 2, 2)})), prompt(7, user("fine")))
	require.NoError(t, err)
	for i, want := range []string{"the text has 2 image marks, but there are 1 images", "the message is empty",
		"image 0: the image is empty", "image 0: the image is empty",
		"image 0: the image cannot be read: ", "image 0: the image cannot be read: "} {
		testkit.Error(t, out[i].Err, policy.ErrMessages, fmt.Sprintf("chat: conversation %d: message 0: %s", i+1, want))
	}
	require.Equal(t, "ok", out[6].Text)
	require.Len(t, m.chats, 1)
	require.Equal(t, int64(6), m.Usage().Failures)
	_, err = m.Count(prompt(8, user("<image>", (*image.RGBA)(nil))))
	require.ErrorContains(t, err, "chat: message 0: image 0: the image cannot be read")
}

// TestFailuresLeaveConversationsAsTheyWere fails the second turn, first of the
// conversation and then of the call, and repeats it.
func TestFailuresLeaveConversationsAsTheyWere(t *testing.T) {
	server := record(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = io.WriteString(w, fine(OpenAI, fmt.Sprint("answer ", n)))
		}
	})
	m := newModel(t, options(t, OpenAI, server.URL))
	one(t, m, prompt(1, user("first")))
	second := prompt(1, user("second"))
	require.ErrorIs(t, one(t, m, second).Err, ErrServer)
	_, err := asks(m, second)
	require.ErrorIs(t, err, ErrKey)
	require.Equal(t, "answer 3", one(t, m, second).Text)
	calls := server.all()
	require.Equal(t, calls[1].Body, calls[3].Body)
	require.Len(t, calls[3].Body["messages"], 3)

	m.Forget(1, 77)
	one(t, m, prompt(1, user("anew")))
	require.Len(t, server.all()[4].Body["messages"], 1)
	require.NoError(t, m.Close())
	require.Empty(t, m.chats)
}

// A conversation that is forgotten during a request stays forgotten, and no other call may
// continue it meanwhile.
func TestConversationsInUseAreNotShared(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	var m *Model
	o.Transport = tripper(func(*http.Request) (*http.Response, error) {
		_, err := asks(m, prompt(1, user("me too")))
		if err == nil {
			return nil, errors.New("two calls work on one conversation")
		}
		m.Forget(1)
		return response(200, fine(OpenAI, err.Error())), nil
	})
	m = newModel(t, o)
	require.Equal(t, "chat: prompt 0: conversation 1 is in use by another call", one(t, m, prompt(1, user("hi"))).Text)
	require.Empty(t, m.chats)
}

// A call that ends does not change a conversation that began under the same key after
// its own was forgotten.
func TestForgottenConversationsDoNotAffectLaterOnes(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	var m *Model
	calls := 0
	o.Transport = tripper(func(*http.Request) (*http.Response, error) {
		if calls++; calls > 1 {
			return response(200, fine(OpenAI, "new")), nil
		}
		m.Forget(1)
		_, err := asks(m, prompt(1, user("new")))
		return response(400, ""), err
	})
	m = newModel(t, o)
	require.ErrorIs(t, one(t, m, prompt(1, user("old"))).Err, ErrRequest)
	require.Len(t, m.chats[1].messages, 2)
}

// TestStopStringsOfAPromptCutItsAnswer: those of an agent's request, which must not fail the call for all others.
func TestStopStringsOfAPromptCutItsAnswer(t *testing.T) {
	server := saying(t, OpenAI, func(int) string { return "one END two STOP" })
	m := newModel(t, options(t, OpenAI, server.URL))
	q := prompt(1, user("hi"))
	q.StopStrings = []string{"STOP", "END", "none"}
	c := one(t, m, q)
	require.Equal(t, policy.Completion{Text: "one END", Stop: policy.StopString, Usage: c.Usage}, c)
	require.Equal(t, "one END two STOP", one(t, m, prompt(1, user("again"))).Text)
	said := server.all()[1].Body["messages"].([]any)
	require.Equal(t, map[string]any{"role": "assistant", "content": "one END"}, said[1])
}

// TestMessagesHaveTheFormThatAPIsAccept checks what the golden requests do not include:
// examples, pictures in system messages, blank text around pictures, blank responses.
func TestMessagesHaveTheFormThatAPIsAccept(t *testing.T) {
	server := saying(t, Anthropic, func(n int) string { return []string{" ", "done"}[n] })
	m := newModel(t, options(t, Anthropic, server.URL))
	c := one(t, m, prompt(1, system("Rules."), system("A map: <image>", painted(red)), system("More rules."),
		user("\n<image>\n", painted(blue)), policy.Message{Role: policy.Assistant},
		policy.Message{Role: policy.Assistant, Text: "example"}, user("now")))
	require.Equal(t, policy.StopEnd, c.Stop)
	n, err := m.Count(prompt(1, policy.Message{Role: policy.Assistant}))
	require.NoError(t, err)
	require.Zero(t, n)
	one(t, m, prompt(1, user("again")))
	text := func(s string) any { return map[string]any{"type": "text", "text": s} }
	pic := func(s string) any {
		return map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png",
			"data": s}}
	}
	for _, call := range server.all() {
		pixels(t, call.Body)
		require.Equal(t, []any{text("Rules."), text("More rules.")}, call.Body["system"])
	}
	require.Equal(t, []any{
		map[string]any{"role": "user", "content": []any{text("A map: "), pic("(1,2) ff0000/ff"), pic("(1,2) 0000ff/ff")}},
		map[string]any{"role": "assistant", "content": []any{text("example")}},
		map[string]any{"role": "user", "content": []any{text("now"), text("again")}}, // the blank response is not sent
	}, server.all()[1].Body["messages"])
}

func decode(t *testing.T, p *picture) image.Image {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(p.data)
	require.NoError(t, err)
	read := png.Decode
	if p.mime == "image/jpeg" {
		read = jpeg.Decode
	}
	im, err := read(bytes.NewReader(raw))
	require.NoError(t, err)
	require.Equal(t, image.Pt(p.width, p.height), im.Bounds().Size())
	return im
}

func TestPicturesKeepTheirPixels(t *testing.T) {
	big := image.NewNRGBA(image.Rect(5, 7, 45, 27)) // not at the origin
	for y := 7; y < 27; y++ {
		for x := 5; x < 45; x++ {
			big.SetNRGBA(x, y, color.NRGBA{uint8(x * 5), uint8(y * 9), 77, uint8(255 - x%2*100)})
		}
	}
	p, err := (&Pictures{}).encode(big)
	require.NoError(t, err)
	got := decode(t, p)
	for y := range 20 {
		for x := range 40 {
			require.Equal(t, big.NRGBAAt(x+5, y+7), color.NRGBAModel.Convert(got.At(x, y)))
		}
	}
}

func TestPicturesAreShrunkAndCompressed(t *testing.T) {
	plain := image.NewNRGBA(image.Rect(-3, -3, 97, 47)) // 100×50, half transparent red
	for i := range 100 * 50 {
		copy(plain.Pix[4*i:], []byte{255, 0, 0, 128})
	}
	for side, want := range map[int]image.Point{0: {100, 50}, 100: {100, 50}, 20: {20, 10}, 1: {1, 1}, 33: {33, 17}} {
		p, err := (&Pictures{MaxSide: side}).encode(plain)
		require.NoError(t, err)
		got := decode(t, p)
		require.Equal(t, want, got.Bounds().Size())
		c := color.NRGBAModel.Convert(got.At(0, 0)).(color.NRGBA)
		require.InDelta(t, 255, c.R, 2) // rounding of the premultiplied colour
		require.InDelta(t, 128, c.A, 1)
	}
	p, err := (&Pictures{JPEG: 90, MaxSide: 20}).encode(plain)
	require.NoError(t, err)
	require.Equal(t, "image/jpeg", p.mime)
	r, g, b, _ := decode(t, p).At(10, 5).RGBA()
	require.InDelta(t, 255, r>>8, 4) // JPEG's colour space rounds by a few levels
	require.InDelta(t, 127, g>>8, 4) // the white below
	require.InDelta(t, 127, b>>8, 4)
}
