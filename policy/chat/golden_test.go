package chat

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// TestRequestsHaveTheFormOfTheAPI plays three turns with pictures and compares
// every request, path and headers included, with those in testdata, where pictures are
// replaced by their pixels.
func TestRequestsHaveTheFormOfTheAPI(t *testing.T) {
	for _, api := range []API{OpenAI, Anthropic, Gemini} {
		t.Run(string(api), func(t *testing.T) {
			server := saying(t, api, func(n int) string { return fmt.Sprintf("<answer>%d & more</answer>", n) })
			o := options(t, api, server.URL)
			o.Stop = []string{"</end>"}
			o.LogProbs = api != Anthropic
			o.Header = map[string]string{"Anthropic-Beta": "something"}
			switch api {
			case OpenAI:
				o.Extra = map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
				o.Pictures.Detail = "low"
			case Anthropic:
				o.Extra = map[string]any{"thinking": map[string]string{"type": "disabled"}}
			case Gemini:
				o.Extra = map[string]any{"generationConfig": map[string]any{"thinkingConfig": map[string]int{"thinkingBudget": 0}}}
			}
			m := newModel(t, o)
			full := policy.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 40, MaxTokens: 64}
			if api == OpenAI {
				full.MinP = 0.05
			}
			turns := []struct {
				messages []policy.Message
				sampling policy.Sampling
				limit    int
			}{
				{[]policy.Message{system("Be <b>brief</b>."), user("First <image>\nthen <image>", painted(red, blue), painted(
					blue))}, full, 0},
				{[]policy.Message{user("<image>", painted(red))}, policy.Sampling{TopP: 1, MaxTokens: 64}, 7},
				{[]policy.Message{user("And"), user("now?")}, policy.Sampling{Temperature: 1, MaxTokens: 64}, 0},
			}
			for i, turn := range turns {
				p := policy.Prompt{Conversation: 3, Messages: turn.messages, Seed: 1<<40 + 5, MaxTokens: turn.limit}
				out, err := m.Generate(context.Background(), []policy.Prompt{p}, turn.sampling)
				require.NoError(t, err)
				require.NoError(t, out[0].Err)
				require.Equal(t, fmt.Sprintf("<answer>%d & more</answer>", i), out[0].Text)
				require.Empty(t, out[0].Tokens)
			}
			got := server.all()
			for i := range got {
				for name, v := range got[i].Header {
					got[i].Header[name] = strings.ReplaceAll(v, testKey, "KEY")
				}
				got[i].Body = pixels(t, got[i].Body).(map[string]any)
			}
			golden, err := os.ReadFile(filepath.Join("testdata", string(api)+".json"))
			require.NoError(t, err)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, string(golden), string(text))
		})
	}
}

// pixels replaces every picture in a body by its pixels.
func pixels(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			v[name] = pixels(t, x)
		}
	case []any:
		for i, x := range v {
			v[i] = pixels(t, x)
		}
	case string:
		prefix, data, cut := strings.Cut(v, ";base64,")
		if !cut {
			prefix, data = "", v
		}
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil || !bytes.HasPrefix(raw, []byte("\x89PNG")) {
			return v
		}
		im, err := png.Decode(bytes.NewReader(raw))
		require.NoError(t, err)
		out := prefix + " " + fmt.Sprint(im.Bounds().Size())
		for x := range im.Bounds().Dx() {
			r, g, b, a := im.At(x, 1).RGBA()
			out += fmt.Sprintf(" %02x%02x%02x/%02x", r>>8, g>>8, b>>8, a>>8)
		}
		return strings.TrimSpace(out)
	}
	return v
}

// At OpenAI's public address the token limit has another name, and there is no top-k.
func TestOpenAIsOwnAddressHasItsOwnParameters(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", testKey)
	var seen *http.Request
	var body map[string]any
	o := DefaultOptions(OpenAI, "gpt")
	o.Omit = []string{"temperature", "seed"}
	o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		seen = r
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
		return response(200, fine(OpenAI, "ok")), nil
	})
	m := newModel(t, o)
	require.Equal(t, "ok", one(t, m, prompt(1, user("hi"))).Text)
	require.Equal(t, "https://api.openai.com/v1/chat/completions", seen.URL.String())
	require.Equal(t, "Bearer "+testKey, seen.Header.Get("Authorization"))
	require.Equal(t, map[string]any{
		"model": "gpt", "max_completion_tokens": 20.0, "messages": []any{map[string]any{"role": "user", "content": "hi"}},
	}, body)
	_, err := m.Generate(context.Background(), []policy.Prompt{prompt(2, user("hi"))},
		policy.Sampling{TopK: 3, MaxTokens: 5})
	require.ErrorContains(t, err, "top-k is 3")
}

func TestPublicAddresses(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(name, testKey)
	}
	t.Setenv("GEMINI_API_KEY", "")
	for api, want := range map[API]string{
		Anthropic: "https://api.anthropic.com/v1/messages",
		Gemini:    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
	} {
		o := DefaultOptions(api, "m")
		var got string
		o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			if r.Header.Get("X-Api-Key")+r.Header.Get("X-Goog-Api-Key") != testKey {
				return response(401, ""), nil
			}
			return response(200, fine(api, "ok")), nil
		})
		require.Equal(t, "ok", one(t, newModel(t, o), prompt(1, user("hi"))).Text)
		require.Equal(t, want, got)
	}
}

// A key for one service must not be sent to another because no variable is set in the
// options.
func TestOtherAddressesGetNoKeyUnlessOneIsNamed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", testKey)
	server := saying(t, OpenAI, func(int) string { return "ok" })
	o := DefaultOptions(OpenAI, "m")
	o.BaseURL = server.URL
	one(t, newModel(t, o), prompt(1, user("hi")))
	require.NotContains(t, server.all()[0].Header, "Authorization")
	o.KeyEnv = "OPENAI_API_KEY"
	one(t, newModel(t, o), prompt(1, user("hi")))
	require.Equal(t, "Bearer "+testKey, server.all()[1].Header["Authorization"])
	require.Equal(t, "/chat/completions", server.all()[1].Path)
}
