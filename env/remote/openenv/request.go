package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"vagen/env/remote/internal/pyjson"
	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/transport"
)

// Codes of errors.
const (
	invalidJSON     = "INVALID_JSON"
	unknownType     = "UNKNOWN_TYPE"
	validationError = "VALIDATION_ERROR"
	executionError  = "EXECUTION_ERROR"
	capacityReached = "CAPACITY_REACHED"
	factoryError    = "FACTORY_ERROR"
	sessionError    = "SESSION_ERROR"
)

// fault is the data of an error.
type fault struct {
	Message string    `json:"message"`
	Code    string    `json:"code"`
	Errors  []problem `json:"errors,omitempty"`
	Active  int       `json:"active_sessions,omitempty"`
	Max     int       `json:"max_sessions,omitempty"`
}

// problem is a field of a request that is not allowed, in the form of pydantic.
type problem struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
}

func (p problem) String() string {
	at := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Loc), "[]"), " ", ".")
	return fmt.Sprintf("%s: %s, found %s", at, p.Msg, jsontext.Shown(p.Input))
}

// request is a frame of a client.
type request struct {
	kind     string
	data     any // of mcp
	reset    resetRequest
	response string
}

type resetRequest struct {
	seed    *int64
	episode string
}

// Limits on what of a request is repeated in an answer or kept: bytes of a value, and wrong fields; and bytes of the id
// of an episode.
const (
	maxInput    = 200
	maxProblems = 8
	maxEpisode  = 1000
)

// wants are the texts of problems by their types.
var wants = map[string]string{
	"missing": "Field required", "extra_forbidden": "Extra inputs are not permitted",
	"string_type": "Input should be a valid string", "dict_type": "Input should be a valid dictionary",
	"int_parsing":     "Input should be a valid integer from 0 to 9223372036854775807",
	"string_too_long": fmt.Sprintf("String should have at most %d bytes", maxEpisode),
}

func wrong(kind, name string, in any) problem {
	return problem{kind, []any{clip(name)}, wants[kind], repeated(in)}
}

// repeated is a value of a request in an answer: one that is long, or that JSON cannot express, is the beginning of its
// text.
func repeated(v any) any {
	text, _ := pyjson.Append(nil, v, pyjson.Plain) // what was read can be written
	if len(text) > maxInput || !json.Valid(text) {
		return clip(string(text))
	}
	return v
}

// stepTokens are what a step has before its response if it has nothing else.
var stepTokens = []string{"{", `"type"`, ":", `"step"`, ",", `"data"`, ":", "{", `"response"`, ":"}

const whiteSpace = " \t\r\n"

// parseStep reads the most frequent frame, a step with only a response, in a quarter of the time
// of parseAny, which reads all others.
func parseStep(raw []byte) (response string, ok bool) {
	for _, token := range stepTokens {
		if raw, ok = bytes.CutPrefix(bytes.TrimLeft(raw, whiteSpace), []byte(token)); !ok {
			return "", false
		}
	}
	for range 2 {
		if raw, ok = bytes.CutSuffix(bytes.TrimRight(raw, whiteSpace), []byte("}")); !ok {
			return "", false
		}
	}
	return jsontext.Text(bytes.Trim(raw, whiteSpace)) // more than the value of response is no JSON here
}

// parse reads a frame. Bytes that are not UTF-8 are read as U+FFFD.
func parse(raw []byte) (request, *fault) {
	if response, ok := parseStep(raw); ok {
		return request{kind: "step", response: response}, nil
	}
	return parseAny(raw)
}

func parseAny(raw []byte) (m request, refused *fault) {
	v, err := read(raw)
	o, isObject := v.(map[string]any)
	switch {
	case err != nil:
		return m, &fault{Code: invalidJSON, Message: "Invalid JSON: " + err.Error()}
	case !isObject:
		return m, &fault{Code: sessionError, Message: "a message must be an object, found " + clip(string(raw))}
	}
	m.kind, _ = o["type"].(string)
	if !slices.Contains([]string{"reset", "step", "state", "mcp", "close"}, m.kind) {
		return m, &fault{Code: unknownType, Message: "Unknown message type: " + clip(m.kind)}
	}
	data, given := o["data"]
	known := []string{"type", "data"}
	if m.kind == "state" || m.kind == "close" {
		known = known[:1]
	}
	bad := extra(o, known...)
	if !given && (m.kind == "step" || m.kind == "mcp") {
		bad = append(bad, wrong("missing", "data", o))
	}
	if bad == nil {
		switch m.kind {
		case "reset":
			m.reset, bad = parseReset(data)
		case "step":
			m.response, bad = parseAction(data)
		case "mcp":
			m.data = data
		}
	}
	if bad != nil {
		return m, &fault{Code: validationError, Message: "Invalid message", Errors: bad}
	}
	return m, nil
}

// read decodes JSON. Bytes that are not UTF-8 are U+FFFD.
func read(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		raw = []byte(string([]rune(string(raw))))
	}
	return pyjson.Parse(raw)
}

// extra lists the first fields of an object that are not known.
func extra(o map[string]any, known ...string) (bad []problem) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, name) && len(bad) < maxProblems {
			bad = append(bad, wrong("extra_forbidden", name, o[name]))
		}
	}
	return bad
}

// parseObject reads an object, empty for null.
func parseObject(v any, name string) (map[string]any, []problem) {
	o, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, []problem{wrong("dict_type", name, v)}
	}
	return o, nil
}

// parseReset reads the data of a reset. Unknown fields are ignored, as in 0.10.0.
func parseReset(data any) (r resetRequest, bad []problem) {
	o, bad := parseObject(data, "data")
	if v := o["seed"]; v != nil {
		given := v
		if digits, isText := v.(string); isText {
			given = json.Number(digits)
		}
		n, ok := field.Rules{}.Whole(given)
		if !ok || n < 0 {
			bad = append(bad, wrong("int_parsing", "seed", v))
		}
		r.seed = &n
	}
	if v := o["episode_id"]; v != nil {
		var ok bool
		if r.episode, ok = v.(string); !ok {
			bad = append(bad, wrong("string_type", "episode_id", v))
		} else if len(r.episode) > maxEpisode { // a session keeps it
			bad = append(bad, wrong("string_too_long", "episode_id", v))
		}
	}
	return r, bad
}

// parseAction reads an action.
func parseAction(data any) (response string, bad []problem) {
	o, bad := parseObject(data, "data")
	if bad != nil {
		return "", bad
	}
	v, given := o["response"]
	response, ok := v.(string)
	if !given {
		bad = append(bad, wrong("missing", "response", data))
	} else if !ok {
		bad = append(bad, wrong("string_type", "response", v))
	}
	if m, given := o["metadata"]; given && jsontext.Object(m) == nil {
		bad = append(bad, wrong("dict_type", "metadata", m))
	}
	return response, append(bad, extra(o, "response", "metadata")...)
}

// clip shortens text for messages.
func clip(s string) string { return transport.Clip(s, maxInput) }

// shown is the beginning of a value, for messages.
func shown(v any) string { return clip(jsontext.Shown(v)) }

// answerMCP answers a request of JSON-RPC, as read returns it: the environments have no tools.
func answerMCP(v any, err error) map[string]any {
	code, message := -32603, "Environment does not support MCP"
	q := jsontext.Object(v)
	method, _ := q["method"].(string)
	switch {
	case err != nil:
		code, message = -32700, "Parse error"
	case q["jsonrpc"] != "2.0" || method == "":
		code, message = -32600, "Invalid request: jsonrpc must be 2.0 and method a name"
	}
	return map[string]any{"jsonrpc": "2.0", "id": repeated(q["id"]),
		"error": map[string]any{"code": code, "message": message, "data": nil}}
}
