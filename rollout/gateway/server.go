package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/slots"
	"vagen/rollout/gateway/internal/dialect"
)

// exchange is a request and the place of its answer.
type exchange struct {
	*http.Request
	w http.ResponseWriter
	g *Gateway
	e *Episode // nil if the request asks for one
}

// handler returns the routes. The protocols are served below an episode's address and, for clients
// whose key names the episode, below /v1.
func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f func(exchange) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { exchange{r, w, g, nil}.answer(f) })
	}
	episode := func(pattern string, f func(exchange) error) {
		route(pattern, func(x exchange) (err error) {
			if x.e, err = x.find(); err != nil {
				return err
			}
			return f(x)
		})
	}
	route("POST /episodes", exchange.open)
	episode("GET /episodes/{id}", exchange.report)
	episode("POST /episodes/{id}/reward", func(x exchange) error { return x.pay(false) })
	episode("POST /episodes/{id}/finish", func(x exchange) error { return x.pay(true) })
	for _, at := range []string{"/episodes/{id}/v1", "/v1"} {
		for _, p := range []dialect.Protocol{dialect.Chat, dialect.Responses, dialect.Messages} {
			episode("POST "+at+"/"+string(p), func(x exchange) error { return x.ask(p) })
		}
		episode("POST "+at+"/messages/count_tokens", exchange.countTokens)
		for _, path := range []string{"/models", "/models/{model...}", ""} { // some clients look whether there is a server
			episode("GET "+at+path, exchange.models)
		}
	}
	route("GET /{$}", func(x exchange) error { return x.write(200, map[string]any{"object": "gateway"}) })
	route("/", func(x exchange) error {
		return failure(http.StatusNotFound, "no_route", "%s %.200q is not served; there are chat/completions, "+
			"responses, messages and models below an episode's address with /v1", x.Method, x.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > 1 {
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		}
		mux.ServeHTTP(w, r)
	})
}

// answer answers with f, or with an error in the form of the protocol that is spoken.
func (x exchange) answer(f func(exchange) error) {
	err := x.foreign()
	if err == nil {
		err = f(x)
	}
	if err == nil {
		return
	}
	e := err.(*dialect.Error) // as all are that requests get
	p := dialect.Chat         // that of Responses is the same
	if strings.Contains(x.URL.Path, "/v1/messages") {
		p = dialect.Messages
	}
	if e.Status == http.StatusTooManyRequests {
		x.w.Header().Set("Retry-After", "1")
	}
	_ = x.write(e.Status, json.RawMessage(p.Body(e)))
}

// foreign returns an error about a request of a web page, or without a token for another server.
func (x exchange) foreign() error {
	known := origin.Guard{Names: []string{origin.Host(x.g.o.Host)}, Any: x.g.o.Token != ""}
	if err := known.Check(x.Request); err != nil {
		return failure(http.StatusForbidden, "", "%v", err)
	}
	return nil
}

// find returns the episode of the request, by the address or by the key. With a token, the
// key is needed in any case.
func (x exchange) find() (*Episode, error) {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	id := x.PathValue("id")
	e := x.g.episodes[id]
	if id == "" {
		for _, key := range origin.Keys(x.Request) {
			e = cmp.Or(e, x.g.episodes[key])
		}
	}
	switch {
	case e == nil && id != "":
		return nil, failure(http.StatusNotFound, "no_episode", "there is no such episode, or it is over")
	case e == nil || x.g.o.Token != "" && !origin.HasKey(x.Request, e.Key):
		return nil, failure(http.StatusUnauthorized, "", "the key is not that of an episode")
	}
	return e, nil
}

// writeTime limits the time that a client takes to read an answer.
const writeTime = time.Minute

// write answers with JSON. It returns nil, also if the client is gone.
func (x exchange) write(status int, body any) error {
	origin.Begin(x.w, status, "application/json", writeTime)
	_ = json.NewEncoder(x.w).Encode(body)
	return nil
}

// failure is an error that is not about a field.
func failure(status int, code, format string, args ...any) error {
	return &dialect.Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// errBody is about a client that is gone, or too slow. One that still listens sends the request again.
var errBody = failure(http.StatusRequestTimeout, "", "the body did not arrive")

// readTime limits the time in which a client sends a body.
const readTime = time.Minute

// body reads the request's body of at most most bytes and calls use with it. Of an episode, one large body is in memory
// at a time: a slow client keeps out no other.
func (x exchange) body(most int64, use func(raw []byte) error) error {
	if x.e != nil && slots.Large(x.Request) {
		leave, err := x.e.body.Enter(x.Context())
		if err != nil {
			return errBody
		}
		defer leave()
	}
	raw, leave, err := x.g.bodies.ReadBody(x.w, x.Request, most, readTime)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return failure(http.StatusRequestEntityTooLarge, "", "the body has more than %d bytes", most)
	} else if err != nil {
		return errBody
	}
	defer leave()
	return use(raw)
}

// read decodes a small body, which may be empty. Unknown fields are errors.
func (x exchange) read(into any) error {
	return x.body(1<<20, func(raw []byte) error {
		if len(raw) == 0 {
			return nil
		}
		return dialect.Undecoded(jsontext.Strict(raw, into), "")
	})
}

// ask answers a request for a response.
func (x exchange) ask(p dialect.Protocol) error {
	var q *dialect.Request
	var c *call
	count := x.Header.Get("X-Stainless-Retry-Count")
	bad := x.body(x.g.o.MaxBody, func(raw []byte) (err error) {
		if q, err = p.Decode(raw); err == nil {
			c, err = x.e.ask(q, count != "" && count != "0")
		}
		return err
	})
	if bad != nil {
		if q != nil {
			x.e.mark("agent/refused")
		} else if bad != errBody {
			x.e.mark("agent/bad_requests")
		}
		return bad
	}
	delivered := false
	defer func() { x.e.left(c, delivered) }() // whatever happens, because the episode's end waits for it
	select {
	case <-c.done:
	case <-x.Context().Done():
		return nil
	}
	delivered = c.refused != nil || x.send(p, q.Form, c.answer) == nil
	return c.refused
}

// send writes an answer. An error means that it did not arrive. A client that is gone afterwards may have
// read it before.
func (x exchange) send(p dialect.Protocol, form dialect.Form, answer *dialect.Answer) error {
	if err := x.Context().Err(); err != nil {
		return err
	}
	a := *answer
	a.Form = form
	parts, kind := p.Answer(&a)
	origin.Begin(x.w, 200, kind, writeTime)
	for _, b := range parts {
		if _, err := x.w.Write(b); err != nil {
			return err
		}
	}
	return http.NewResponseController(x.w).Flush()
}

func (x exchange) models() error {
	model := map[string]any{"id": dialect.ModelName, "object": "model", "created": 0, "owned_by": "vagen", "type": "model",
		"display_name": dialect.ModelName} // the last two are Anthropic's
	if x.PathValue("model") == "" {
		model = map[string]any{"object": "list", "data": []any{model}}
	}
	return x.write(200, model)
}

// imageTokens is what countTokens counts for an image.
const imageTokens = 1000

// countTokens estimates the length of a request, a token for four bytes that are not of images.
func (x exchange) countTokens() error {
	return x.body(x.g.o.MaxBody, func(raw []byte) error {
		text, images, bad := dialect.Shorten(raw, dialect.LongString)
		if bad == nil && !json.Valid(text) {
			bad = refusal("", "not valid JSON")
		}
		if bad != nil {
			return bad
		}
		return x.write(200, map[string]any{"input_tokens": len(text)/4 + imageTokens*len(images)})
	})
}

// mark counts an event.
func (e *Episode) mark(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count(name)
}

// open gives a waiting episode to a client.
func (x exchange) open() error {
	if x.g.o.Token != "" && !origin.HasKey(x.Request, x.g.o.Token) {
		return failure(http.StatusUnauthorized, "", "the token of the gateway is missing or wrong")
	}
	var q wish
	err := x.read(&q)
	if err == nil {
		err = q.readTask()
	}
	if err != nil {
		return err
	}
	e := x.g.claim(q)
	if e == nil {
		return failure(http.StatusTooManyRequests, "no_episode",
			"no such episode waits: the policy is being trained, or all are taken")
	}
	return x.write(http.StatusCreated, e)
}

// pay records a reward, that of the episode or of a turn; with finish it is the end.
func (x exchange) pay(finish bool) error {
	var q result
	err := x.read(&q)
	switch {
	case err != nil:
	case !finish && q.Reward == nil:
		err = checkReward(nil)
	case finish && q.Answer != "":
		err = refusal("answer", "not allowed here, a turn is paid with /reward")
	default:
		err = x.e.pay(q)
	}
	if err != nil {
		return err
	}
	if finish {
		x.e.end(nil)
	}
	return x.report()
}

// report answers with what a client may know of an episode.
func (x exchange) report() error {
	x.e.mu.Lock()
	known := map[string]any{"id": x.e.ID, "turns": len(x.e.turns), "finished": x.e.ended()}
	x.e.mu.Unlock()
	return x.write(200, known)
}

// answerID is the id of an answer, also in the ids that protocols have of it, its items and its calls.
var answerID = regexp.MustCompile(`[A-Z2-7]{8}-\d+`)

// answer returns the call that an id of a protocol names, nil for none. The mutex must be held.
func (e *Episode) answer(id string) *call { return e.items[answerID.FindString(id)] }
