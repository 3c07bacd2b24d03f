package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/jsontext"
	"vagen/rollout/gateway/internal/dialect"
)

// echo compares the beginning of a conversation's rest with an answer. If that came back, the place is the one
// behind it. These changes of clients are known, see docs/agents.md:
//   - reasoning is dropped, or moved between <think> tags and a field
//   - white space at the ends of the text is added or removed, or a stop text added
//   - arguments of calls are serialised again: order of keys, spaces, escapes, 2.0 for 2
//   - arguments that are no JSON are replaced
//   - the text beside calls is dropped, or calls are part of the text
//   - several calls come back in turn, each before its result
//   - an empty answer is dropped
func echo(a *dialect.Answer, rest []dialect.Message) (behind place, ok bool) {
	empty := dialect.Plain(a.Text) == "" && len(a.Calls) == 0
	if len(rest) == 0 || rest[0].Role != dialect.Assistant {
		return place{delta: rest, loose: true}, empty && len(rest) > 0
	}
	e := rest[0]
	rest = rest[1:]
	got := dialect.Plain(e.Text)
	same := sameText(a, e.Text)
	switch {
	case sameCalls(a.Calls, e.Calls):
		loose := e.Text != a.Text && !(a.Text == "" && strings.TrimSpace(e.Text) == "")
		return place{delta: rest, loose: loose, named: sameIDs(a.Calls, e.Calls)}, same || len(a.Calls) > 0 && got == ""
	case len(e.Calls) == 0 && len(a.Calls) > 0:
		before, calls, ok := written(got)
		return place{delta: rest, loose: true, named: sameIDs(a.Calls, calls)}, ok && sameText(a, before) &&
			sameCalls(a.Calls, calls)
	case len(e.Calls) < len(a.Calls) && (same || got == ""):
		return inTurn(a, e, rest)
	}
	return place{}, false
}

// inTurn recognises calls that come back one after another, each with its results. The results
// come first behind them, as if all calls had come in one message.
func inTurn(a *dialect.Answer, e dialect.Message, rest []dialect.Message) (behind place, ok bool) {
	calls := slices.Clone(e.Calls)
	var results []dialect.Message
	for len(calls) < len(a.Calls) {
		n := 0
		for n < len(rest) && rest[n].Role == dialect.Tool {
			n++
		}
		results = append(results, rest[:n]...)
		if n == 0 || n == len(rest) || rest[n].Role != dialect.Assistant || len(rest[n].Calls) == 0 ||
			dialect.Plain(rest[n].Text) != "" {
			return place{}, false
		}
		calls, rest = append(calls, rest[n].Calls...), rest[n+1:]
	}
	behind = place{delta: slices.Concat(results, rest), loose: true, named: sameIDs(a.Calls, calls)}
	return behind, sameCalls(a.Calls, calls)
}

// sameText compares a text that came back with that of an answer. Some clients put the stop text
// at its end, whether it was written or not.
func sameText(a *dialect.Answer, got string) bool {
	text := dialect.Plain(a.Text)
	if got = dialect.Plain(got); got == text {
		return true
	}
	return slices.ContainsFunc(a.Stops, func(stop string) bool {
		return dialect.Plain(strings.TrimSuffix(got, stop)) == text
	})
}

func sameIDs(a, b []dialect.Call) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y dialect.Call) bool { return x.ID == y.ID })
}

// sameCalls compares calls by name and arguments. Those of the first are as the model wrote them.
func sameCalls(a, b []dialect.Call) bool {
	return slices.EqualFunc(a, b, func(x, y dialect.Call) bool {
		return x.Name == y.Name && sameArguments(x.Arguments, y.Arguments)
	})
}

// sameArguments compares as JSON. Text that is no JSON comes back as it was, as {}, inside of an
// object, or as far as it could be parsed: any object stands for it.
func sameArguments(wrote, got string) bool {
	if strings.TrimSpace(wrote) == strings.TrimSpace(got) {
		return true
	}
	a, ok := parse(wrote)
	b, valid := parse(got)
	o, isObject := b.(map[string]any)
	switch {
	case !ok:
		return isObject
	case len(o) == 1 && o[dialect.InvalidKey] == wrote: // JSON that is no object, as Anthropic's clients get it
		return true
	}
	return valid && sameValue(a, b)
}

func parse(text string) (any, bool) {
	asWritten := func(n json.Number) (any, error) { return n, nil }
	v, err := jsontext.Tree[any](cmp.Or(strings.TrimSpace(text), "{}"), asWritten)
	return v, err == nil
}

// sameValue compares decoded JSON. Numbers are equal if their values are.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		x, err1 := a.Float64()
		y, err2 := b.Float64()
		if err1 != nil || err2 != nil || x != y {
			return false
		}
		// Integers that one float64 stands for are equal only as clients write them that read numbers as float64.
		whole := func(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }
		return !whole(a) || !whole(b) || b.String() == strconv.FormatFloat(x+0, 'f', -1, 64) // +0 also for -0
	}
	return a == b
}

// writtenCalls is how smolagents begins the calls in a text.
const writtenCalls = "Calling tools:\n"

// written reads calls that a client put into the text, as a list in Python's notation.
func written(text string) (before string, calls []dialect.Call, ok bool) {
	at := strings.LastIndex(text, writtenCalls)
	if at < 0 {
		return text, nil, false
	}
	var list []dialect.ToolCall
	if json.Unmarshal(fromPython(text[at+len(writtenCalls):]), &list) != nil || len(list) == 0 {
		return text, nil, false
	}
	for _, c := range list {
		calls = append(calls, c.Function.Call(c.ID))
	}
	return text[:at], calls, true
}

// python has Python's constants in JSON.
var python = map[string]string{"True": "true", "False": "false", "None": "null"}

// fromPython converts Python's notation of lists, mappings, strings and numbers to JSON. Other text
// gives something that is no JSON.
func fromPython(text string) []byte {
	var b bytes.Buffer
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			end := i + 1
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			s, _ := json.Marshal(unescape(text[i+1:min(end, len(text))], c))
			b.Write(s)
			i = end
		case strings.HasPrefix(text[i:], "True"), strings.HasPrefix(text[i:], "None"):
			b.WriteString(python[text[i:i+4]])
			i += 3
		case strings.HasPrefix(text[i:], "False"):
			b.WriteString("false")
			i += 4
		default:
			b.WriteByte(c)
		}
	}
	return b.Bytes()
}

// unescape decodes the escapes of a Python string.
func unescape(s string, quote byte) string {
	var b strings.Builder
	for s != "" {
		r, _, tail, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			b.WriteString(s)
			break
		}
		b.WriteRune(r)
		s = tail
	}
	return b.String()
}
