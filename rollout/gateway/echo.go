package gateway

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"vagen/internal/jsontext"
	"vagen/internal/pytext"
	"vagen/rollout/gateway/internal/dialect"
)

// echo compares the beginning of a conversation's rest with an answer. If that came back, the place is the one
// behind it. These changes of clients are known, see docs/agents.md:
//   - reasoning is dropped, or moved between <think> tags and a field
//   - white space at the ends of the text is added or removed, or a stop text added
//   - arguments of calls are serialised again: order of keys, spaces, escapes, 2.0 for 2
//   - arguments that are no JSON are replaced
//   - arguments of a call that has the id of the answer's are completed or converted
//   - the text beside calls is dropped, or calls are part of the text
//   - several calls come back in turn, each before its result
//   - an empty answer is dropped, see call.rest
func echo(a *dialect.Answer, rest []dialect.Message) (behind place, ok bool) {
	if len(rest) == 0 || rest[0].Role != dialect.Assistant {
		return place{delta: rest, loose: true}, empty(a) && len(rest) > 0
	}
	text, calls := rest[0].Text, rest[0].Calls
	behind = place{delta: rest[1:], loose: text != a.Text && (a.Text != "" || strings.TrimSpace(text) != "")}
	if len(calls) == 0 && len(a.Calls) > 0 {
		text, calls = written(text)
	}
	if n := len(a.Calls) - len(calls); n > 0 {
		var more []dialect.Call
		more, behind.delta = inTurn(n, behind.delta)
		calls, behind.loose = slices.Concat(calls, more), true
	}
	sameID := func(x, y dialect.Call) bool { return x.ID == y.ID && x.Name == y.Name }
	behind.named = len(calls) > 0 && slices.EqualFunc(a.Calls, calls, sameID)
	same := sameCalls(a.Calls, calls)
	behind.loose = behind.loose || !same
	dropped := len(calls) > 0 && dialect.Plain(text) == ""
	return behind, (same || behind.named) && (dropped || sameText(a, text))
}

// empty reports whether an answer has neither text nor calls.
func empty(a *dialect.Answer) bool { return dialect.Plain(a.Text) == "" && len(a.Calls) == 0 }

// inTurn returns n or more calls that come back one after another, each behind the results of those before, and what is
// behind them: the results come first, as if all calls had come in one message. Without such calls it returns none.
func inTurn(n int, rest []dialect.Message) (calls []dialect.Call, behind []dialect.Message) {
	for len(calls) < n {
		k := slices.IndexFunc(rest, func(m dialect.Message) bool { return m.Role != dialect.Tool })
		if k < 1 || rest[k].Role != dialect.Assistant || len(rest[k].Calls) == 0 || dialect.Plain(rest[k].Text) != "" {
			return nil, nil
		}
		behind, calls, rest = append(behind, rest[:k]...), append(calls, rest[k].Calls...), rest[k+1:]
	}
	return calls, append(behind, rest...)
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
	exact, ok := canonical(wrote, jsontext.Exact)
	read, valid := canonical(got, jsontext.Exact)
	if !ok {
		return strings.HasPrefix(read, "{")
	}
	rounded, _ := canonical(wrote, func(n json.Number) (any, error) { // by clients that read numbers as float64
		f, err := n.Float64()
		return f + 0, err // 0 for -0
	})
	// JSON that is no object, as Anthropic's clients get it.
	inside, _ := json.Marshal(map[string]string{dialect.InvalidKey: wrote})
	return valid && slices.Contains([]string{exact, rounded, string(inside)}, read)
}

// canonical returns JSON with sorted keys and without spaces, whose numbers are what number returns for them.
func canonical(text string, number func(json.Number) (any, error)) (_ string, ok bool) {
	v, err := jsontext.Tree[any](cmp.Or(strings.TrimSpace(text), "{}"), number)
	if err != nil {
		return "", false
	}
	raw, err := json.Marshal(v)
	return string(raw), err == nil
}

// writtenCalls is how smolagents begins the calls in a text.
const writtenCalls = "Calling tools:\n"

// written reads calls that a client put into the text, as a list in Python's notation.
func written(text string) (before string, calls []dialect.Call) {
	at := strings.LastIndex(text, writtenCalls)
	if at < 0 || json.Unmarshal(pytext.JSON(text[at+len(writtenCalls):]), &calls) != nil {
		return text, nil
	}
	return text[:at], calls
}
