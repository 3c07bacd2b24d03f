package openenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"vagen/internal/origin"
)

// route sets the routes.
func (s *Server) route() {
	s.mux = http.NewServeMux()
	handle := func(method, path string, f http.HandlerFunc) {
		s.mux.HandleFunc(method+" "+path, f)
		s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", method)
			s.reply(w, http.StatusMethodNotAllowed, refusal{"Method Not Allowed"})
		})
	}
	always := func(status int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { s.reply(w, status, v) }
	}
	s.mux.HandleFunc("/", always(http.StatusNotFound, refusal{"Not Found"}))
	s.mux.HandleFunc("/{env}/{tasks}", func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("env"); name != s.hosted.Name {
			s.reply(w, http.StatusNotFound, refusal{fmt.Sprintf("unknown environment '%s'", clip(name))})
			return
		}
		s.reply(w, http.StatusNotImplemented, refusal{"the environment has no tasks"})
	})
	handle("GET", "/ws", s.connect)
	for path, v := range map[string]any{
		"/health": map[string]string{"status": "healthy"},
		"/metadata": map[string]any{"name": s.hosted.Name, "description": s.hosted.About, "readme_content": s.prompt,
			"version": "1.0.0", "author": nil, "documentation_url": nil},
		"/schema":            json.RawMessage(schemas),
		"/openapi.json":      json.RawMessage(fmt.Sprintf(openAPI, s.hosted.Name)),
		"/state":             map[string]any{"episode_id": nil, "step_count": 0},
		"/list_environments": []string{s.hosted.Name},
	} {
		handle("GET", path, always(http.StatusOK, v))
	}
	handle("GET", "/openenv.yaml", func(w http.ResponseWriter, _ *http.Request) {
		origin.Begin(w, http.StatusOK, "application/yaml", s.o.WriteTimeout)
		fmt.Fprintf(w, manifest, s.hosted.Name)
	})
	handle("POST", "/mcp", s.posted(func(v any, err error) (int, any) { return http.StatusOK, answerMCP(v, err) }))
	handle("POST", "/reset", s.posted(func(v any, _ error) (int, any) {
		q, bad := parseReset(v)
		return s.once(bad, func(one *session) (any, error) { return one.reset(q) })
	}))
	handle("POST", "/step", s.posted(s.stepOnce))
}

// manifest is the file openenv.yaml of a container, with what 0.10.0's conformance test of a folder
// asks for. The environment's name is its tag, within which results may be compared.
const manifest = `spec_version: 1
name: %[1]q
version: 1.0.0
type: space
runtime: fastapi
app: vagen serve --protocol openenv
port: 8000
validation:
  reward:
    range: [-1000000.0, 1000000.0] # of a turn; the options decide, narrow it to what yours pay
    oracle_tolerance: 0.0
    floor_margin: 0.1
  resources:
    cpu: 1.0
    memory_mb: 1024
    disk_mb: 512
    episode_timeout_s: 3600.0
  capabilities:
    verifier:
      kind: reward_channel
  types:
    tags: [%[1]q]
`

func (s *Server) reply(w http.ResponseWriter, status int, v any) {
	origin.Begin(w, status, "application/json", s.o.WriteTimeout)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("response not sent", "err", err)
	}
}

// refusal is the body of an error over HTTP; its detail is a text or a list of problems.
type refusal struct {
	Detail any `json:"detail"`
}

// posted reads a request's body within the limit, and answers with what f returns for it: its JSON, null for an empty
// body, and the text of one that is no JSON, with the error.
func (s *Server) posted(f func(v any, err error) (status int, answer any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, leave, err := s.bodies.ReadBody(w, r, s.o.Limits.Body, s.o.ReadTimeout)
		if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
			why := fmt.Sprintf("the body is longer than the limit of %d bytes", tooLong.Limit)
			s.reply(w, http.StatusRequestEntityTooLarge, refusal{why})
			return
		} else if err != nil {
			return // the client has disconnected
		}
		v, err := read(raw)
		if err != nil && len(raw) > 0 {
			v = string(raw)
		}
		leave()
		status, answer := f(v, err)
		s.reply(w, status, answer)
	}
}

// stepOnce plays one turn of a new episode, because HTTP has no sessions.
func (s *Server) stepOnce(v any, _ error) (int, any) {
	o, bad := parseObject(v, "action")
	action, ok := o["action"]
	var response string
	if bad == nil && !ok {
		bad = []problem{wrong("missing", "action", v)}
	} else if bad == nil {
		response, bad = parseAction(action)
	}
	return s.once(bad, func(one *session) (any, error) {
		if _, err := one.reset(resetRequest{}); err != nil {
			return nil, err
		}
		return one.step(response)
	})
}

// once makes a call of a new environment.
func (s *Server) once(bad []problem, f func(*session) (any, error)) (int, any) {
	if bad != nil {
		for i := range bad {
			bad[i].Loc = append([]any{"body"}, bad[i].Loc...)
		}
		return http.StatusUnprocessableEntity, refusal{bad}
	}
	if refused := s.reserve(); refused != nil {
		return http.StatusServiceUnavailable, refusal{refused.Message}
	}
	defer s.release()
	one := s.session(nil)
	defer one.free()
	var err error
	var v any
	if one.env, err = guarded(one, s.hosted.open); err == nil {
		v, err = f(one)
	}
	if err != nil {
		return http.StatusInternalServerError, refusal{err.Error()}
	}
	return http.StatusOK, v
}

// schemas is the answer to GET /schema.
const schemas = `{
	"action": {
		"title": "Action", "description": "What the model wrote.", "type": "object", "additionalProperties": false,
		"required": ["response"], "properties": {
			"response": {"type": "string",
				"description": "the model's whole response, as readme_content of /metadata describes"},
			"metadata": {"type": "object", "description": "Additional metadata", "additionalProperties": true}
		}
	},
	"observation": {
		"title": "Observation", "description": "What the agent is shown.", "type": "object", "additionalProperties": false,
		"required": ["text"], "properties": {
			"text": {"type": "string", "description": "with a mark <image> for each image"},
			"images": {"type": "array", "description": "the images of the marks <image> in text, in base64",
				"items": {"type": "string", "contentEncoding": "base64"}},
			"metadata": {"type": "object", "description": "Additional metadata", "additionalProperties": true},
			"reward": {"type": ["number", "null"], "default": null},
			"done": {"type": "boolean", "description": "the episode has ended"}
		}
	},
	"state": {
		"title": "State", "description": "Of the session.", "type": "object", "additionalProperties": true,
		"required": [], "properties": {
			"episode_id": {"type": ["string", "null"], "default": null},
			"step_count": {"type": "integer", "description": "turns played"}
		}
	}
}`

// openAPI is the answer to GET /openapi.json: the routes that 0.10.0's conformance test looks for.
const openAPI = `{
	"openapi": "3.1.0", "info": {"title": %q, "version": "1.0.0"}, "paths": {
		"/health": {"get": {"responses": {"200": {"description": "OK"}}}},
		"/metadata": {"get": {"responses": {"200": {"description": "OK"}}}},
		"/schema": {"get": {"responses": {"200": {"description": "OK"}}}},
		"/state": {"get": {"responses": {"200": {"description": "OK"}}}},
		"/list_environments": {"get": {"responses": {"200": {"description": "OK"}}}},
		"/reset": {"post": {"responses": {"200": {"description": "OK"}}}},
		"/step": {"post": {"responses": {"200": {"description": "OK"}}}},
		"/mcp": {"post": {"responses": {"200": {"description": "OK"}}}}
	}
}`
