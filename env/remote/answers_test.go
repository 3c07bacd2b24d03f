package remote

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"vagen/env"
	"vagen/env/internal/envtest"
)

// TestTheServicesDelayIsHonoured also above MaxDelay, but not by the original client.
func TestTheServicesDelayIsHonoured(t *testing.T) {
	busy := func(after string) answerFunc {
		return func(r *http.Request) (*http.Response, error) {
			a, err := response(r, http.StatusTooManyRequests, kindJSON, []byte(`{"detail": "busy"}`))
			a.Header.Set("Retry-After", after)
			return a, err
		}
	}
	for _, c := range []struct {
		after  string
		python bool
		want   []time.Duration
	}{
		{"90", false, []time.Duration{0, 90 * time.Second}},
		{"Sat, 01 Jan 2000 00:01:30 GMT", false, []time.Duration{0, 90 * time.Second}}, // synctest begins in 2000
		{"1", false, []time.Duration{0, 2 * time.Second}},
		{"90", true, []time.Duration{0, 2 * time.Second}},
		{"86400", false, []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, sc := scripted(t, func(o *ClientOptions) { o.Python = c.python }, busy(c.after), started)
			_, err := client.Reset(t.Context(), 1)
			assert.Equal(t, len(c.want) == 1, errors.Is(err, ErrBusy), c)
			assert.Equal(t, c.want, sc.at, c)
		})
	}
}

// TestAnAnswerThatCannotBeUsedIsNoLostSession: the service has answered, so that another
// attempt would get the same; a cut answer and one that did not arrive are lost. In both cases
// the episode cannot go on.
func TestAnAnswerThatCannotBeUsedIsNoLostSession(t *testing.T) {
	webp := data(`{"obs": "<image>", "reward": 1, "done": false}`, []byte("RIFF\x1a\x00\x00\x00WEBPVP8L"))
	torn := raw(200, "multipart/mixed; boundary=B", "--B\r\nContent-Type: x/json\r\n\r\n{}")
	paid := func(reward string) answerFunc {
		return data(`{"obs": "turn", "reward": ` + reward + `, "done": false, "info": {}}`)
	}
	for says, c := range map[string]struct {
		answer answerFunc
		want   error
		lost   bool
	}{
		"the reward is NaN":                         {paid("NaN"), ErrProtocol, false},
		"the reward is +Inf":                        {paid("Infinity"), ErrProtocol, false},
		"the reward must be a number, found string": {paid(`"high"`), ErrProtocol, false},
		"obs is missing":                            {data(`{"reward": 1}`), ErrProtocol, false},
		"Missing boundary":                          {raw(200, "text/html", "<p>log in</p>"), ErrProtocol, false},
		"neither PNG nor JPEG":                      {webp, ErrProtocol, false},
		"at most 2000 bytes":                        {raw(200, "text/plain", strings.Repeat("x", 3000)), ErrTooLarge, false},
		"refuses the request: no":                   {status(403, "no"), ErrRequest, false},
		"the closing boundary is missing":           {torn, ErrProtocol, true},
		"unexpected EOF":                            {cut, io.ErrUnexpectedEOF, true},
	} {
		client, sc := scripted(
			t, func(o *ClientOptions) { o.Limits.Body, o.Retries = 2000, 0 }, started, c.answer, turn,
		)
		envtest.Reset(t, client, 1)
		_, err := client.Step(t.Context(), "x")
		assert.ErrorIs(t, err, c.want, says)
		assert.ErrorContains(t, err, says)
		assert.Equal(t, c.lost, errors.Is(err, env.ErrLost), "%v", err)
		if c.want != ErrRequest {
			_, err = client.Step(t.Context(), "x")
			assert.ErrorIs(t, err, ErrUncertain, says)
			assert.Len(t, sc.calls, 2, says)
		}
	}
}
