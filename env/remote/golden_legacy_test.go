package remote

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/env/sokoban"
	"vagen/internal/golden"
)

// legacyEnvs are the library's environments under the rules of the legacy system.
func legacyEnvs(t testing.TB) *env.Registry {
	t.Helper()
	var r env.Registry
	legacy := map[string]any{"rules": "legacy"}
	require.NoError(t, r.Register("sokoban", WithDefaults(sokoban.FromConfig, legacy)))
	require.NoError(t, r.Register("frozenlake", WithDefaults(frozenlake.FromConfig, legacy)))
	require.NoError(t, r.Register("blackjack", blackjack.FromConfig))
	return &r
}

// What differs in legacy bodies: which environments a service has, wording and
// pictures of observations, and the explanations on error pages.
var legacyOwn = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`"registered_envs":\[[^\]]*\]`), `"registered_envs":[]`},
	{regexp.MustCompile(`"obs_str":"(?:[^"\\]|\\.)*?( <image>|<image>(?:[^"\\]|\\.)*)?"`), `"obs_str":"TEXT"`},
	{regexp.MustCompile(`"__pil_image__":"[A-Za-z0-9+/]+=*"`), `"__pil_image__":"IMAGE"`},
	{regexp.MustCompile(`<p>[^<]*</p>`), `<p></p>`},
	{regexp.MustCompile(`"system_prompts?":(\{[^}]*\}|"(?:[^"\\]|\\.)*")`), `"system_prompt":"TEXT"`},
}

func legacyMasked(body []byte) string {
	text := string(body)
	for _, o := range legacyOwn {
		text = o.find.ReplaceAllString(text, o.put)
	}
	return text
}

// The recordings are those of the original legacy service
// (testdata/remote/README.md). Our environments answer them with the same bytes,
// but for observations.
func TestServerAnswersAsTheLegacyService(t *testing.T) {
	const folder = "remote/legacy"
	s := serve(t, func(o *ServerOptions) { o.Lite, o.Legacy = nil, legacyEnvs(t) })
	h := httptest.NewServer(s)
	defer h.Close()
	tally := golden.Of(t, folder)
	for _, e := range exchanges(t, folder) {
		run := tally.Next("%s", e.ID)
		r, err := http.NewRequest(e.method, h.URL+e.path, bytes.NewReader(e.asked))
		require.NoError(t, err)
		r.Header.Set("Content-Type", e.header.Get("Content-Type"))
		got, err := h.Client().Do(r)
		require.NoError(t, err, e.ID)
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err, e.ID)
		require.NoError(t, got.Body.Close())
		run.Equal("status", got.StatusCode, e.Status)
		run.Equal("headers", headerNames(got.Header), headerNames(e.reply))
		run.Equal("content type", got.Header.Get("Content-Type"), e.reply.Get("Content-Type"))
		run.Equal("body", legacyMasked(body), legacyMasked(e.answer))
		run.Equal("images", strings.Count(string(body), "__pil_image__"), strings.Count(string(e.answer), "__pil_image__"))
	}
}

// answerWith lets a client see one recorded response for every request.
type answerWith struct {
	exchange
	asked []byte
}

func (a *answerWith) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	if a.asked, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: a.Status, Header: a.reply, Body: io.NopCloser(bytes.NewReader(a.answer)),
		Request: r}, nil
}

func patientOptions(rt http.RoundTripper) ClientOptions {
	o := DefaultClientOptions()
	o.URLs, o.Retries, o.Transport = []string{"http://service"}, 0, rt
	return o
}

// The client reads every response that the original legacy client could get: successes
// give their content, failures the matching error.
func TestLegacyClientReadsRecordedResponses(t *testing.T) {
	const folder = "remote/legacy"
	tally := golden.Of(t, folder+" (client)")
	for _, e := range exchanges(t, folder) {
		run := tally.Next("%s", e.ID)
		rt := &answerWith{exchange: e}
		o := patientOptions(rt)
		o.Name = "any"
		c, err := NewLegacyClient(o)
		require.NoError(t, err)
		v, _ := pyjson.Parse(e.answer)
		data, _ := v.(map[string]any)
		results, _ := data["results"].(map[string]any)
		for id, entry := range results {
			c.id, c.ready = id, true
			list := entry.([]any)
			first := list[0].(map[string]any)
			if len(list) == 2 {
				got, err := c.Reset(context.Background(), 1)
				run.Equal("failed", err != nil, len(first) == 0)
				if err == nil {
					run.Equal("text", got.Text, first["obs_str"].(string))
				} else {
					require.ErrorIs(t, err, ErrRemote)
				}
				continue
			}
			// Step would also request the final reward, which the recording answers
			// with the step once more.
			out, _, err := c.step(context.Background(), "any")
			require.NoError(t, err, e.ID)
			run.Equal("text", out.Observation.Text, first["obs_str"].(string))
			pay, _ := wire.Float(list[1])
			run.Equal("reward", out.Reward.Sum(), pay)
			run.Equal("done", out.Done, list[2].(bool))
			info := list[3].(map[string]any)
			run.Equal("raw", out.Response.Raw, info["llm_raw_response"].(string))
			run.Equal("correct", out.Response.FormatCorrect, info["format_correct"].(bool))
			run.Equal("actions", len(out.Response.Actions), len(info["actions"].([]any)))
			traj := info["metrics"].(map[string]any)["traj_metrics"].(map[string]any)
			run.Equal("success", out.Success, traj["success"].(bool))
		}
		if len(results) > 0 {
			continue
		}
		c.id, c.ready = "none", true
		_, err = c.Reset(context.Background(), 1)
		var failure *Error
		require.ErrorAs(t, err, &failure, e.ID)
		run.Equal("status", failure.Status, e.Status)
		switch {
		case e.Status == http.StatusInternalServerError:
			require.ErrorIs(t, err, ErrRemote, e.ID)
		case e.Status == http.StatusBadRequest:
			require.ErrorIs(t, err, ErrRequest, e.ID)
		default:
			require.ErrorIs(t, err, ErrProtocol, e.ID)
		}
	}
}
