package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestKeysAreNeverShown has a service send the key back in every way it can:
// whole, in pieces, escaped, in other case, in headers and in answers. Nothing that a
// caller can print may contain eight consecutive characters of it.
func TestKeysAreNeverShown(t *testing.T) {
	escaped := strings.ReplaceAll(testKey, "T", `\u0054`)
	echo := func(status int, body string) func(*http.Request) (*http.Response, error) {
		return reply(status, body, "X-Request-Id", "id-"+testKey, "Location", "https://x/?key="+testKey)
	}
	var log bytes.Buffer
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"refused":     echo(401, `{"error":{"message":"Incorrect API key provided: `+testKey+`.","code":"`+testKey+`"}}`),
		"masked":      echo(401, `{"error":{"message":"Incorrect key `+testKey[:12]+`*****`+testKey[len(testKey)-10:]+`"}}`),
		"escaped":     echo(400, `{"error":{"message":"`+escaped+`","type":"`+escaped+`"}}`),
		"plain":       echo(500, "header Authorization: Bearer "+strings.ToUpper(testKey)),
		"nested":      echo(400, `{"error":{"message":"m","metadata":{"raw":{"key":"`+testKey+`"}}}}`),
		"long":        echo(400, strings.Repeat("x", 495)+testKey+strings.Repeat("y", 5000)),
		"longer":      echo(400, strings.Repeat("x", 1990)+testKey),
		"redirect":    echo(302, testKey),
		"malformed":   echo(200, `{"choices":[{"message":{"content":"x"},"finish_reason":"`+testKey+`"}]}`),
		"no JSON":     echo(200, testKey),
		"in success":  echo(200, `{"error":{"code":400,"message":"`+testKey+`"}}`),
		"answer":      echo(200, fine(OpenAI, "you sent "+testKey)),
		"filter":      echo(200, said(OpenAI, "", "content_filter", 1, 1)),
		"network":     func(*http.Request) (*http.Response, error) { return nil, errors.New("proxy says " + testKey) },
		"interrupted": func(*http.Request) (*http.Response, error) { return response(200, "{"), nil },
	} {
		o := options(t, OpenAI, "http://service.test")
		o.Retries, o.Backoff, o.MaxDelay = 1, 0, 0
		o.Transport = tripper(answer)
		o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		m := newModel(t, o)
		out, err := asks(m, prompt(1, user("hi")))
		o.Log.Info("all", "model", m, "options", o, "usage", m.Usage(), "err", err)
		var shown strings.Builder
		for _, v := range []any{m, &o, o, err, out, m.Usage()} {
			fmt.Fprintf(&shown, "%v %+v %#v %s\n", v, v, v, v)
		}
		for _, c := range out {
			fmt.Fprintf(&shown, "%v %+v %#v\n", c.Err, c.Err, errors.Unwrap(c.Err))
		}
		if raw, err := json.Marshal(out); err == nil {
			shown.Write(raw)
		}
		hasNoKey(t, name, shown.String())
		if name == "answer" {
			require.Equal(t, "you sent [key]", out[0].Text)
		} else {
			require.True(t, err != nil || out[0].Err != nil, name)
		}
		if m.chats[1] != nil {
			hasNoKey(t, name, string(bytes.Join([][]byte{m.chats[1].messages[0], m.chats[1].messages[1]}, nil)))
		}
	}
	require.Contains(t, log.String(), "the key is sent without encryption")
	require.Contains(t, log.String(), "request failed, retrying")
	require.Contains(t, log.String(), "request failed, not retrying")
	hasNoKey(t, "log", log.String())
}

func hasNoKey(t *testing.T, where, text string) {
	t.Helper()
	text = strings.ToLower(text)
	for i := range len(testKey) - piece + 1 {
		require.NotContains(t, text, strings.ToLower(testKey[i:i+piece]), where)
	}
}

func TestKeysComeFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(name, " ")
	}
	for api, name := range map[API]string{OpenAI: "OPENAI_API_KEY", Anthropic: "ANTHROPIC_API_KEY",
		Gemini: "GEMINI_API_KEY or GOOGLE_API_KEY"} {
		_, err := New(DefaultOptions(api, "m"))
		testkit.Error(t, err, ErrKey, "set the environment variable "+name)
	}
	t.Setenv("GOOGLE_API_KEY", "second-key")
	m, err := New(DefaultOptions(Gemini, "m"))
	require.NoError(t, err)
	require.Equal(t, "second-key", m.key.reveal())
	t.Setenv("GEMINI_API_KEY", " first-key\n") // files end in a line break
	m, err = New(DefaultOptions(Gemini, "m"))
	require.NoError(t, err)
	require.Equal(t, "first-key", m.key.reveal())
	t.Setenv("OPENAI_API_KEY", "two\nlines-of-key")
	_, err = New(DefaultOptions(OpenAI, "m"))
	require.ErrorContains(t, err, "OPENAI_API_KEY")
	require.NotContains(t, err.Error(), "lines")
}

// A key given in place of the variable's name is not shown either.
func TestKeysInOptionsAreRefusedWithoutShowingThem(t *testing.T) {
	o := DefaultOptions(OpenAI, "m")
	o.KeyEnv = testKey
	o.BaseURL = "https://me:" + testKey + "@host/v1"
	o.Header = map[string]string{"authorization": "Bearer " + testKey, "x-api-key": testKey}
	err := o.Validate()
	for _, part := range []string{"chat: KeyEnv: ", "chat: BaseURL: ", "chat: Header: authorization",
		"chat: Header: x-api-key"} {
		require.ErrorContains(t, err, part)
	}
	hasNoKey(t, "Validate", err.Error())
	o.BaseURL = "https://host/v1?key=" + testKey
	hasNoKey(t, "Validate", o.Validate().Error())
	o.BaseURL = "https://host:" + testKey + "/%zz"
	hasNoKey(t, "Validate", o.Validate().Error())
}

func TestMissingKeysAreNamedWhenTheServiceRequiresOne(t *testing.T) {
	server := record(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"Unauthorized"}`)
	})
	o := DefaultOptions(OpenAI, "m")
	o.BaseURL = server.URL
	_, err := asks(newModel(t, o), prompt(1, user("hi")))
	testkit.Error(t, err, ErrKey, "no key was sent, see Options.KeyEnv. Unauthorized")
}

func TestShortWordsAreNoKeys(t *testing.T) {
	require.Equal(t, "an x is an x", newSecret("x").hide("an x is an x"))
	require.Equal(t, "it is [key]", newSecret("EMPTY").hide("it is empty"))
	require.Equal(t, "it is EMPTY", newSecret("EMPTY").strip("it is EMPTY"), "answers of the model stay")
	require.Equal(t, "", newSecret("").reveal())
}

// TestAnUnknownAPIHasNoKey: New refuses it, and what is asked before that does not panic.
func TestAnUnknownAPIHasNoKey(t *testing.T) {
	require.Empty(t, (&Options{API: "soap"}).KeyNames())
	require.Empty(t, (&Options{API: "soap", BaseURL: "https://example.com"}).KeyNames())
}
