package gateway

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"vagen/internal/origin"
	"vagen/rollout/gateway/internal/dialect"
)

// handler returns the routes. The protocols are served below an episode's address and, for clients
// whose key names the episode, below /v1.
func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /episodes", g.open)
	mux.HandleFunc("GET /episodes/{id}", g.with(report))
	mux.HandleFunc("POST /episodes/{id}/reward", g.pay(false))
	mux.HandleFunc("POST /episodes/{id}/finish", g.pay(true))
	for _, at := range []string{"/episodes/{id}", ""} {
		mux.HandleFunc("POST "+at+"/v1/chat/completions", g.protocol(dialect.Chat))
		mux.HandleFunc("POST "+at+"/v1/responses", g.protocol(dialect.Responses))
		mux.HandleFunc("POST "+at+"/v1/messages", g.protocol(dialect.Messages))
		mux.HandleFunc("POST "+at+"/v1/messages/count_tokens", g.with(g.countTokens))
		mux.HandleFunc("GET "+at+"/v1/models", g.with(models))
		mux.HandleFunc("GET "+at+"/v1/models/{model...}", g.with(models))
		mux.HandleFunc("GET "+at+"/v1", g.with(models)) // some clients look whether there is a server
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{"object": "gateway"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, &dialect.Error{Status: http.StatusNotFound, Code: "no_route",
			Message: fmt.Sprintf("%s %.200q is not served; there are chat/completions, responses, messages and models "+
				"below an episode's address with /v1", r.Method, r.URL.Path)})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page := r.Header.Get("Origin"); page != "" || g.o.Token == "" && !origin.Loopback(r.Host) &&
			!strings.EqualFold(r.Host, g.o.Host) {
			fail(w, r, &dialect.Error{Status: http.StatusForbidden, Field: "Host", Message: "web pages, and " +
				"without a token other names than those of this machine and the option host, are not allowed"})
			return
		}
		if len(r.URL.Path) > 1 {
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		}
		mux.ServeHTTP(w, r)
	})
}

// keys returns the keys of a request: anthropic-python sends one of its environment beside the episode's.
func keys(r *http.Request) []string {
	key := r.Header.Get("Authorization")
	if scheme, rest, _ := strings.Cut(key, " "); strings.EqualFold(scheme, "Bearer") {
		key = rest
	}
	return []string{r.Header.Get("X-Api-Key"), strings.TrimSpace(key)}
}

// holds reports whether a request has a key.
func holds(r *http.Request, key string) bool {
	return slices.ContainsFunc(keys(r), func(k string) bool {
		return subtle.ConstantTimeCompare([]byte(k), []byte(key)) == 1
	})
}

// find returns the episode of a request, by the address or by the key. With a token, the
// key is needed in any case.
func (g *Gateway) find(r *http.Request) (*Episode, *dialect.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := r.PathValue("id")
	e := g.episodes[id]
	if id == "" {
		for _, key := range keys(r) {
			e = cmp.Or(e, g.keys[key])
		}
	}
	switch {
	case e == nil && id != "":
		return nil, &dialect.Error{Status: http.StatusNotFound, Code: "no_episode",
			Message: "there is no such episode, or it is over"}
	case e == nil || g.o.Token != "" && !holds(r, e.Key):
		return nil, &dialect.Error{Status: http.StatusUnauthorized, Message: "the key is not that of an episode"}
	}
	return e, nil
}

// with finds the episode of a request, and answers with the error if f returns one.
func (g *Gateway) with(f func(*Episode, http.ResponseWriter, *http.Request) *dialect.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e, err := g.find(r)
		if err == nil {
			err = f(e, w, r)
		}
		if err != nil {
			fail(w, r, err)
		}
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// fail answers with an error, in the form of the protocol that is spoken.
func fail(w http.ResponseWriter, r *http.Request, e *dialect.Error) {
	p := dialect.Chat // that of Responses is the same
	if strings.Contains(r.URL.Path, "/v1/messages") {
		p = dialect.Messages
	}
	w.Header().Set("Content-Type", "application/json")
	if e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(p.Body(e)) // the client may be gone
}

// body reads a request's body.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *dialect.Error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &dialect.Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf(
			"the body has more than %d bytes", most)}
	} else if err != nil {
		return nil, refusal("", "the body could not be read: %v", err)
	}
	return raw, nil
}

// protocol answers a request for a response.
func (g *Gateway) protocol(p dialect.Protocol) http.HandlerFunc {
	return g.with(func(e *Episode, w http.ResponseWriter, r *http.Request) *dialect.Error {
		raw, bad := g.body(w, r, g.o.MaxBody)
		var q *dialect.Request
		if bad == nil {
			q, bad = p.Decode(raw)
		}
		if bad != nil {
			e.mark("agent/bad_requests")
			return bad
		}
		count := r.Header.Get("X-Stainless-Retry-Count")
		c, bad := e.ask(q, count != "" && count != "0")
		if bad != nil {
			e.mark("agent/refused")
			return bad
		}
		delivered := false
		defer func() { e.left(c, delivered) }() // whatever happens, because the episode's end waits for it
		select {
		case <-c.done:
		case <-r.Context().Done():
			return nil
		}
		delivered = c.refused != nil || g.send(w, r, p, q, c) == nil
		return c.refused
	})
}

// writeTime limits the time that a client takes to read an answer.
const writeTime = time.Minute

// send writes an answer. An error means that it did not arrive. A client that is gone afterwards may have
// read it before.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, p dialect.Protocol, q *dialect.Request, c *call) error {
	if err := r.Context().Err(); err != nil {
		return err
	}
	a := *c.node.Answer
	a.Thinking, a.Usage, a.Model = q.Thinking, q.Usage, q.Model
	if a.Model == "" {
		a.Model = modelName
	}
	if q.Encrypted {
		a.Encrypted = a.ID
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // not supported by writers of tests
	parts, kind := [][]byte{p.Encode(&a)}, "application/json"
	if q.Stream {
		parts, kind = p.Events(&a), "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	for _, b := range parts {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if err := control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// modelName is the only model.
const modelName = "policy"

func models(_ *Episode, w http.ResponseWriter, r *http.Request) *dialect.Error {
	model := map[string]any{"id": modelName, "object": "model", "created": 0, "owned_by": "vagen", "type": "model",
		"display_name": modelName} // the last two are Anthropic's
	if r.PathValue("model") == "" {
		model = map[string]any{"object": "list", "data": []any{model}}
	}
	write(w, 200, model)
	return nil
}

// imageTokens is what countTokens counts for an image.
const imageTokens = 1000

// countTokens estimates the length of a request, a token for four bytes that are not of images.
func (g *Gateway) countTokens(_ *Episode, w http.ResponseWriter, r *http.Request) *dialect.Error {
	raw, bad := g.body(w, r, g.o.MaxBody)
	if bad == nil && !json.Valid(raw) {
		bad = refusal("", "not valid JSON")
	}
	if bad != nil {
		return bad
	}
	n := len(raw)
	if q, bad := dialect.Messages.Decode(raw); bad == nil {
		for _, m := range q.Messages {
			for _, im := range m.Images {
				n += 4*imageTokens - base64.StdEncoding.EncodedLen(len(im.Data))
			}
		}
	}
	write(w, 200, map[string]any{"input_tokens": (n + 3) / 4})
	return nil
}

// mark counts an event.
func (e *Episode) mark(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count(name, 1)
}

// open gives a waiting episode to a client.
func (g *Gateway) open(w http.ResponseWriter, r *http.Request) {
	if g.o.Token != "" && !holds(r, g.o.Token) {
		fail(w, r, &dialect.Error{Status: http.StatusUnauthorized, Message: "the token of the gateway is missing or wrong"})
		return
	}
	var q wish
	bad := g.read(w, r, &q)
	if bad == nil {
		bad = q.readTask()
	}
	if bad != nil {
		fail(w, r, bad)
	} else if e := g.claim(q); e != nil {
		write(w, http.StatusCreated, e.describe())
	} else {
		fail(w, r, &dialect.Error{Status: http.StatusTooManyRequests, Code: "no_episode",
			Message: "no such episode waits: the policy is being trained, or all are taken"})
	}
}

// read decodes a small body, which may be empty. Unknown fields are errors.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, into any) *dialect.Error {
	raw, bad := g.body(w, r, 1<<20)
	if bad != nil || len(raw) == 0 {
		return bad
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return dialect.Undecoded(d.Decode(into), "")
}

// pay records a reward, that of the episode or of a turn; with finish it is the end.
func (g *Gateway) pay(finish bool) http.HandlerFunc {
	return g.with(func(e *Episode, w http.ResponseWriter, r *http.Request) *dialect.Error {
		var q result
		bad := g.read(w, r, &q)
		switch {
		case bad != nil:
		case !finish && q.Reward == nil:
			bad = refusal("reward", "missing, must be a number")
		case finish && q.Answer != "":
			bad = refusal("answer", "not allowed here, a turn is paid with /reward")
		default:
			bad = e.pay(q)
		}
		if bad != nil {
			return bad
		}
		if finish {
			e.end(nil)
		}
		return report(e, w, r)
	})
}

// report answers with what a client may know of an episode.
func report(e *Episode, w http.ResponseWriter, _ *http.Request) *dialect.Error {
	e.mu.Lock()
	known := map[string]any{"id": e.id, "turns": len(e.turns), "finished": e.state.ended()}
	e.mu.Unlock()
	write(w, 200, known)
	return nil
}

// trimID returns the id of the answer that a protocol's id names: that of an answer, an item or a call.
func trimID(id string) string {
	for _, prefix := range []string{"chatcmpl-", "resp_", "msg_", "rs_", "fc_", "call_"} {
		id = strings.TrimPrefix(id, prefix)
	}
	id, _, _ = strings.Cut(id, "_") // the number of a call
	return id
}
