package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"vagen/internal/transport"
)

// fault is a failure that a service reports.
type fault struct {
	status    int // that the body names, 0 without one
	code      string
	param     string // the field of the request that is wrong
	message   string
	reasons   []string // Google's
	moderated bool     // the prompt was flagged
	after     time.Duration
}

func (f *fault) Error() string { return strings.TrimSpace(f.code + " " + f.message) }

// explain reads the error of a service, with what OpenRouter adds.
func explain(body []byte) *fault {
	message, inner := transport.Failure(body)
	f := &fault{param: stringOf(inner["param"]), message: message}
	f.codes(inner)
	f.google(inner["details"])
	f.openRouter(inner["metadata"])
	return f
}

// codes reads the names and the number of a failure.
func (f *fault) codes(in map[string]json.RawMessage) {
	for _, name := range []string{"code", "status", "type"} {
		text := stringOf(in[name])
		var number float64
		if text == "" && json.Unmarshal(in[name], &number) == nil {
			text = strconv.FormatFloat(number, 'f', -1, 64)
		}
		if n, err := strconv.Atoi(text); err == nil {
			if n >= 300 && n <= 599 {
				f.status = n
			}
		} else if f.code == "" {
			f.code = text
		}
	}
}

// google reads google.rpc.ErrorInfo and RetryInfo.
func (f *fault) google(raw json.RawMessage) {
	var details []struct {
		Reason string `json:"reason"`
		Delay  string `json:"retryDelay"`
	}
	if json.Unmarshal(raw, &details) != nil {
		return
	}
	for _, d := range details {
		if d.Reason != "" {
			f.reasons = append(f.reasons, d.Reason)
		}
		if delay, err := time.ParseDuration(d.Delay); err == nil {
			f.after = max(f.after, delay)
		}
	}
}

// openRouter reads the message of the service that OpenRouter forwarded to.
func (f *fault) openRouter(raw json.RawMessage) {
	var in struct {
		Reasons []json.RawMessage `json:"reasons"`
		Flagged json.RawMessage   `json:"flagged_input"`
		Raw     json.RawMessage   `json:"raw"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return
	}
	f.moderated = isSet(in.Flagged) || len(in.Reasons) > 0
	if isSet(in.Raw) {
		f.message = strings.TrimSpace(f.message + ": " + cmp.Or(stringOf(in.Raw), string(in.Raw)))
	}
}

// isSet reports whether a field is present and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// stringOf returns a JSON string, "" for any other value.
func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// count is a number of tokens.
type count int64

func (c *count) UnmarshalJSON(data []byte) error {
	var x float64
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	if !(x >= 0 && x <= 1e12) {
		return fmt.Errorf("%v is not a number of tokens", x)
	}
	*c = count(x)
	return nil
}

// logProbs converts log-probs to float32. If one is missing or invalid, it returns nil.
func logProbs(values []*float64) []float32 {
	if len(values) == 0 {
		return nil
	}
	out := make([]float32, len(values))
	for i, v := range values {
		if v == nil || *v > 1e-3 || *v < -math.MaxFloat32 { // rounding may give values just above 0
			return nil
		}
		out[i] = float32(min(*v, 0))
	}
	return out
}
