package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/env/remote/internal/pyjson"
	"vagen/internal/slots"
	"vagen/internal/testkit"
)

// TestErrorsRepeatLittleOfARequest: names, values and ids are clipped, few of many faults are listed, and what JSON
// cannot express is text.
func TestErrorsRepeatLittleOfARequest(t *testing.T) {
	c := dial(t, serve(t, newGrid, nil))
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `,"a%d":1`, i)
	}
	long := strings.Repeat("x", 30_000)
	for _, raw := range []string{
		`{"type":"step","data":{"response":"a"` + many.String() + `}}`,
		`{"type":"state"` + many.String() + `}`,
		`{"type":"step","data":{"response":"a","` + long + `":1}}`,
		`{"type":"mcp","data":{"jsonrpc":"2.0","method":"m","id":"` + long + `"}}`,
		`{"type":"mcp","data":{"jsonrpc":"2.0","method":"m","id":NaN}}`,
		`{"type":"step","data":{"response":[NaN]}}`,
	} {
		answer := ask(t, c, raw)
		require.Less(t, len(answer), 5000)
		require.True(t, json.Valid([]byte(answer)), answer)
	}
	require.Contains(t, ask(t, c, `{"type":"reset"}`), "observation")
}

// TestSessionsKeepNoLongIDs: an episode's id stays in memory as long as the session.
func TestSessionsKeepNoLongIDs(t *testing.T) {
	c := dial(t, serve(t, newGrid, nil))
	reset := func(n int) string {
		return ask(t, c, fmt.Sprintf(`{"type":"reset","data":{"episode_id":%q}}`, strings.Repeat("a", n)))
	}
	require.Contains(t, reset(maxEpisode+1), "string_too_long")
	require.Contains(t, ask(t, c, `{"type":"state"}`), `"episode_id":null`)
	require.Contains(t, reset(maxEpisode), `"observation"`)
}

// TestRequestsOfTooManyValuesAreRefused: each takes hundreds of bytes in memory.
func TestRequestsOfTooManyValuesAreRefused(t *testing.T) {
	c := dial(t, serve(t, newGrid, nil))
	many := func(n int) string {
		return ask(t, c, `{"type":"reset","data":{"x":[`+strings.Repeat("0,", n-1)+`0]}}`)
	}
	require.Contains(t, many(pyjson.MaxValues), invalidJSON)
	require.Contains(t, many(pyjson.MaxValues/2), `"observation"`)
}

// TestAnswersOfTooManyValuesAreRefused: each takes a hundred bytes in memory.
func TestAnswersOfTooManyValuesAreRefused(t *testing.T) {
	many := func(n int) error {
		_, err := decode(websocket.MessageText, []byte(`{"type":"observation","data":{"observation":{"text":"a","x":[`+
			strings.Repeat("0,", n)+`0]},"reward":1,"done":false}}`))
		return err
	}
	require.NoError(t, many(maxValues/2), "an image in numbers")
	require.ErrorIs(t, many(maxValues), remote.ErrProtocol)
}

// TestSlowSendersLoseTheirSession: the part of a request that has arrived stays in memory until the rest has.
func TestSlowSendersLoseTheirSession(t *testing.T) {
	url := serve(t, newGrid, func(o *remote.ServerOptions) { o.ReadTimeout = soon })
	for _, n := range []int{2 * keepBuffer, slots.SmallBody + 2*keepBuffer} {
		c := dial(t, url)
		w, err := c.Writer(t.Context(), websocket.MessageText)
		require.NoError(t, err)
		_, err = w.Write(bytes.Repeat([]byte("a"), n))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, _, err = c.Read(ctx)
		require.Error(t, err)
		require.NoError(t, ctx.Err(), "the server has not closed the connection: %d bytes", n)
		cancel()
	}
}

// TestReasonsAreShort: a schema may list many values, and a model reads few.
func TestReasonsAreShort(t *testing.T) {
	values := strings.Repeat(`"north",`, 10_000)
	schema := `{"action":{"properties":{"a":{"enum":[` + values + `"south"]}},"required":["a"]}}`
	c := adapted(t, json.RawMessage(schema), nil)
	_, err := c.mapping.action("<answer>west</answer>")
	require.Error(t, err)
	require.Less(t, len(c.invalid("", err).Observation.Text), 2*maxReason)
}

// TestCheckNamesWhatAServerBreaks: one that ignores the seed, and those whose answers have wrong types.
func TestCheckNamesWhatAServerBreaks(t *testing.T) {
	step := func(rest string) func(string) string {
		return func(request string) string {
			if isReset(request) {
				return observation("begin")
			}
			return `{"type":"observation","data":{"observation":{"text":"a"},` + rest + `}}`
		}
	}
	var drawn atomic.Int64
	for want, answer := range map[string]func(request string) string{
		"determinism": func(string) string { return observation(fmt.Sprint(drawn.Add(1))) },
		`the reward must be a number, found 1 of`: step(`"reward":"1 of 2","done":false`),
		"done must be true or false, found null":  step(`"reward":1`),
	} {
		url := scripted(t, func(_ int, request string) string { return answer(request) })
		report, err := env.Check(t.Context(), Factory(), env.CheckOptions{Config: map[string]any{"base_urls": url},
			Responses: []string{"<answer>left</answer>"}, Turns: 2, Seeds: []int64{1, 2}})
		require.NoError(t, err)
		require.ErrorContains(t, report.Err(), want)
	}
}

// TestAnswersThatNobodyAskedForEndTheSession: answers have no numbers, so that each later one would be taken for that
// to another request, in all later episodes of the connection.
func TestAnswersThatNobodyAskedForEndTheSession(t *testing.T) {
	e := client(t, scripted(t, func(_ int, request string) string {
		if isReset(request) {
			return observation("begin")
		}
		return "twice " + observation("moved")
	}), nil).(*Client)
	const left = "<answer>left</answer>"
	twice := func() {
		_, err := e.Reset(t.Context(), 0)
		require.NoError(t, err)
		out, err := e.Step(t.Context(), left)
		require.NoError(t, err)
		require.Equal(t, "moved", out.Observation.Text)
		require.Eventually(t, func() bool { return len(e.in.ahead) == 1 }, time.Minute, 10*time.Millisecond)
	}
	twice()
	_, err := e.Step(t.Context(), left)
	testkit.Error(t, err, env.ErrLost, "an answer without a request")
	twice()
	o, err := e.Reset(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, "begin", o.Text)
}
