package main

import (
	"encoding/json"
	"fmt"
	"image"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/enginestub"
	"vagen/internal/testkit"
	"vagen/policy/vlm/tokenizer"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/rollout/store"
)

// ask sends JSON with a key and decodes the answer.
func ask(t *testing.T, url, key, body string) (code int, out map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	raw, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.NoError(t, json.Unmarshal(raw, &out), "%s", raw)
	return a.StatusCode, out
}

// begin opens an episode, as soon as there is a place for it.
func begin(t *testing.T, url, token, body string) (e map[string]any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var code int
		code, e = ask(t, url+"/episodes", token, body)
		return code == 201
	}, time.Minute, 5*time.Millisecond)
	return e
}

const hello = `{"messages": [{"role": "user", "content": "hello"}]}`

// TestEpisodesOfAgentsAreKept: those that ended with their rewards, and those that were open when the
// gateway was stopped with the reason. Keys are in no log, and the program that scores has not the token.
func TestEpisodesOfAgentsAreKept(t *testing.T) {
	dir := t.TempDir()
	model, out := filepath.Join(dir, "model"), filepath.Join(dir, "episodes")
	succeed(t, "model", "create", model, "--layers", "1")
	t.Setenv("GATEWAY_TOKEN", "secret-token")
	url, stop := launchService(t, "gateway", "--addr", "127.0.0.1:0", "--model", model, "--backend", "go", "--out", out,
		"--episodes", "2", "--per-file", "1", "--max-tokens", "4", "--drain-timeout", "1ms", "--token-env", "GATEWAY_TOKEN",
		"--max-length", "100",
		"--log", "debug", `reward_command=[sh, -c, 'echo "{\"reward\": ${GATEWAY_TOKEN:-0.5}}"']`)
	code, _ := ask(t, url+"/episodes", "", "")
	require.Equal(t, 401, code)
	var keys []string
	for i := range 3 {
		var a map[string]any
		e := begin(t, url, "secret-token", `{"task": "greet", "group": 7, "seed": 9}`)
		key := e["key"].(string)
		keys = append(keys, key)
		code, a = ask(t, e["base_url"].(string)+"/chat/completions", key, hello)
		require.Equal(t, 200, code, "%v", a)
		code, a = ask(t, e["base_url"].(string)+"/chat/completions", key, strings.Replace(hello, "hello",
			strings.Repeat("hello ", 100), 1))
		require.Equal(t, 400, code, "%v", a)
		require.Equal(t, "context_length_exceeded", a["error"].(map[string]any)["code"])
		if i < 2 {
			code, _ = ask(t, e["url"].(string)+"/finish", key, `{}`)
			require.Equal(t, 200, code)
			kept := filepath.Join(out, fmt.Sprintf("step_%d.parquet", i)) // after its reward, which a stop would cancel
			require.Eventually(t, func() bool { _, err := os.Stat(kept); return err == nil }, time.Minute,
				time.Millisecond)
		}
	}
	code, log := stop()
	require.Equal(t, cli.OK, code, log)
	for _, secret := range append(keys, "secret-token") {
		require.NotContains(t, log, secret)
	}
	var kept []store.Stored
	for _, name := range []string{"step_0.parquet", "step_1.parquet", "step_2.parquet"} {
		some, err := store.Load(filepath.Join(out, name))
		require.NoError(t, err)
		kept = append(kept, some...)
	}
	require.Len(t, kept, 3)
	for i, e := range kept {
		require.Equal(t, []any{7, int64(9)}, []any{e.Group, e.Seed})
		require.Equal(t, map[string]any{"name": "greet"}, e.Config["task"])
		if i == 2 {
			break
		}
		require.Equal(t, []any{rollout.EndNoRoom, 0.5}, []any{e.End, e.Return()})
		require.Len(t, e.Rows, 1)
		require.Len(t, e.Rows[0].LogProbs, e.Rows[0].Len())
	}
	require.False(t, kept[2].End.Usable())
	require.ErrorContains(t, kept[2].Err, "closed")

	for want, args := range map[string]string{
		"--out is missing": "--model m", "--model is missing": "--out o",
		"a token is needed":                              "--model m --out " + out + " --addr 0.0.0.0:0",
		"command is not an option here":                  "--model m --out o command=[x]",
		`option "constraints"`:                           "--model m --out " + out + " constraints=maybe",
		"--episodes is 0":                                "--model m --out o --episodes 0",
		"--episode-timeout -1s":                          "--model m --out o --episode-timeout -1s",
		"--max-length is -1":                             "--model m --out o --max-length -1",
		"temperature is NaN, must be":                    "--model m --out o --temperature NaN",
		"top-p is 1.5, must be":                          "--model m --out o --top-p 1.5",
		"--engine-kind is set, but there is no --engine": "--model m --out o --engine-kind sglang",
		"--bf16 is set, but --engine is, too":            "--model m --out o --engine http://h:1 --bf16",
	} {
		line := append([]string{"gateway", "--addr", "127.0.0.1:0"}, strings.Fields(args)...)
		refuse(t, want, line...)
	}
}

// TestGatewaysContinueTheirFolder: no index, and with it no sampling, is repeated, however many episodes a file has.
// One that cannot write stops.
func TestGatewaysContinueTheirFolder(t *testing.T) {
	dir := t.TempDir()
	model, out := filepath.Join(dir, "model"), filepath.Join(dir, "episodes")
	succeed(t, "model", "create", model, "--layers", "1")
	play := func() (url string, stop func() (int, string), finish func()) {
		url, stop = launchService(t, "gateway", "--addr", "127.0.0.1:0", "--model", model, "--backend", "go",
			"--out", out, "--episodes", "2", "--per-file", "1", "--max-tokens", "4", "--drain-timeout", "1ms")
		e := begin(t, url, "", "")
		key := e["key"].(string)
		code, a := ask(t, e["base_url"].(string)+"/chat/completions", key, hello)
		require.Equal(t, 200, code, "%v", a)
		return url, stop, func() { // one that cannot write may close before it answers
			if a, err := http.Post(e["url"].(string)+"/finish", "", strings.NewReader(`{"reward": 1}`)); err == nil {
				_ = a.Body.Close()
			}
		}
	}
	var indices []int
	for _, name := range []string{"step_0.parquet", "step_1.parquet"} {
		_, stop, finish := play()
		finish()
		code, log := stop()
		require.Equal(t, cli.OK, code, log)
		kept, err := store.Load(filepath.Join(out, name))
		require.NoError(t, err)
		indices = append(indices, kept[0].Index)
	}
	require.Greater(t, indices[1]-indices[0], 1<<30)

	url, stop, finish := play()
	require.NoError(t, os.RemoveAll(out))
	finish()
	require.Eventually(t, func() bool {
		a, err := http.Get(url)
		return err != nil || a.Body.Close() != nil
	}, time.Minute, 5*time.Millisecond, "it has stopped")
	code, log := stop()
	require.NotEqual(t, cli.OK, code)
	require.Contains(t, log, "episodes not written")
}

// told is the model of a stub of a server. It answers "yes" with log-probs that name its tokens.
type told struct {
	tok  *tokenizer.Tokenizer
	chat *tokenizer.Chat
}

func (told) Load(string) error { return nil }

func (told) Expand(tokens []int32, _ []image.Image) ([]int32, [][2]int, error) {
	return tokens, nil, nil
}

func (m told) Generate(j enginestub.Job) (tokens []int32, logProbs []float32, err error) {
	tokens, err = m.tok.Encode("yes")
	_, end := m.chat.EndOfTurn()
	tokens = append(tokens, end)
	tokens = tokens[:min(j.Max, len(tokens))]
	for _, id := range tokens {
		logProbs = append(logProbs, -float32(id)/1000)
	}
	return tokens, logProbs, err
}

func (m told) Tokenize(text string) []int32 {
	rendered, _ := m.chat.Open([]tokenizer.Message{tokenizer.Text("user", text)})
	ids, _ := m.tok.Encode(rendered)
	return ids
}

func (m told) Decode(tokens []int32) string { return m.tok.Decode(tokens, tokenizer.KeepSpecial) }

// TestEpisodesOnServersAreKept: a server generates, and the rows have its tokens and log-probs.
func TestEpisodesOnServersAreKept(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	succeed(t, "model", "create", model, "--layers", "1")
	tok, err := tokenizer.Load(model)
	require.NoError(t, err)
	chat, err := tok.Chat(nil)
	require.NoError(t, err)
	for _, kind := range []string{"vllm", "sglang"} {
		server := httptest.NewServer(&enginestub.Stub{Model: told{tok, chat}, SGLang: kind == "sglang", Name: "policy",
			Vocab: tok.VocabSize() + 1000, Length: 1 << 12})
		defer server.Close()
		out := filepath.Join(dir, kind)
		url, stop := launchService(t, "gateway", "--addr", "127.0.0.1:0", "--model", model, "--engine", server.URL,
			"--engine-kind", kind, "--out", out, "--episodes", "1", "--max-tokens", "8", "--drain-timeout", "1ms")
		e := begin(t, url, "", "")
		key, body := e["key"].(string), hello
		for range 2 {
			code, a := ask(t, e["base_url"].(string)+"/chat/completions", key, body)
			require.Equal(t, 200, code, "%v", a)
			require.Equal(t, "yes", a["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"])
			body = strings.Replace(hello, "]",
				`, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "sure?"}]`, 1)
		}
		code, _ := ask(t, e["url"].(string)+"/finish", key, `{"reward": 1}`)
		require.Equal(t, 200, code)
		code, log := stop()
		require.Equal(t, cli.OK, code, log)
		kept, err := store.Load(filepath.Join(out, "step_0.parquet"))
		require.NoError(t, err)
		require.Len(t, kept, 1)
		require.Len(t, kept[0].Rows, 1)
		row := &kept[0].Rows[0]
		require.Equal(t, 2, row.Turns())
		for i, response := range row.Response(nil) {
			want := float32(0)
			if response {
				want = -float32(row.Tokens()[i]) / 1000
			}
			require.InDelta(t, want, row.LogProbs[i], 1e-6)
		}
	}
}

// TestAgentsAreEvaluated like every environment: here a service that asks once and scores itself.
func TestAgentsAreEvaluated(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Base string `json:"base_url"`
			Key  string
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&e))
		code, _ := ask(t, e.Base+"/chat/completions", e.Key, hello)
		require.Equal(t, 200, code)
		_, _ = io.WriteString(w, `{"reward": 0.25, "success": true}`)
	}))
	defer agent.Close()
	config, _ := evalSetup(t, &answers{})
	raw := testkit.Text(t, config)
	text := strings.Replace(raw, "config: {render_mode: text, size: 2}", "config: {url: \""+agent.URL+"\"}", 1)
	testkit.Write(t, config, strings.Replace(text, "FrozenLake", "agent", 1))
	r := decoded[evaluate.Report](t, "eval", config, "--format", "json", "--log", "error")
	require.Equal(t, []int{12, 0}, []int{r.Rows[0].Episodes, r.Rows[0].Unusable})
	require.InDelta(t, 0.25, r.Rows[0].Score.Mean, 0)
	require.InDelta(t, 1, r.Rows[0].Success.Mean, 0)
}
