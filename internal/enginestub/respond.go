package enginestub

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"time"
)

// wanted is a request in both protocols.
type wanted struct {
	Name     string   `json:"lora_name"`
	Folder   string   `json:"model_path"`
	Version  string   `json:"weight_version"`
	Renamed  string   `json:"new_version"`
	IDs      []string `json:"request_ids"`
	Messages []struct{ Content string }
	Args     struct {
		Path string `json:"weights_path"`
	} `json:"kwargs"`

	// Of a response.
	ID    string  `json:"request_id"`
	RID   string  `json:"rid"`
	Model string  `json:"model"`
	LoRA  string  `json:"lora_path"` // name or folder
	Token []int32 `json:"token_ids"`
	Input []int32 `json:"input_ids"`
	Parts []struct {
		URL string `json:"url"`
	} `json:"content_parts"`
	Images   []string `json:"image_data"`
	Sampling struct {
		Max         int     `json:"max_tokens"`
		New         int     `json:"max_new_tokens"`
		Temperature float64 `json:"temperature"`
		TopK        int     `json:"top_k"`
		Seed        int64   `json:"seed"`
		Other       int64   `json:"sampling_seed"`
		Stop        []int32 `json:"stop_token_ids"`
		Score       *int    `json:"prompt_logprobs"`
	} `json:"sampling_params"`
	From *int `json:"logprob_start_len"`
	Top  int  `json:"top_logprobs_num"`
}

// scores reports whether log-probs of the prompt are wanted, and how many likeliest tokens.
func (q *wanted) scores() (top int, ok bool) {
	if q.Sampling.Score != nil {
		return *q.Sampling.Score, true
	}
	return q.Top, q.From != nil && *q.From == 0
}

// job reads a request; the error is one for the client.
func (s *Stub) job(q *wanted) (j Job, places [][2]int, status int, err error) {
	j = Job{Tokens: append(q.Token, q.Input...), Temperature: q.Sampling.Temperature, TopK: q.Sampling.TopK,
		Max:  max(q.Sampling.Max, q.Sampling.New),
		Seed: max(q.Sampling.Seed, q.Sampling.Other), Stop: q.Sampling.Stop}
	for _, p := range q.Parts {
		q.Images = append(q.Images, p.URL)
	}
	for _, u := range q.Images {
		_, data, _ := strings.Cut(u, "base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return j, nil, http.StatusBadRequest, err
		}
		im, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			return j, nil, http.StatusBadRequest, err
		}
		j.Images = append(j.Images, im)
	}
	for _, id := range j.Tokens {
		if id < 0 || int(id) >= s.Vocab {
			return j, nil, http.StatusBadRequest, says("Token id %d is out of vocabulary", id)
		}
	}
	if j.Tokens, places, err = s.Model.Expand(j.Tokens, j.Images); err != nil {
		return j, nil, http.StatusBadRequest, err
	}
	if len(j.Tokens)+j.Max > s.Length {
		return j, nil, http.StatusBadRequest,
			says("The decoder prompt (length %d) is longer than the maximum model length of %d", len(j.Tokens), s.Length)
	}
	j.Weights = s.weights
	name := q.LoRA
	if !s.SGLang && q.Model != s.Name {
		name = q.Model
	}
	if name != "" {
		path, ok := s.adapters[name]
		if !ok {
			if s.SGLang {
				return j, nil, http.StatusBadRequest, says("Got LoRA adapter that has never been loaded: %s", name)
			}
			return j, nil, http.StatusNotFound, says("The model `%s` does not exist.", name)
		}
		j.Adapter = path
	}
	return j, places, 0, nil
}

func (s *Stub) generate(w http.ResponseWriter, r *http.Request, q *wanted) {
	if s.rng.Float64() < s.faults.Forget {
		s.restart()
	}
	if s.fault(w, r, q.ID+q.RID) {
		return
	}
	j, places, status, err := s.job(q)
	if err != nil {
		refuse(w, status, err.Error())
		return
	}
	if top, ok := q.scores(); ok && s.MaxTop > 0 && top > s.MaxTop {
		refuse(w, http.StatusBadRequest,
			fmt.Sprintf("Requested prompt logprobs of %d, which is greater than max allowed: %d", top, s.MaxTop))
		return
	}
	s.busy++
	s.most = max(s.most, s.busy)
	version := s.version
	var tokens []int32
	var logProbs []float32
	var scores *Scores
	s.unlocked(func() {
		if top, ok := q.scores(); !ok {
			tokens, logProbs, err = s.Model.Generate(j)
		} else { // after a row that ends a turn there is nothing to generate
			tokens, logProbs = []int32{0}, []float32{-1}
			scores = new(Scores)
			*scores, err = s.Model.(Scorer).Score(j, top)
		}
	})
	s.busy--
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	finish := "length"
	if slices.Contains(j.Stop, tokens[len(tokens)-1]) {
		finish = "stop"
	}
	half := len(tokens)
	if s.rng.Float64() < s.faults.Mix {
		half /= 2
	}
	if s.rng.Float64() < s.faults.Abort {
		finish = "abort"
	}
	s.respond(w, q, &j, places, reply{tokens, logProbs, scores, finish, version, half})
}

// fault injects a fault instead of a response, and reports whether it did.
func (s *Stub) fault(w http.ResponseWriter, r *http.Request, id string) bool {
	x, f := s.rng.Float64(), &s.faults
	switch {
	case x < f.Error:
		refuse(w, http.StatusInternalServerError, "injected")
	case x < f.Error+f.Reset:
		panic(http.ErrAbortHandler)
	case x < f.Error+f.Reset+f.Garbage:
		fmt.Fprint(w, `{"choices": [{"token_ids": [1`)
	case x < f.Error+f.Reset+f.Garbage+f.Hang:
		c := make(chan struct{})
		s.aborted[id] = c
		if f.Hangs--; f.Hangs == 0 {
			f.Hang = 0
		}
		s.unlocked(func() {
			select {
			case <-c:
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		})
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// reply is what a response says.
type reply struct {
	tokens          []int32
	logProbs        []float32
	scores          *Scores // nil for none
	finish, version string
	half            int // tokens of the version; the others have another one
}

// respond writes a response in the protocol of the stub.
func (s *Stub) respond(w http.ResponseWriter, q *wanted, j *Job, places [][2]int, a reply) {
	tokens, logProbs, finish, version, half := a.tokens, a.logProbs, a.finish, a.version, a.half
	spans := [][3]any{{version, 0, half}}
	if half < len(tokens) {
		spans = append(spans, [3]any{"other", half, len(tokens)})
	}
	if s.SGLang {
		var content [][3]any
		for i, id := range tokens {
			content = append(content, [3]any{logProbs[i], id, nil})
		}
		meta := map[string]any{"finish_reason": map[string]any{"type": finish}, "prompt_tokens": len(j.Tokens),
			"weight_version": version, "output_token_logprobs": content}
		if half < len(tokens) {
			meta["weight_versions"] = spans
		}
		if a.scores != nil {
			meta["input_token_logprobs"], meta["input_top_logprobs"] = a.scores.sglang(j.Tokens)
		}
		answer(w, map[string]any{"text": s.Model.Decode(tokens), "output_ids": tokens, "meta_info": meta})
		return
	}
	var content, versions []map[string]any
	for i, id := range tokens {
		content = append(content, map[string]any{"token_id": id, "logprob": logProbs[i]})
	}
	for _, v := range spans {
		versions = append(versions, map[string]any{"version": v[0], "start": v[1], "end": v[2]})
	}
	out := map[string]any{
		"model": q.Model, "prompt_token_ids": j.Tokens, "usage": map[string]int{"prompt_tokens": len(j.Tokens)},
		"mm_placeholders": nil,
		"choices": []map[string]any{{"finish_reason": finish, "token_ids": tokens, "weight_versions": versions,
			"logprobs": map[string]any{"content": content}}},
	}
	if len(places) > 0 {
		var list []map[string]int
		for _, p := range places {
			list = append(list, map[string]int{"offset": p[0], "length": p[1]})
		}
		out["mm_placeholders"] = map[string]any{"image": list}
	}
	if a.scores != nil {
		out["prompt_logprobs"] = a.scores.vllm(j.Tokens)
	}
	answer(w, out)
}

// vllm returns the scores as vLLM does: by token, with the prompt's own.
func (x *Scores) vllm(prompt []int32) []map[int32]any {
	out := make([]map[int32]any, len(prompt))
	for i := 1; i < len(prompt); i++ {
		out[i] = map[int32]any{prompt[i]: map[string]any{"logprob": x.LogProbs[i], "rank": 1, "decoded_token": ""}}
		for k, id := range at(x.Top, i) {
			out[i][id] = map[string]any{"logprob": x.TopLogProbs[i][k], "rank": k + 1, "decoded_token": ""}
		}
	}
	return out
}

// sglang returns the scores as SGLang does: lists of log-prob, token and text.
func (x *Scores) sglang(prompt []int32) (own [][3]any, top [][][3]any) {
	own, top = make([][3]any, len(prompt)), make([][][3]any, len(prompt))
	own[0] = [3]any{nil, prompt[0], nil}
	for i := 1; i < len(prompt); i++ {
		own[i] = [3]any{x.LogProbs[i], prompt[i], nil}
		for k, id := range at(x.Top, i) {
			top[i] = append(top[i], [3]any{x.TopLogProbs[i][k], id, nil})
		}
	}
	return own, top
}

// at returns the list of a token; nil if there is none.
func at(x [][]int32, i int) []int32 {
	if i >= len(x) {
		return nil
	}
	return x[i]
}

// says returns an error with the words of the recorded server.
func says(format string, args ...any) error { return fmt.Errorf(format, args...) }
