package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/jsontext"
	"vagen/policy"
)

// provider encodes the requests of an API and decodes its answers.
type provider interface {
	// address is the public base URL.
	address() string
	// path follows the base URL.
	path(model string) string
	dialect(o *Options) dialect
	authorize(h http.Header, key string)
	// render encodes a message of a conversation.
	render(e entry, pic *Pictures) json.RawMessage
	body(q *request) ([]byte, error)
	// parse reads the body of an answer with status 200. Its error is a *fault if
	// the service reports a failure in it.
	parse(data []byte) (*answer, error)
}

var providers = map[API]provider{OpenAI: openAI{}, Anthropic: anthropic{}, Gemini: gemini{}}

// base is the URL of the API, "" of an unknown one.
func (o *Options) base() string { return cmp.Or(o.BaseURL, o.address()) }

// address is the API's public URL, "" for an unknown one.
func (o *Options) address() string {
	if p, known := providers[o.API]; known {
		return p.address()
	}
	return ""
}

// host returns the host of the base URL.
func (o *Options) host() string {
	u, err := url.Parse(o.base())
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// public reports whether requests go to the API's public address, encrypted.
func (o *Options) public() bool {
	u, err := url.Parse(o.address())
	return err == nil && u.Host != "" && o.host() == u.Host && strings.HasPrefix(strings.ToLower(o.base()), "https:")
}

// endpoint is the URL of requests.
func (o *Options) endpoint() string {
	return strings.TrimRight(o.base(), "/") + providers[o.API].path(o.Model)
}

// dialect has an API's names of sampling parameters. An empty name is a parameter
// that the API does not have.
type dialect struct {
	temperature, topP, topK, minP, seed, limit, stop, logProbs string

	maxTemperature float64  // highest temperature; 0 for no limit
	stops          int      // most stop texts; 0 for no limit
	object         string   // the object that holds the parameters; empty is the body itself
	reserved       []string // other fields of the body
}

func absent(name string) bool { return name == "" }

// optional lists the fields that may be left out.
func (d *dialect) optional() []string {
	return slices.DeleteFunc([]string{d.temperature, d.topP, d.topK, d.minP, d.seed}, absent)
}

// sampling has the sampling parameters of a request.
type sampling struct {
	temperature, topP, minP float64
	topK, limit             int
	seed                    int64
}

// params returns the fields of a request's body for the sampling.
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

// nest puts parameters into the object of the body that holds them.
func (d *dialect) nest(params map[string]any) map[string]any {
	if d.object == "" {
		return params
	}
	return map[string]any{d.object: params}
}

// check refuses sampling that the API does not support.
func (d *dialect) check(s policy.Sampling) error {
	if err := s.Check(); err != nil {
		return err
	}
	switch {
	case d.maxTemperature > 0 && s.Temperature > d.maxTemperature:
		return fmt.Errorf("%w: temperature is %v, above %v, the API's limit", policy.ErrSampling, s.Temperature,
			d.maxTemperature)
	case s.TopK > 0 && d.topK == "":
		return fmt.Errorf("%w: top-k is %d, but the API has no such parameter; it must be 0", policy.ErrSampling, s.TopK)
	case s.Thinking.Tokens != 0:
		return fmt.Errorf("%w: Thinking.Tokens is %d, but an API's responses cannot be forced; it must be 0",
			policy.ErrSampling, s.Thinking.Tokens)
	case s.MinP > 0 && d.minP == "":
		return fmt.Errorf("%w: min-p is %v, but the API has no such parameter; it must be 0", policy.ErrSampling, s.MinP)
	}
	return nil
}

// request has all parts of a request's body.
type request struct {
	model    string
	system   json.RawMessage // empty without one
	messages []json.RawMessage
	params   map[string]any // nested already
	extra    map[string]any
}

// assemble encodes an object whose first field is a list of messages. The encoded
// messages are copied without decoding: with images they are large, and they are sent
// every time.
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

// merge adds src to dst, objects recursively; it changes those of dst. A field in both
// is an error.
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
			return fmt.Errorf("%q is a parameter that this package sets itself; remove it", name)
		}
		if err := merge(a, b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// encode encodes JSON without escaping <, > and &.
func encode(v any) (json.RawMessage, error) { return jsontext.Append(nil, v) }

// mustEncode is encode for values that cannot fail: structs of strings.
func mustEncode(v any) json.RawMessage {
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

// answer is a decoded answer of the service.
type answer struct {
	text      string
	reasoning string // apart from text
	stop      policy.Stop
	refusal   string // the service's reason for an empty text, if it gives one
	logProbs  []float32
	used      tokens
	counted   bool // the service has counted tokens
}
