package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"vagen/rollout/gateway/internal/dialect"
)

// Tags of reasoning and of calls in the text of a response, as Qwen's models write them.
const (
	thinkOpen, thinkClose = "<think>", "</think>"
	callOpen, callClose   = "<tool_call>", "</tool_call>"
)

// newAnswer divides the text of a response. stops are the client's: the text ends before the first
// of them. tools has the definitions of tools; without them the text is not searched for calls.
func newAnswer(id, text string, stops []string, tools string) *dialect.Answer {
	a := &dialect.Answer{ID: id}
	a.Reasoning, a.Text = splitThought(text)
	for _, s := range stops {
		if before, _, found := strings.Cut(a.Text, s); found {
			a.Text, a.Stopped = before, s
		}
	}
	if tools != "" {
		a.Text, a.Calls = splitCalls(id, a.Text, tools)
	}
	return a
}

// splitThought divides a text that begins with reasoning. Reasoning without end is all there is.
func splitThought(text string) (thought, rest string) {
	inner, ok := strings.CutPrefix(strings.TrimLeft(text, " \n"), thinkOpen)
	if !ok {
		return "", text
	}
	thought, rest, _ = strings.Cut(inner, thinkClose)
	return strings.Trim(thought, "\n"), strings.TrimLeft(rest, "\n")
}

// splitCalls moves the calls of an answer's text to a list. What does not name a tool stays text.
func splitCalls(id, text, tools string) (rest string, calls []dialect.Call) {
	rest = callForm.ReplaceAllStringFunc(text, func(s string) string {
		call, ok := readCall(strings.TrimSuffix(strings.TrimPrefix(s, callOpen), callClose), tools)
		if !ok {
			return s
		}
		call.Arguments = cmp.Or(call.Arguments, "{}") // clients decode it
		call.ID = fmt.Sprintf("call_%s_%d", id, len(calls))
		calls = append(calls, call)
		return ""
	})
	if len(calls) > 0 {
		rest = strings.TrimSpace(rest)
	}
	return rest, calls
}

var (
	callForm      = regexp.MustCompile(`(?s)` + callOpen + `.*?(` + callClose + `|$)`)
	callName      = regexp.MustCompile(`"name"\s*:\s*"([^"]+)"`)
	callArguments = regexp.MustCompile(`(?s)"arguments"\s*:\s*(.*)$`)
)

// readCall reads a call. The arguments are the text that the policy wrote, also if it is no JSON.
func readCall(body, tools string) (call dialect.Call, ok bool) {
	if name, values, ok := cutTag(body, functionOpen); ok {
		return dialect.Call{Name: name, Arguments: readParameters(values, parameters(tools, name))}, name != ""
	}
	if json.Unmarshal([]byte(body), &call) == nil {
		return call, call.Name != ""
	}
	call = dialect.Call{}
	if found := callName.FindStringSubmatch(body); found != nil {
		call.Name, ok = found[1], true
	}
	if found := callArguments.FindStringSubmatch(body); found != nil {
		call.Arguments = strings.TrimSuffix(strings.TrimSpace(found[1]), "}")
	}
	return call, ok
}
