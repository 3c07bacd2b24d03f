package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/policy"
)

// exchange is a recorded request of vLLM 0.32.0 (CPU) with its answer.
type exchange struct {
	file    string
	Request struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Body   json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"response"`
}

// recorded reads all exchanges of the golden folder.
func recorded(t *testing.T) (out []exchange) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden.Root(t), "engine", "vllm-*", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		e := exchange{file: filepath.Join(filepath.Base(filepath.Dir(f)), filepath.Base(f))}
		require.NoError(t, json.Unmarshal(raw, &e), f)
		out = append(out, e)
	}
	return out
}

// find returns a recorded exchange by the end of its file's name.
func find(t *testing.T, all []exchange, name string) exchange {
	t.Helper()
	for _, e := range all {
		if strings.HasSuffix(e.file, name+".json") {
			return e
		}
	}
	t.Fatalf("no recorded exchange %s", name)
	return exchange{}
}

// recordedBody is the body of a recorded request for a response.
type recordedBody struct {
	Model string  `json:"model"`
	ID    string  `json:"request_id"`
	Token []int32 `json:"token_ids"`
	Parts []struct {
		URL   string `json:"url"`
		Image any    `json:"image_url"`
	} `json:"content_parts"`
	Sampling struct {
		Max         int      `json:"max_tokens"`
		Temperature float64  `json:"temperature"`
		TopP        float64  `json:"top_p"`
		Seed        int64    `json:"seed"`
		LogProbs    *int     `json:"logprobs"`
		N           int      `json:"n"`
		Stop        []int32  `json:"stop_token_ids"`
		Bad         []string `json:"bad_words"`
	} `json:"sampling_params"`
	Stream   bool            `json:"stream"`
	Mode     string          `json:"output_mode"`
	Features json.RawMessage `json:"features"`
}

// answering is a server that gives one answer and keeps the last request's body.
func answering(t *testing.T, status int, body []byte) (base string, last *[]byte) {
	last = new([]byte)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
		w.Write(body)
	}))
	t.Cleanup(h.Close)
	return h.URL, last
}

// TestRecordedResponsesAreRead: every recorded request for tokens is sent as it was recorded,
// and its answer is read completely: tokens, log-probs, the prompt, images, versions, errors.
// Answers to requests without return_token_ids get the prompt that was sent.
func TestRecordedResponsesAreRead(t *testing.T) {
	o := DefaultOptions()
	v := &vllm{wire: newWire(&o)}
	cases, numbers := 0, 0
	for _, e := range recorded(t) {
		var b recordedBody
		if e.Request.Path != "/inference/v1/generate" || json.Unmarshal(e.Request.Body, &b) != nil ||
			b.Sampling.LogProbs == nil || b.Stream || b.Mode != "" || b.Sampling.N > 1 || b.Features != nil ||
			b.Sampling.Bad != nil {
			continue // this client does not send such requests
		}
		var a map[string]any
		require.NoError(t, json.Unmarshal(e.Response.Body, &a))
		r := &request{
			id: b.ID, model: b.Model, tokens: b.Token, prompt: b.Token, seed: uint64(b.Sampling.Seed) << 1, max: b.Sampling.Max,
			vocab: 1408, stop: b.Sampling.Stop,
			Sampling: policy.Sampling{Temperature: b.Sampling.Temperature, TopP: b.Sampling.TopP},
		}
		if r.stop == nil {
			r.stop = []int32{1297} // the model's end of a turn
		}
		for _, p := range b.Parts {
			r.urls = append(r.urls, p.URL)
		}
		if a["prompt_token_ids"] == nil && e.Response.Status == 200 {
			a["prompt_token_ids"] = b.Token
		}
		body, err := json.Marshal(a)
		require.NoError(t, err)
		base, sent := answering(t, e.Response.Status, body)
		got, err := v.generate(t.Context(), base, r)
		requireSent(t, e, &b, *sent)
		cases++
		if e.Response.Status != 200 {
			kind := map[int]error{400: ErrRefused, 404: ErrMissing}[e.Response.Status]
			require.Equal(t, kind == ErrRefused, errors.Is(&serverError{kind: kind}, policy.ErrMessages), "an agent may ask again")
			require.ErrorIs(t, err, kind, e.file)
			require.Equal(t, strings.Contains(e.file, "too-long"), errors.Is(err, policy.ErrNoRoom), e.file)
			continue
		}
		require.NoError(t, err, e.file)
		c := a["choices"].([]any)[0].(map[string]any)
		content := c["logprobs"].(map[string]any)["content"].([]any)
		require.Len(t, got.tokens, len(content), e.file)
		for i, x := range content {
			require.EqualValues(t, x.(map[string]any)["token_id"], got.tokens[i], e.file)
			require.EqualValues(t, float32(x.(map[string]any)["logprob"].(float64)), got.logProbs[i], e.file)
			numbers++
		}
		require.Equal(t, c["finish_reason"] == "abort", got.aborted, e.file)
		require.Equal(t, c["finish_reason"] == "stop", got.stopped, e.file)
		require.NoError(t, r.check(got), e.file)
		versions := c["weight_versions"].([]any)
		require.Len(t, got.versions, len(versions), e.file)
		require.Zero(t, got.foreign(got.versions[0].version)+got.versions[0].end-len(got.tokens), e.file)
		if len(b.Parts) == 0 {
			require.NoError(t, r.checkPrompt(got), e.file)
		}
	}
	t.Logf("golden: engine: %d cases, %d comparisons", cases, 2*numbers)
	require.GreaterOrEqual(t, cases, 14)
}

// requireSent compares what was sent with what was recorded, as far as it was recorded.
func requireSent(t *testing.T, e exchange, b *recordedBody, raw []byte) {
	t.Helper()
	var sent recordedBody
	require.NoError(t, json.Unmarshal(raw, &sent), e.file)
	require.Equal(t, b.Token, sent.Token, e.file)
	require.Equal(t, b.Model, sent.Model, e.file)
	require.Equal(t, b.ID, sent.ID, e.file)
	require.Equal(t, b.Sampling.Seed, sent.Sampling.Seed, e.file)
	require.Equal(t, b.Sampling.Max, sent.Sampling.Max, e.file)
	require.Equal(t, b.Sampling.Temperature, sent.Sampling.Temperature, e.file)
	require.Equal(t, *b.Sampling.LogProbs, *sent.Sampling.LogProbs, e.file)
	require.Len(t, sent.Parts, len(b.Parts), e.file)
	for i, p := range b.Parts {
		if p.Image == nil { // the nested form of the first recordings is refused by the server
			require.Equal(t, p, sent.Parts[i], e.file)
		}
	}
}

// TestNoPromptTokenIsLost: with one placeholder per image the recorded server reads the
// prompt that was meant. Placeholders that are expanded already are expanded again, which is
// detected.
func TestNoPromptTokenIsLost(t *testing.T) {
	c, all := checkpoint(t), recorded(t)
	o := DefaultOptions()
	v := &vllm{wire: newWire(&o)}
	for _, test := range []struct {
		file   string
		images int
	}{{"cpu-2/04-generate-image-one-pad", 1}, {"cpu-2/06-generate-two-images", 2},
		{"cpu-2/05-generate-image-expanded-pads", 1}} {
		e := find(t, all, test.file)
		var b recordedBody
		require.NoError(t, json.Unmarshal(e.Request.Body, &b))
		var pics []picture
		for _, p := range b.Parts {
			_, data, _ := strings.Cut(p.URL, "base64,")
			raw, err := base64.StdEncoding.DecodeString(data)
			require.NoError(t, err)
			im, err := png.Decode(bytes.NewReader(raw))
			require.NoError(t, err)
			pic, err := c.picture(policy.Image{Image: im})
			require.NoError(t, err)
			require.Equal(t, 9, pic.tokens)
			pics = append(pics, pic)
		}
		meant := b.Token
		if wrong := strings.Contains(test.file, "expanded"); !wrong {
			counts := []int{9, 9}[:test.images]
			var err error
			meant, err = c.text.Tok.ExpandImages(nil, b.Token, counts)
			require.NoError(t, err)
		}
		short, places, err := c.collapse(meant, pics)
		require.NoError(t, err)
		base, _ := answering(t, 200, e.Response.Body)
		r := &request{model: "policy", tokens: short, prompt: meant, places: places, max: 8, vocab: c.text.Vocab}
		got, err := v.generate(t.Context(), base, r)
		require.NoError(t, err)
		if strings.Contains(test.file, "expanded") {
			require.ErrorContains(t, r.checkPrompt(got), "51 tokens, 43 were meant")
			require.Len(t, short, 35, "as many as with one placeholder")
			continue
		}
		require.Equal(t, b.Token, short)
		require.NoError(t, r.checkPrompt(got), test.file)
	}
}

// TestRecordedConversationsHaveOurTokens: the server's chat template and tokenizer make the
// tokens that the codec makes.
func TestRecordedConversationsHaveOurTokens(t *testing.T) {
	c := checkpoint(t)
	e := find(t, recorded(t), "04-tokenize-text")
	base, sent := answering(t, 200, e.Response.Body)
	o := DefaultOptions()
	got, err := (&vllm{wire: newWire(&o)}).tokens(t.Context(), base, "policy", "Go left or right?", nil)
	require.NoError(t, err)
	require.JSONEq(t, string(e.Request.Body), string(*sent))
	want, _, err := c.text.Prompt(nil, []policy.Message{{Role: policy.User, Text: "Go left or right?"}}, nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// controls is a server that answers calls exactly as they were recorded, and fails others.
func controls(t *testing.T, all []exchange, names ...string) string {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range names {
			e := find(t, all, name)
			if e.Request.Method != r.Method || e.Request.Path != r.URL.RequestURI() || !sameJSON(e.Request.Body, body) {
				continue
			}
			w.WriteHeader(e.Response.Status)
			if text := ""; json.Unmarshal(e.Response.Body, &text) == nil {
				w.Write([]byte(text))
			} else {
				w.Write(e.Response.Body)
			}
			return
		}
		http.Error(w, fmt.Sprintf("not recorded: %s %s %s", r.Method, r.URL, body), 599)
	}))
	t.Cleanup(h.Close)
	return h.URL
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if len(b) == 0 {
		b = []byte("null")
	}
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestWeightsAreBroughtByTheRecordedCalls: adapters, their errors, and all weights.
func TestWeightsAreBroughtByTheRecordedCalls(t *testing.T) {
	all := recorded(t)
	o := DefaultOptions()
	v := &vllm{wire: newWire(&o)}
	base := controls(t, all, "cpu/01-health", "cpu/03-models", "33-weight-info", "22-lora-load",
		"25-lora-load-twice-error", "30-lora-load-missing", "31-lora-unload",
		"34-pause-wait", "36-reload-weights", "37-reset-prefix-cache", "38-update-weight-version", "39-resume")
	d, err := v.describe(t.Context(), base)
	require.NoError(t, err)
	require.Equal(t, &description{model: "policy", version: "default", length: 2048, adapters: []string{}}, d)
	d, err = v.describe(t.Context(), controls(t, all, "cpu/01-health", "23-models-with-adapter", "40-weight-info-after"))
	require.NoError(t, err)
	require.Equal(t, &description{model: "policy", version: "step-4", length: 2048, adapters: []string{"adapter"}}, d)
	require.NoError(t, v.loadAdapter(t.Context(), base, "adapter", "models/a1"))
	require.ErrorIs(t, v.loadAdapter(t.Context(), base, "adapter", "models/a2"), ErrRefused)
	require.ErrorIs(t, v.loadAdapter(t.Context(), base, "other", "nowhere"), ErrMissing)
	require.NoError(t, v.unloadAdapter(t.Context(), base, "adapter"))
	require.NoError(t, v.reload(t.Context(), base, "models/v2", "step-4"))
	require.NoError(t, v.abort(t.Context(), controls(t, all, "24-by-id-abort"), "flying"))
	// A step that fails is reported, and generation resumed all the same.
	err = v.reload(t.Context(), controls(t, all, "34-pause-wait", "39-resume"), "models/v2", "step-4")
	testkit.Error(t, err, ErrServer, "not recorded: POST /collective_rpc")
	require.NotContains(t, err.Error(), "/resume")
}
