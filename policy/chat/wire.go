package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vagen/policy"
)

// provider writes the requests of an API and reads its answers.
type provider interface {
	// address is the public one.
	address() string
	// path is what stands behind the base URL.
	path(model string) string
	dialect(o *Options) dialect
	authorize(h http.Header, key string)
	// render writes a message of a conversation.
	render(e entry, pic *Pictures) json.RawMessage
	body(q *request) ([]byte, error)
	// parse reads the body of an answer with status 200. Its error is a *fault if
	// the service reports a failure in it.
	parse(data []byte) (*answer, error)
}

var providers = map[API]provider{OpenAI: openAI{}, Anthropic: anthropic{}, Gemini: gemini{}}

// host returns the host of the base URL.
func (o *Options) host() string {
	base := o.BaseURL
	if base == "" {
		base = providers[o.API].address()
	}
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// public reports whether requests go to the API's public address, and in secret.
func (o *Options) public() bool {
	if o.BaseURL == "" {
		return true
	}
	u, err := url.Parse(providers[o.API].address())
	return err == nil && o.host() == u.Host && strings.HasPrefix(strings.ToLower(o.BaseURL), "https:")
}

// endpoint is where requests go.
func (o *Options) endpoint() string {
	p := providers[o.API]
	base := o.BaseURL
	if base == "" {
		base = p.address()
	}
	return strings.TrimRight(base, "/") + p.path(o.Model)
}

// dialect says what an API calls the parameters of sampling. An empty name is one
// that it does not have.
type dialect struct {
	temperature, topP, topK, minP, seed, limit, stop, logProbs string

	hottest  float64  // highest temperature; 0 for no limit
	stops    int      // most stop texts; 0 for no limit
	within   string   // the object that holds the parameters; empty is the body itself
	reserved []string // other fields of the body
}

// optional lists the fields that may be left out.
func (d *dialect) optional() []string {
	var out []string
	for _, name := range []string{d.temperature, d.topP, d.topK, d.minP, d.seed} {
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// sampling is what a request asks for.
type sampling struct {
	temperature, topP, minP float64
	topK, limit             int
	seed                    int64
}

// params returns the fields that ask for it.
func (d *dialect) params(o *Options, s sampling) map[string]any {
	p := map[string]any{}
	set := func(name string, given bool, v any) {
		if name != "" && given && !slices.Contains(o.Omit, name) {
			p[name] = v
		}
	}
	set(d.temperature, true, s.temperature)
	set(d.topP, s.topP > 0 && s.topP < 1, s.topP)
	set(d.topK, s.topK > 0, s.topK)
	set(d.minP, s.minP > 0, s.minP)
	set(d.seed, true, s.seed)
	set(d.stop, len(o.Stop) > 0, o.Stop)
	set(d.logProbs, o.LogProbs, true)
	p[d.limit] = s.limit
	return p
}

// nest puts parameters where the body has them.
func (d *dialect) nest(params map[string]any) map[string]any {
	if d.within == "" {
		return params
	}
	return map[string]any{d.within: params}
}

// check refuses sampling that the API cannot do.
func (d *dialect) check(s policy.Sampling) error {
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= 1e6):
		return fmt.Errorf("chat: Sampling.Temperature: %v must be finite and not negative", s.Temperature)
	case d.hottest > 0 && s.Temperature > d.hottest:
		return fmt.Errorf("chat: Sampling.Temperature: %v is above %v, the API's limit", s.Temperature, d.hottest)
	case s.TopK < 0:
		return fmt.Errorf("chat: Sampling.TopK: %d is negative", s.TopK)
	case s.TopK > 0 && d.topK == "":
		return fmt.Errorf("chat: Sampling.TopK: %d, but the API has no such parameter; it must be 0", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("chat: Sampling.TopP: %v is not in [0, 1]", s.TopP)
	case s.Thinking.Tokens != 0:
		return fmt.Errorf("chat: Sampling.Thinking.Tokens: %d, but nothing can be written into a response of an API; it must be 0", s.Thinking.Tokens)
	case !(s.MinP >= 0 && s.MinP < 1):
		return fmt.Errorf("chat: Sampling.MinP: %v is not in [0, 1)", s.MinP)
	case s.MinP > 0 && d.minP == "":
		return fmt.Errorf("chat: Sampling.MinP: %v, but the API has no such parameter; it must be 0", s.MinP)
	}
	return nil
}

// request is everything that a body is made of.
type request struct {
	model    string
	system   json.RawMessage // empty without one
	messages []json.RawMessage
	params   map[string]any // nested already
	extra    map[string]any
}

// assemble writes an object whose first field is a list of messages. They are
// copied as they are: with pictures they are large, and they are sent every time.
func (q *request) assemble(name string, messages []json.RawMessage, fields map[string]any) ([]byte, error) {
	maps.Copy(fields, q.params)
	if err := merge(fields, q.extra); err != nil {
		return nil, err
	}
	rest, err := encode(fields)
	if err != nil {
		return nil, err
	}
	size := len(name) + len(rest) + 8
	for _, m := range messages {
		size += len(m) + 1
	}
	out := make([]byte, 0, size)
	out = append(append(append(out, `{"`...), name...), `":[`...)
	for i, m := range messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	out = append(out, ']')
	if len(rest) > 2 {
		out = append(out, ',')
	}
	return append(out, rest[1:]...), nil
}

// merge adds src to dst, objects field by field; it changes those of dst. What is
// in both is an error.
func merge(dst, src map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(src)) {
		old, there := dst[name]
		if !there {
			dst[name] = src[name]
			continue
		}
		a, isA := old.(map[string]any)
		b, isB := src[name].(map[string]any)
		if !isA || !isB {
			return fmt.Errorf("%q is sent by the package itself", name)
		}
		if err := merge(a, b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// encode writes JSON. Tags in text stay readable.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// written is encode for values that cannot fail: structs of strings.
func written(v any) json.RawMessage {
	raw, err := encode(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// plain copies a value into maps, lists, strings and numbers.
func plain(v map[string]any) (map[string]any, error) {
	if len(v) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	return out, d.Decode(&out)
}

// answer is what the service says.
type answer struct {
	text     string
	stop     policy.Stop
	refusal  string // why nothing was written, if the service says so
	logProbs []float32
	used     tokens
	counted  bool // the service has counted tokens
}
