package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"vagen/policy"
)

// vllm is the protocol of vLLM 0.32, started with --enable-scale-out.
type vllm struct {
	*wire
	model string // Options.Model
}

func (v *vllm) describe(ctx context.Context, base string) (*description, error) {
	if err := v.call(ctx, base, http.MethodGet, "/health", nil, nil); err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			Length int     `json:"max_model_len"`
		} `json:"data"`
	}
	if err := v.call(ctx, base, http.MethodGet, "/v1/models", nil, &list); err != nil {
		return nil, err
	}
	d := &description{adapters: []string{}}
	var bases []string
	for _, m := range list.Data {
		if m.Parent != nil {
			d.adapters = append(d.adapters, m.ID)
			continue
		}
		if bases = append(bases, m.ID); v.model == "" || m.ID == v.model {
			d.model, d.length = m.ID, m.Length
		}
	}
	if d.model == "" || v.model == "" && len(bases) != 1 {
		return nil, &serverError{server: base, call: "v1/models", kind: ErrModel,
			detail: fmt.Sprintf("the served models are %q, Options.Model is %q", bases, v.model)}
	}
	var info struct {
		Version string `json:"weight_version"`
	}
	err := v.call(ctx, base, http.MethodGet, "/weight_info", nil, &info)
	d.version = info.Version
	return d, v.needs(err, "VLLM_SERVER_DEV_MODE=1")
}

// needs explains errors of calls that exist only if the server was started with a flag.
func (v *vllm) needs(err error, flag string) error {
	var s *serverError
	if errors.As(err, &s) && (s.status == http.StatusNotFound || s.status == http.StatusMethodNotAllowed ||
		s.status == http.StatusForbidden) {
		s.kind = ErrAccess
		s.detail = "start vLLM with " + flag + ": " + s.detail
	}
	return err
}

func (v *vllm) tokens(ctx context.Context, base, model, text string, template map[string]any) ([]int32, error) {
	var out struct {
		Tokens []int32 `json:"tokens"`
	}
	body := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": text}},
		"add_generation_prompt": true}
	if len(template) > 0 {
		body["chat_template_kwargs"] = template
	}
	err := v.call(ctx, base, http.MethodPost, "/tokenize", body, &out)
	if err == nil && out.Tokens == nil {
		err = &serverError{server: base, call: "tokenize", kind: ErrProtocol, detail: "no tokens"}
	}
	return out.Tokens, err
}

// vllmRequest is the body of /inference/v1/generate.
type vllmRequest struct {
	ID       string         `json:"request_id,omitempty"`
	Model    string         `json:"model"`
	Tokens   []int32        `json:"token_ids"`
	Parts    []vllmPart     `json:"content_parts,omitempty"`
	Sampling map[string]any `json:"sampling_params"`
	Return   bool           `json:"return_token_ids"`
}

type vllmPart struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

func newVLLMRequest(r *request) *vllmRequest {
	b := &vllmRequest{ID: r.id, Model: r.model, Tokens: r.tokens, Return: true}
	for _, u := range r.urls {
		b.Parts = append(b.Parts, vllmPart{"image_url", u})
	}
	b.Sampling = map[string]any{
		"max_tokens": r.max, "temperature": r.Temperature, "seed": int64(r.seed >> 1), "logprobs": 0,
		"stop_token_ids": r.stop, "ignore_eos": true, // the end tokens are among stop_token_ids
	}
	if r.TopP > 0 && r.TopP < 1 {
		b.Sampling["top_p"] = r.TopP
	}
	if r.TopK > 0 {
		b.Sampling["top_k"] = r.TopK
	}
	if r.MinP > 0 {
		b.Sampling["min_p"] = r.MinP
	}
	if r.scoring != nil {
		b.Sampling["prompt_logprobs"] = r.scoring.top
	}
	return b
}

// vllmAnswer is the answer of /inference/v1/generate.
type vllmAnswer struct {
	Model  string  `json:"model"`
	Prompt []int32 `json:"prompt_token_ids"`
	Scores []map[int32]struct {
		LogProb *float64 `json:"logprob"`
	} `json:"prompt_logprobs"`
	Places map[string][]struct {
		Offset int `json:"offset"`
		Length int `json:"length"`
	} `json:"mm_placeholders"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	} `json:"usage"`
	Choices []struct {
		Finish   string  `json:"finish_reason"`
		Tokens   []int32 `json:"token_ids"`
		Versions []struct {
			Version string `json:"version"`
			Start   int    `json:"start"`
			End     int    `json:"end"`
		} `json:"weight_versions"`
		LogProbs *struct {
			Content []struct {
				Token   *int32   `json:"token_id"`
				LogProb *float64 `json:"logprob"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
}

func (v *vllm) generate(ctx context.Context, base string, r *request) (*response, error) {
	var a vllmAnswer
	const path = "/inference/v1/generate"
	if err := v.call(ctx, base, http.MethodPost, path, newVLLMRequest(r), &a); err != nil {
		if s, ok := errors.AsType[*serverError](err); ok {
			if s.status == http.StatusBadRequest && noRoom(s.detail) {
				s.cause = policy.ErrNoRoom
			}
			if s.status == http.StatusBadRequest && r.scoring != nil && strings.Contains(s.detail, "logprobs") {
				s.detail = fmt.Sprintf("start vLLM with --max-logprobs %d: %s", r.scoring.top, s.detail)
			}
			if s.status == http.StatusForbidden {
				s.detail = "start vLLM with --enable-scale-out: " + s.detail
			}
		}
		return nil, err
	}
	fail := func(format string, args ...any) (*response, error) {
		return nil, &serverError{server: base, call: "inference/v1/generate", kind: ErrProtocol, detail: fmt.Sprintf(format, args...)}
	}
	if len(a.Choices) != 1 {
		return fail("%d choices, must be one", len(a.Choices))
	}
	c := a.Choices[0]
	out := &response{tokens: c.Tokens, model: a.Model, prompt: a.Prompt, read: a.Usage.Prompt, stopped: c.Finish == "stop", aborted: c.Finish == "abort"}
	if c.Finish != "stop" && c.Finish != "length" && c.Finish != "abort" {
		return fail("finish_reason is %q, must be stop, length or abort", c.Finish)
	}
	if a.Prompt == nil {
		return fail("prompt_token_ids is missing")
	}
	if len(c.Tokens) > 0 && c.LogProbs == nil {
		return fail("logprobs is missing")
	}
	if c.LogProbs != nil {
		for _, x := range c.LogProbs.Content {
			if err := out.addLogProb(x.Token, x.LogProb); err != nil {
				return fail("%v", err)
			}
		}
	}
	for _, s := range c.Versions {
		out.versions = append(out.versions, span{s.Version, s.Start, s.End})
	}
	if len(r.places) > 0 {
		out.places = []placeholder{}
	}
	for _, p := range a.Places["image"] {
		out.places = append(out.places, placeholder{p.Offset, p.Length})
	}
	if r.scoring != nil {
		var err error
		if out.scored, err = a.scored(r); err != nil {
			return fail("prompt_logprobs: %v", err)
		}
	}
	return out, nil
}

// scored reads the log-probs of the prompt.
func (a *vllmAnswer) scored(r *request) (*policy.Scores, error) {
	if len(a.Scores) != len(r.prompt) {
		return nil, fmt.Errorf("%d entries for %d tokens", len(a.Scores), len(r.prompt))
	}
	return r.scored(func(i int) (own *float64, list []candidate, err error) {
		for id, x := range a.Scores[i] {
			if id == r.prompt[i] {
				own = x.LogProb
			}
			if x.LogProb != nil {
				list = append(list, candidate{id, *x.LogProb})
			}
		}
		return own, list, nil
	})
}

func (v *vllm) abort(ctx context.Context, base, id string) error {
	// The server puts the name of the call before the id.
	return v.post(ctx, base, "/abort_requests", map[string]any{"request_ids": []string{"generate-tokens-" + id}})
}

func (v *vllm) loadAdapter(ctx context.Context, base, name, path string) error {
	err := v.post(ctx, base, "/v1/load_lora_adapter", map[string]string{"lora_name": name, "lora_path": path})
	var s *serverError
	if errors.As(err, &s) && s.status == http.StatusNotFound && s.detail == "Not Found" {
		return v.needs(err, "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 --enable-lora")
	}
	return err
}

func (v *vllm) unloadAdapter(ctx context.Context, base, name string) error {
	return v.post(ctx, base, "/v1/unload_lora_adapter", map[string]string{"lora_name": name})
}

// reload names the version only after the caches of the old weights are gone.
func (v *vllm) reload(ctx context.Context, base, path, version string) error {
	err := v.paused(ctx, base, call{"/pause?mode=wait", nil}, call{"/resume", nil}, func() error {
		err := v.post(ctx, base, "/collective_rpc", map[string]any{"method": "reload_weights", "kwargs": map[string]any{
			"weights_path": path}})
		if err == nil {
			err = v.post(ctx, base, "/reset_prefix_cache", nil)
		}
		if err == nil {
			err = v.post(ctx, base, "/update_weight_version", map[string]string{"new_version": version})
		}
		return err
	})
	return v.needs(err, "VLLM_SERVER_DEV_MODE=1")
}
