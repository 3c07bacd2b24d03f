package gateway

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"vagen/internal/origin"
	"vagen/internal/slots"
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
		for _, p := range []dialect.Protocol{dialect.Chat, dialect.Responses, dialect.Messages} {
			mux.HandleFunc("POST "+at+"/v1/"+string(p), g.protocol(p))
		}
		mux.HandleFunc("POST "+at+"/v1/messages/count_tokens", g.with(g.countTokens))
		for _, path := range []string{"/models", "/models/{model...}", ""} { // some clients look whether there is a server
			mux.HandleFunc("GET "+at+"/v1"+path, g.with(models))
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{"object": "gateway"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, failure(http.StatusNotFound, "no_route", "%s %.200q is not served; there are chat/completions, "+
			"responses, messages and models below an episode's address with /v1", r.Method, r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page := r.Header.Get("Origin"); page != "" || g.o.Token == "" && !origin.Loopback(r.Host) &&
			!strings.EqualFold(origin.Host(r.Host), origin.Host(g.o.Host)) {
			bad := refusal("Host", "web pages, and without a token other names than those of this machine and the option "+
				"host, are not allowed")
			bad.Status = http.StatusForbidden
			fail(w, r, bad)
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
func (g *Gateway) find(r *http.Request) (*Episode, error) {
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
		return nil, failure(http.StatusNotFound, "no_episode", "there is no such episode, or it is over")
	case e == nil || g.o.Token != "" && !holds(r, e.Key):
		return nil, failure(http.StatusUnauthorized, "", "the key is not that of an episode")
	}
	return e, nil
}

// with finds the episode of a request, and answers with the error if f returns one.
func (g *Gateway) with(f func(*Episode, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
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

// writeTime limits the time that a client takes to read an answer.
const writeTime = time.Minute

// begin begins an answer.
func begin(w http.ResponseWriter, status int, kind string) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // not supported by writers of tests
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
}

func write(w http.ResponseWriter, status int, body any) {
	begin(w, status, "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// failure is an error that is not about a field.
func failure(status int, code, format string, args ...any) error {
	return &dialect.Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// fail answers with an error, in the form of the protocol that is spoken.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	e := err.(*dialect.Error) // as all are that requests get
	p := dialect.Chat         // that of Responses is the same
	if strings.Contains(r.URL.Path, "/v1/messages") {
		p = dialect.Messages
	}
	if e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	write(w, e.Status, json.RawMessage(p.Body(e)))
}

// errBody is about a client that is gone, or too slow. One that still listens sends the request again.
var errBody = failure(http.StatusRequestTimeout, "", "the body did not arrive")

// readTime limits the time in which a client sends a body.
const readTime = time.Minute

// body reads a request's body and calls use with it. The episode is that of the request, nil if it asks for one. Of an
// episode, one large body is in memory at a time: a slow client keeps out no other.
func (g *Gateway) body(
	e *Episode, w http.ResponseWriter, r *http.Request, most int64, use func(raw []byte) error,
) error {
	if e != nil && slots.Large(r) {
		leave, err := g.enter(r.Context(), e, 1)
		if err != nil {
			return errBody
		}
		defer leave()
	}
	raw, leave, err := g.bodies.ReadBody(w, r, most, readTime)
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return failure(http.StatusRequestEntityTooLarge, "", "the body has more than %d bytes", most)
	} else if err != nil {
		return errBody
	}
	defer leave()
	return use(raw)
}

// protocol answers a request for a response.
func (g *Gateway) protocol(p dialect.Protocol) http.HandlerFunc {
	return g.with(func(e *Episode, w http.ResponseWriter, r *http.Request) error {
		var q *dialect.Request
		var c *call
		count := r.Header.Get("X-Stainless-Retry-Count")
		bad := g.body(e, w, r, g.o.MaxBody, func(raw []byte) (err error) {
			if q, err = p.Decode(raw); err == nil {
				c, err = e.ask(q, count != "" && count != "0")
			}
			return err
		})
		if q != nil && bad != nil {
			e.mark("agent/refused")
		} else if bad != nil && bad != errBody {
			e.mark("agent/bad_requests")
		}
		if bad != nil {
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

// send writes an answer. An error means that it did not arrive. A client that is gone afterwards may have
// read it before.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, p dialect.Protocol, q *dialect.Request, c *call) error {
	if err := r.Context().Err(); err != nil {
		return err
	}
	a := *c.answer
	a.Form = q.Form
	parts, kind := [][]byte{p.Encode(&a)}, "application/json"
	if q.Stream {
		parts, kind = p.Events(&a), "text/event-stream"
	}
	begin(w, 200, kind)
	for _, b := range parts {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return http.NewResponseController(w).Flush()
}

func models(_ *Episode, w http.ResponseWriter, r *http.Request) error {
	model := map[string]any{"id": dialect.ModelName, "object": "model", "created": 0, "owned_by": "vagen", "type": "model",
		"display_name": dialect.ModelName} // the last two are Anthropic's
	if r.PathValue("model") == "" {
		model = map[string]any{"object": "list", "data": []any{model}}
	}
	write(w, 200, model)
	return nil
}

// imageTokens is what countTokens counts for an image.
const imageTokens = 1000

// countTokens estimates the length of a request, a token for four bytes that are not of images.
func (g *Gateway) countTokens(e *Episode, w http.ResponseWriter, r *http.Request) error {
	return g.body(e, w, r, g.o.MaxBody, func(raw []byte) error {
		text, images, bad := dialect.Shorten(raw, dialect.LongString)
		if bad == nil && !json.Valid(text) {
			bad = refusal("", "not valid JSON")
		}
		if bad == nil {
			write(w, 200, map[string]any{"input_tokens": len(text)/4 + imageTokens*len(images)})
		}
		return bad
	})
}

// mark counts an event.
func (e *Episode) mark(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count(name)
}

// open gives a waiting episode to a client.
func (g *Gateway) open(w http.ResponseWriter, r *http.Request) {
	if g.o.Token != "" && !holds(r, g.o.Token) {
		fail(w, r, failure(http.StatusUnauthorized, "", "the token of the gateway is missing or wrong"))
		return
	}
	var q wish
	bad := g.read(nil, w, r, &q)
	if bad == nil {
		bad = q.readTask()
	}
	if bad != nil {
		fail(w, r, bad)
	} else if e := g.claim(q); e != nil {
		write(w, http.StatusCreated, e.describe())
	} else {
		fail(w, r, failure(http.StatusTooManyRequests, "no_episode",
			"no such episode waits: the policy is being trained, or all are taken"))
	}
}

// read decodes a small body, which may be empty. Unknown fields are errors.
func (g *Gateway) read(e *Episode, w http.ResponseWriter, r *http.Request, into any) error {
	return g.body(e, w, r, 1<<20, func(raw []byte) error {
		if len(raw) == 0 {
			return nil
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err := d.Decode(into)
		if _, more := d.Token(); err == nil && more != io.EOF {
			err = errors.New("there is text after the object")
		}
		return dialect.Undecoded(err, "")
	})
}

// pay records a reward, that of the episode or of a turn; with finish it is the end.
func (g *Gateway) pay(finish bool) http.HandlerFunc {
	return g.with(func(e *Episode, w http.ResponseWriter, r *http.Request) error {
		var q result
		bad := g.read(e, w, r, &q)
		switch {
		case bad != nil:
		case !finish && q.Reward == nil:
			bad = checkReward(nil)
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
func report(e *Episode, w http.ResponseWriter, _ *http.Request) error {
	e.mu.Lock()
	known := map[string]any{"id": e.id, "turns": len(e.turns), "finished": e.ended()}
	e.mu.Unlock()
	write(w, 200, known)
	return nil
}

// answerID is the id of an answer, also in the ids that protocols have of it, its items and its calls.
var answerID = regexp.MustCompile(`[A-Z2-7]{8}-\d+`)

// answer returns the call that an id of a protocol names, nil for none. The mutex must be held.
func (e *Episode) answer(id string) *call { return e.items[answerID.FindString(id)] }
