package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout/gateway/internal/dialect"
)

// TestArgumentsAreRecognised in the forms in which clients send them back.
func TestArgumentsAreRecognised(t *testing.T) {
	for _, c := range []struct {
		wrote, got string
		want       bool
	}{
		{`{"a": 2.0, "b": 1}`, `{"b":1,"a":2}`, true},
		{`{"a": 2}`, `{"a": 3}`, false},
		{`{"a"`, `{}`, true},
		{`{"a":1}}`, `{}`, true}, // one brace too many is no JSON
		{`[1]`, `[1]`, true},
		{`[1]`, `[2]`, false},
		{`{"a": 1234567890123456789}`, `{"a": 1234567890123456788}`, false},
		{`{"a": 1234567890123456789}`, `{"a": 1234567890123456800}`, true}, // from JavaScript, or any of Go
		{`{"a": 1234567890123456789}`, `{"a": 1.2345678901234568e18}`, true},
		{`{"a": 12345678901234567891}`, `{"a": 12345678901234567892}`, false},
		{`[-0]`, `[0]`, true},
	} {
		require.Equal(t, c.want, sameArguments(c.wrote, c.got), "%s, %s", c.wrote, c.got)
	}
	for _, wrote := range []string{`[1]`, `"a"`, `7`, `null`, `{"a"`, " ", "", `{"a":1}`} {
		a := &dialect.Answer{Calls: []dialect.Call{{Name: "f", Arguments: wrote}}}
		body, _ := dialect.Messages.Answer(a)
		q, err := dialect.Messages.Decode([]byte(`{"messages": [` + string(body[0]) + `, {"role": "user", "content": "x"}]}`))
		require.Nil(t, err)
		require.True(t, sameCalls(a.Calls, q.Messages[0].Calls), "%q, %q", wrote, q.Messages[0].Calls)
	}
	require.False(t, sameArguments(`[1]`, `{"INVALID_JSON": "[2]"}`))
}
