package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	return fmt.Sprintf("%s: %s, found %s", at, p.Msg, text(p.Input))
}

// request is a frame of a client.
type request struct {
	kind     string
	data     json.RawMessage
	reset    resetRequest
	response string
}

type resetRequest struct {
	seed    *int64
	episode string
}

type object = map[string]json.RawMessage

// maxInput limits the copy of a value in an error.
const maxInput = 200

// wants are the texts of problems by their types.
var wants = map[string]string{
	"missing": "Field required", "extra_forbidden": "Extra inputs are not permitted",
	"string_type": "Input should be a valid string", "dict_type": "Input should be a valid dictionary",
	"int_parsing": "Input should be a valid integer from 0 to 9223372036854775807",
}

func wrong(kind, name string, in json.RawMessage) problem {
	p := problem{kind, []any{name}, wants[kind], in}
	if len(in) > maxInput {
		p.Input = clip(string(in))
	}
	return p
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

func parseAny(raw []byte) (request, *fault) {
	var m request
	var o object
	switch err := json.Unmarshal(raw, &o); {
	case err != nil && !json.Valid(raw):
		return m, &fault{Code: invalidJSON, Message: "Invalid JSON: " + err.Error()}
	case o == nil:
		return m, &fault{Code: sessionError, Message: "a message must be an object, found " + clip(string(raw))}
	}
	m.kind, _ = jsontext.Text(o["type"])
	if !slices.Contains([]string{"reset", "step", "state", "mcp", "close"}, m.kind) {
		return m, &fault{Code: unknownType, Message: "Unknown message type: " + clip(m.kind)}
	}
	m.data = o["data"]
	var bad []problem
	takes := m.kind != "state" && m.kind != "close"
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if name != "type" && (name != "data" || !takes) {
			bad = append(bad, wrong("extra_forbidden", name, o[name]))
		}
	}
	if m.data == nil && (m.kind == "step" || m.kind == "mcp") {
		bad = append(bad, wrong("missing", "data", raw))
	}
	if len(bad) == 0 {
		switch m.kind {
		case "reset":
			m.reset, bad = parseReset(m.data)
		case "step":
			m.response, bad = parseAction(m.data)
		}
	}
	if len(bad) > 0 {
		return m, &fault{Code: validationError, Message: "Invalid message", Errors: bad}
	}
	return m, nil
}

// parseObject reads an object, empty for null.
func parseObject(raw json.RawMessage, name string) (object, []problem) {
	var o object
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, []problem{wrong("dict_type", name, raw)}
	}
	return o, nil
}

// parseReset reads the data of a reset. Unknown fields are ignored, as in 0.10.0.
func parseReset(raw json.RawMessage) (r resetRequest, bad []problem) {
	o, bad := parseObject(raw, "data")
	if v := o["seed"]; present(v) {
		digits, ok := jsontext.Text(v)
		if !ok {
			digits = strings.TrimSuffix(string(v), ".0")
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 {
			bad = append(bad, wrong("int_parsing", "seed", v))
		}
		r.seed = &n
	}
	if v := o["episode_id"]; present(v) && json.Unmarshal(v, &r.episode) != nil {
		bad = append(bad, wrong("string_type", "episode_id", v))
	}
	return r, bad
}

// parseAction reads an action.
func parseAction(raw json.RawMessage) (response string, bad []problem) {
	o, bad := parseObject(raw, "data")
	if bad != nil {
		return "", bad
	}
	v, given := o["response"]
	response, ok := jsontext.Text(v)
	if !given {
		bad = append(bad, wrong("missing", "response", raw))
	} else if !ok {
		bad = append(bad, wrong("string_type", "response", v))
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch v := o[name]; name {
		case "response":
		case "metadata":
			if m := (object)(nil); json.Unmarshal(v, &m) != nil || m == nil {
				bad = append(bad, wrong("dict_type", name, v))
			}
		default:
			bad = append(bad, wrong("extra_forbidden", name, v))
		}
	}
	return response, bad
}

// clip shortens text for messages.
func clip(s string) string { return transport.Clip(s, maxInput) }

func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// answerMCP answers a request of JSON-RPC: the environments have no tools.
func answerMCP(raw []byte) map[string]any {
	code, message := -32603, "Environment does not support MCP"
	var q struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	switch err := json.Unmarshal(raw, &q); {
	case err != nil && !json.Valid(raw):
		code, message, q.ID = -32700, "Parse error", nil
	case err != nil || q.JSONRPC != "2.0" || q.Method == "":
		code, message, q.ID = -32600, "Invalid request: jsonrpc must be 2.0 and method a name", nil
	}
	return map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": code, "message": message,
		"data": nil}}
}
