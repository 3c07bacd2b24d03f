package remote

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/testkit"
)

// legacyClient returns a client of a service with stubs.
func legacyClient(t *testing.T, kind string, config map[string]any) *LegacyClient {
	t.Helper()
	h := httptest.NewServer(legacyServer(t, new(atomic.Int64)))
	t.Cleanup(h.Close)
	o := patientOptions(ownTransport(t))
	o.URLs, o.Name, o.Config = []string{h.URL}, kind, config
	c, err := NewLegacyClient(o)
	require.NoError(t, err)
	return c
}

// A legacy environment may pay at the end; the client fetches that.
func TestFinalRewardIsPartOfTheLastTurn(t *testing.T) {
	c := legacyClient(t, "ending", map[string]any{"goal": 2})
	_, err := c.FinalReward(t.Context())
	assert.ErrorIs(t, err, ErrNotReset)
	envtest.Reset(t, c, 1)
	out := envtest.Play(t, c, "x")
	assert.Zero(t, out.Reward.Of(partFinal))
	final, err := c.FinalReward(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2.5, final, "for episodes that are cut off")
	out = envtest.Play(t, c, "x")
	require.True(t, out.Done)
	assert.Equal(t, 2.5, out.Reward.Of(partFinal))
	assert.Equal(t, 1.0, out.Reward.Of(partReward))
	assert.Equal(t, "x", c.Info()["echo"])
	require.NoError(t, c.Close())
	_, err = c.FinalReward(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
}

func TestLegacyFailuresAreErrors(t *testing.T) {
	c := legacyClient(t, "stub", map[string]any{"gaol": 2})
	_, err := c.Reset(t.Context(), 1)
	assert.ErrorIs(t, err, ErrRemote)
	assert.ErrorContains(t, err, "not found", "the service made none and says no more")
	c = legacyClient(t, "stub", map[string]any{"fail_on": "x"})
	envtest.Reset(t, c, 1)
	_, err = c.Step(t.Context(), "x")
	testkit.Error(t, err, ErrRemote, "POST /batch/step", "stub failure")
	_, err = c.Step(t.Context(), "y")
	assert.NoError(t, err, "the step was not played and the service continues")
	c = legacyClient(t, "chess", nil)
	_, err = c.System(t.Context())
	assert.ErrorContains(t, err, `env_name "chess": unknown name; known are ending, panicking, stub`)
	assert.NoError(t, c.Close())
}

// The original legacy client sends everything once.
func TestLegacyClientInPythonModeRepeatsNothing(t *testing.T) {
	for _, python := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{answers: []answerFunc{noAnswers}}
			o := DefaultLegacyOptions()
			o.URLs, o.Transport, o.Name, o.Python = []string{"http://a"}, sc, "stub", python
			c, err := NewLegacyClient(o)
			require.NoError(t, err)
			_, err = c.Reset(t.Context(), 1)
			assert.ErrorIs(t, err, ErrBusy)
			assert.Len(t, sc.calls, map[bool]int{true: 1, false: 7}[python])
		})
	}
}

func TestUnclearLegacyStepEndsTheEpisode(t *testing.T) {
	sc := &script{}
	o := patientOptions(sc)
	o.Name = "stub"
	c, err := NewLegacyClient(o)
	require.NoError(t, err)
	results := func(entry string) answerFunc {
		return func(r *http.Request) (*http.Response, error) {
			return response(r, 200, kindJSON, fmt.Appendf(nil, `{"results": {%q: %s}}`, c.id, entry))
		}
	}
	sc.answers = []answerFunc{raw(200, kindJSON, `{"success": true}`), results(`[{"obs_str": "o"}, {}]`), cut,
		results(`[{"obs_str": "o"}, {}]`),
		results(`[{"obs_str": "o"}, 1, false, {}]`)}
	envtest.Reset(t, c, 1)
	for range 2 {
		_, err = c.Step(t.Context(), "x")
		assert.ErrorIs(t, err, ErrUncertain)
	}
	envtest.Reset(t, c, 1)
	_, err = c.Step(t.Context(), "x")
	assert.NoError(t, err)
	assert.Len(t, sc.calls, 5)
}

// Services may send images as arrays, too.
func TestLegacyImages(t *testing.T) {
	var c LegacyClient
	c.send = &sender{o: ClientOptions{Limits: Limits{Body: 1, Parts: 3, Pixels: 10}}}
	array := func(dtype string, shape []any, data any) map[string]any {
		return map[string]any{"__numpy_array__": map[string]any{"dtype": dtype, "shape": shape, "data": data}}
	}
	obs := func(images ...any) map[string]any {
		text := ""
		for range images {
			text += env.ImageMark
		}
		return map[string]any{"obs_str": text, "multi_modal_data": map[string]any{env.ImageMark: images}}
	}
	n := func(v ...int64) (list []any) {
		for _, x := range v {
			list = append(list, x)
		}
		return list
	}
	o, err := c.observation(obs(array("uint8", n(1, 2, 3), []any{[]any{n(1, 2, 3), n(4, 5, 6)}}),
		array("uint8", n(2, 1), []any{n(7), n(8)})))
	require.NoError(t, err)
	r, g, b, a := o.Images[0].At(1, 0).RGBA()
	assert.Equal(t, []uint32{4 * 257, 5 * 257, 6 * 257, 0xffff}, []uint32{r, g, b, a})
	r, g, b, _ = o.Images[1].At(0, 1).RGBA()
	assert.Equal(t, []uint32{8 * 257, 8 * 257, 8 * 257}, []uint32{r, g, b})
	for _, bad := range []any{
		nil, "text", map[string]any{}, map[string]any{"__pil_image__": "!"}, map[string]any{"__pil_image__": "aGVsbG8="},
		array("float32", n(1, 1), []any{n(1)}), array("uint8", n(1, 1, 2), []any{[]any{n(1, 2)}}),
		array("uint8", n(1, 1, 3, 1), nil),
		array("uint8", n(0, 1), []any{}), array("uint8", n(1, -1), []any{}), array("uint8", n(1, 2), []any{n(1)}),
		array("uint8", n(1, 1), []any{n(1, 2)}), array("uint8", n(1, 1), []any{n(256)}),
		array("uint8", n(1, 1), []any{[]any{"x"}}),
		array("uint8", n(4, 4), nil), array("uint8", n(1<<40, 1<<40), nil),
	} {
		_, err := c.observation(obs(bad))
		assert.ErrorIs(t, err, ErrProtocol, "%v", bad)
	}
	_, err = c.observation(obs(1, 2, 3))
	assert.ErrorIs(t, err, ErrTooLarge)
	_, err = c.observation("text")
	assert.ErrorIs(t, err, ErrProtocol)
}
