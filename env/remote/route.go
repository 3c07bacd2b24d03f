package remote

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"vagen/internal/origin"
)

// route is how a path is answered.
type route struct {
	name   string // in metrics
	verb   string // the method that is allowed
	handle handler
	html   bool // routing errors are HTML pages, as in the legacy service
	public bool // needs no key
}

// handler answers a request. id is the environment's name at the end of the path, if
// the route has one.
type handler func(s *Server, r *http.Request, id string, b body) reply

// body is the body of a request.
type body struct {
	raw  []byte
	free func() // its decoder calls it; further calls do nothing
}

// reply is a complete response.
type reply struct {
	status int
	kind   string // Content-Type
	body   []byte
	allow  string // header of status 405
}

// route sets the routes of the protocols that are served.
func (s *Server) route() {
	s.routes = map[string]route{}
	add := func(verb, path string, h handler) { s.routes[path] = route{name: path, verb: verb, handle: h} }
	add(http.MethodGet, "/metrics", (*Server).serveMetrics)
	if s.o.Lite != nil || s.o.Legacy != nil {
		s.routes["/health"] = route{name: "/health", verb: http.MethodGet, handle: (*Server).health, public: true}
	}
	if s.o.Lite != nil {
		add(http.MethodGet, "/sessions", (*Server).listSessions)
		add(http.MethodPost, "/connect", (*Server).connect)
		add(http.MethodPost, "/call", (*Server).call)
	}
	if s.o.Legacy == nil {
		return
	}
	for path, h := range map[string]handler{
		"/environments":        (*Server).create,
		"/batch/reset":         batch("ids2seeds", "results", mapping, (*Server).resetBatch),
		"/batch/step":          batch("ids2actions", "results", mapping, (*Server).stepBatch),
		"/batch/reward":        batch("env_ids", "rewards", idList, (*Server).rewardBatch),
		"/batch/system_prompt": batch("env_ids", "system_prompts", idList, (*Server).systemBatch),
		"/batch/close":         batch("env_ids", "status", idList, (*Server).closeBatch),
	} {
		s.routes[path] = route{name: path, verb: http.MethodPost, handle: h, html: true}
	}
	for path, rt := range map[string]route{
		"/reset/": {verb: http.MethodPost, handle: entry("", "seed", (*Server).resetBatch, "observation", "info")},
		"/step/": {verb: http.MethodPost, handle: entry("action", "action", (*Server).stepBatch, "observation", "reward",
			"done", "info")},
		"/reward/":        {verb: http.MethodGet, handle: single("reward", (*Server).rewardBatch)},
		"/system_prompt/": {verb: http.MethodGet, handle: single("system_prompt", (*Server).systemBatch)},
		"/close/":         {verb: http.MethodDelete, handle: (*Server).oneClose},
	} {
		rt.name, rt.html = path+"ID", true
		s.routes[path] = rt
	}
}

// find returns the route of a path and the environment's name in it.
func (s *Server) find(path string) (rt route, id string, ok bool) {
	at := strings.LastIndexByte(path, '/') + 1
	if rt, ok = s.routes[path]; ok && at < len(path) {
		return rt, "", true
	}
	if rt, ok = s.routes[path[:at]]; ok && at < len(path) {
		return rt, path[at:], true
	}
	return route{name: "other", html: s.o.Lite == nil, public: true}, "", false
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.stop == nil {
		http.Error(w, errZero.Error(), http.StatusInternalServerError)
		return
	}
	start := time.Now()
	rt, id, known := s.find(r.URL.Path)
	if !known && s.o.Other != nil {
		rt = route{name: "other", public: r.URL.Path == "/health"}
		if refused := s.refuse(r, rt); refused != nil {
			s.write(w, rt, *refused)
			return
		}
		s.limitBody(w, r)
		s.o.Other.ServeHTTP(w, r)
		return
	}
	a, err := s.answer(w, r, rt, id, known)
	if err != nil {
		// The client has disconnected or its body is invalid: no response is possible.
		s.log.Debug("request aborted", "route", rt.name, "err", err)
		panic(http.ErrAbortHandler)
	}
	s.metrics.countRequest(rt.name, r.Method, a.status, len(a.body))
	now := time.Now()
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.Debug("request answered", "method", r.Method, "route", rt.name, "status", a.status, "took", now.Sub(start))
	}
	s.write(w, rt, a)
}

// write sends a reply.
func (s *Server) write(w http.ResponseWriter, rt route, a reply) {
	head := w.Header()
	values := [...]string{a.kind, strconv.Itoa(len(a.body)), "vagen"}
	head["Content-Type"], head["Content-Length"], head["Server"] = values[0:1:1], values[1:2:2], values[2:3:3]
	if a.allow != "" {
		head.Set("Allow", a.allow)
	}
	// A client that does not read must not keep the connection open.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body); err != nil {
		s.log.Debug("response not sent", "route", rt.name, "err", err)
	}
}

// answer computes the reply to a request. An error means that none can be sent.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, rt route, id string, known bool) (reply, error) {
	if !known {
		return routingError(rt, http.StatusNotFound), nil
	}
	if r.Method != rt.verb {
		a := routingError(rt, http.StatusMethodNotAllowed)
		a.allow = rt.verb
		return a, nil
	}
	if refused := s.refuse(r, rt); refused != nil {
		s.limitBody(w, r)
		return *refused, nil
	}
	raw, free, err := s.bodies.ReadBody(w, r, s.o.Limits.Body, s.o.ReadTimeout)
	if err != nil {
		if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
			s.metrics.refused("size")
			return detail(http.StatusRequestEntityTooLarge,
				fmt.Sprintf("the body is longer than the limit of %d bytes", tooLong.Limit)), nil
		}
		return reply{}, err
	}
	defer free()
	a := rt.handle(s, r, id, body{raw, free})
	if a.status == 0 {
		return a, errDisconnected
	}
	return a, nil
}

// limitBody limits the time in which a body arrives, even if it is not read: net/http waits for it.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// not supported by httptest.ResponseRecorder
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.ReadTimeout))
	}
}

// refuse checks Host, Origin and key; nil allows the request.
func (s *Server) refuse(r *http.Request, rt route) *reply {
	known := origin.Guard{Names: s.o.Hosts, Any: s.o.APIKey != "" && len(s.o.Hosts) == 0}
	if err := known.Check(r); err != nil && !rt.public {
		s.metrics.refused("origin")
		s.log.Warn("request refused", "route", rt.name, "from", r.RemoteAddr, "err", err)
		refused := detail(http.StatusForbidden, "remote: "+err.Error())
		return &refused
	}
	if !rt.public && !s.authorized(r) {
		s.metrics.refused("key")
		s.log.Warn("request without a valid key", "route", rt.name, "from", r.RemoteAddr)
		refused := detail(http.StatusUnauthorized, "unauthorized")
		return &refused
	}
	return nil
}
