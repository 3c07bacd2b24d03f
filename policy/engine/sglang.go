package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"vagen/policy"
)

// sglang is the protocol of SGLang 0.5.23.
type sglang struct{ *wire }

func (g *sglang) describe(ctx context.Context, base string) (*description, error) {
	if err := g.call(ctx, base, http.MethodGet, "/health", nil, nil); err != nil {
		return nil, err
	}
	var info struct {
		Path    string `json:"model_path"`
		Version string `json:"weight_version"`
	}
	if err := g.call(ctx, base, http.MethodGet, "/model_info", nil, &info); err != nil {
		return nil, err
	}
	return &description{model: info.Path, version: info.Version}, nil
}

// tokens returns nothing: the text of responses is compared instead.
func (g *sglang) tokens(context.Context, string, string, string, map[string]any) ([]int32, error) {
	return nil, nil
}

// sglangRequest is the body of /generate.
type sglangRequest struct {
	ID       string         `json:"rid,omitempty"`
	Tokens   []int32        `json:"input_ids"`
	Images   []string       `json:"image_data,omitempty"`
	Sampling map[string]any `json:"sampling_params"`
	LogProbs bool           `json:"return_logprob"`
	From     int            `json:"logprob_start_len"`
	Top      int            `json:"top_logprobs_num"`
	LoRA     string         `json:"lora_path,omitempty"`
	Stream   bool           `json:"stream"`
}

func newSGLangRequest(r *request) *sglangRequest {
	b := &sglangRequest{ID: r.id, Tokens: r.tokens, Images: r.urls, LogProbs: true, From: -1}
	if r.lora {
		b.LoRA = r.model
	}
	if r.scoring != nil {
		b.From, b.Top = 0, r.scoring.top
	}
	b.Sampling = map[string]any{
		"max_new_tokens": r.max, "temperature": r.Temperature, "top_p": cmp.Or(r.TopP, 1), "top_k": cmp.Or(r.TopK, -1),
		"min_p":          r.MinP,
		"stop_token_ids": r.stop,
		"ignore_eos":     true, "sampling_seed": int64(r.seed >> 33), // 31 bits, the width of its sampler's counter
		"n": 1, "skip_special_tokens": false,
	}
	return b
}

// sglangAnswer is the answer of /generate.
type sglangAnswer struct {
	Text   string  `json:"text"`
	Tokens []int32 `json:"output_ids"`
	Meta   struct {
		Finish *struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Status  int    `json:"status_code"`
		} `json:"finish_reason"`
		Prompt   int                  `json:"prompt_tokens"`
		Version  *string              `json:"weight_version"`
		Versions [][3]json.RawMessage `json:"weight_versions"`
		LogProbs []sglangLogProb      `json:"output_token_logprobs"`
		Scores   []sglangLogProb      `json:"input_token_logprobs"`
		Top      [][]sglangLogProb    `json:"input_top_logprobs"`
	} `json:"meta_info"`
}

func (g *sglang) generate(ctx context.Context, base string, r *request) (*response, error) {
	var a sglangAnswer
	if err := g.call(ctx, base, http.MethodPost, "/generate", newSGLangRequest(r), &a); err != nil {
		if s, ok := errors.AsType[*serverError](err); ok && s.status == http.StatusBadRequest {
			switch {
			case noRoom(s.detail):
				s.cause = policy.ErrNoRoom
			case r.lora && (strings.Contains(s.detail, "has never been loaded") ||
				strings.Contains(s.detail, "adapters are not loaded")):
				s.kind = ErrMissing // the server was restarted
			}
		}
		return nil, err
	}
	fail := func(kind error, format string, args ...any) (*response, error) {
		return nil, &serverError{server: base, call: "generate", kind: kind, detail: fmt.Sprintf(format, args...)}
	}
	f := a.Meta.Finish
	switch {
	case f == nil || f.Type != "stop" && f.Type != "length" && f.Type != "abort":
		return fail(ErrProtocol, "meta_info.finish_reason is %v, its type must be stop, length or abort", f)
	case f.Type == "abort" && f.Status >= 400 && f.Status < 500 && noRoom(f.Message):
		return nil, &serverError{server: base, call: "generate", status: f.Status, kind: ErrRefused,
			detail: g.hide(f.Message), cause: policy.ErrNoRoom}
	case f.Type == "abort" && f.Status == http.StatusBadRequest:
		return fail(ErrRefused, "%s", g.hide(f.Message))
	}
	out := &response{tokens: a.Tokens, text: a.Text, read: a.Meta.Prompt, stopped: f.Type == "stop",
		aborted: f.Type == "abort"}
	for _, p := range a.Meta.LogProbs {
		if err := out.addLogProb(p.Token, p.LogProb); err != nil {
			return fail(ErrProtocol, "%v", err)
		}
	}
	for _, s := range a.Meta.Versions {
		var version span
		if err := errors.Join(json.Unmarshal(s[0], &version.version), json.Unmarshal(s[1], &version.start),
			json.Unmarshal(s[2], &version.end)); err != nil {
			return fail(ErrProtocol, "meta_info.weight_versions: %v", err)
		}
		out.versions = append(out.versions, version)
	}
	if len(out.versions) == 0 && a.Meta.Version != nil {
		out.versions = []span{{*a.Meta.Version, 0, len(a.Tokens)}}
	}
	if r.scoring != nil {
		var err error
		if out.scored, err = a.scored(r); err != nil {
			return fail(ErrProtocol, "%v", err)
		}
	}
	return out, nil
}

// sglangLogProb is a token with its log-prob: the first two elements of a list.
type sglangLogProb struct {
	LogProb *float64
	Token   *int32
}

func (p *sglangLogProb) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&p.LogProb, &p.Token})
}

// scored reads the log-probs of the prompt.
func (a *sglangAnswer) scored(r *request) (*policy.Scores, error) {
	m := &a.Meta
	if len(m.Scores) != len(r.prompt) || r.scoring.top > 0 && len(m.Top) != len(r.prompt) {
		return nil, fmt.Errorf("input_token_logprobs and input_top_logprobs have %d and %d entries for %d tokens",
			len(m.Scores), len(m.Top), len(r.prompt))
	}
	return r.scored(func(i int) (own *float64, list []candidate, err error) {
		if t := m.Scores[i].Token; t == nil || *t != r.prompt[i] {
			return nil, nil, fmt.Errorf("input_token_logprobs: entry %d is not that of token %d", i, r.prompt[i])
		}
		if r.scoring.top == 0 {
			return m.Scores[i].LogProb, nil, nil
		}
		for _, c := range m.Top[i] {
			if c.Token != nil && c.LogProb != nil {
				list = append(list, candidate{*c.Token, *c.LogProb})
			}
		}
		return m.Scores[i].LogProb, list, nil
	})
}

func (g *sglang) abort(ctx context.Context, base, id string) error {
	return g.post(ctx, base, "/abort_request", map[string]any{"rid": id})
}

// sglangResult is the answer of calls that change weights.
type sglangResult struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Error   string `json:"error_message"`
}

// change makes a call that changes weights.
func (g *sglang) change(ctx context.Context, base, path string, body any) error {
	var out sglangResult
	if err := g.call(ctx, base, http.MethodPost, path, body, &out); err != nil {
		return err
	}
	if !out.Success {
		return &serverError{server: base, call: path[1:], kind: ErrRefused, detail: g.hide(out.Message + out.Error)}
	}
	return nil
}

func (g *sglang) loadAdapter(ctx context.Context, base, name, path string) error {
	return g.change(ctx, base, "/load_lora_adapter", map[string]any{"lora_name": name, "lora_path": path, "pinned": false})
}

func (g *sglang) unloadAdapter(ctx context.Context, base, name string) error {
	return g.change(ctx, base, "/unload_lora_adapter", map[string]string{"lora_name": name})
}

// reload drops the caches of the old weights. The call waits for responses in progress by itself.
func (g *sglang) reload(ctx context.Context, base, path, version string) error {
	return g.paused(ctx, base, call{"/pause_generation", map[string]string{"mode": "retract"}},
		call{"/continue_generation", map[string]bool{"torch_empty_cache": true}}, func() error {
			return g.change(ctx, base, "/update_weights_from_disk", map[string]any{
				"model_path": path, "weight_version": version, "flush_cache": true, "abort_all_requests": false,
			})
		})
}
