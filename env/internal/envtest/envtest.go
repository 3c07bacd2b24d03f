// Package envtest has what the tests of several environments do alike.
package envtest

import (
	"image/color"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/tiles"
	"vagen/internal/golden"
)

// Started makes an environment and resets it.
func Started[O any, E env.Env](t testing.TB, create func(O) (E, error), o O, seed int64) E {
	t.Helper()
	e, err := create(o)
	require.NoError(t, err)
	Reset(t, e, seed)
	return e
}

// Reset begins an episode.
func Reset(t testing.TB, e env.Env, seed int64) env.Observation {
	t.Helper()
	o, err := e.Reset(t.Context(), seed)
	require.NoError(t, err)
	return o
}

// System returns the system prompt.
func System(t testing.TB, e env.Env) env.Observation {
	t.Helper()
	o, err := e.System(t.Context())
	require.NoError(t, err)
	return o
}

// Play plays one turn.
func Play(t testing.TB, e env.Env, response string) env.Outcome {
	t.Helper()
	out, err := e.Step(t.Context(), response)
	require.NoError(t, err)
	return out
}

// Options are the options of an environment as a configuration has them: keys and values of a mapping in YAML.
func Options(keys string) (options map[string]any) {
	if err := yaml.Unmarshal([]byte("{"+keys+"}"), &options); err != nil {
		panic(err)
	}
	return options
}

// Refused requires that f refuses each configuration of testdata/refused.yaml with an error that contains its key.
func Refused(t testing.TB, f env.Factory) {
	t.Helper()
	for want, config := range golden.Table[map[string]map[string]any](t, "refused.yaml") {
		_, err := f(config)
		require.ErrorContains(t, err, want, "%v", config)
	}
}

// Differ requires that the kinds of cells, which are numbered from 0, look different in every size.
func Differ[K ~uint8, I comparable](t testing.TB, kinds K, inkAt func(kind K, x, y float64) I) {
	t.Helper()
	for _, size := range []int{14, 28, 64} {
		for a := range kinds {
			for b := range a {
				n := 0
				for i := range size * size {
					x, y := tiles.Point(i%size, i/size, size)
					if inkAt(a, x, y) != inkAt(b, x, y) {
						n++
					}
				}
				require.Greater(t, n, size*size/12, "kinds %d and %d at %d pixels", a, b, size)
			}
		}
	}
}

// Apart requires that the colours of inks differ by more than least, added up over red, green and blue.
func Apart[I any](t testing.TB, least int, inks []I, shade func(I) color.RGBA) {
	t.Helper()
	diff := func(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }
	for i, a := range inks {
		for _, b := range inks[:i] {
			x, y := shade(a), shade(b)
			require.Greater(t, diff(x.R, y.R)+diff(x.G, y.G)+diff(x.B, y.B), least, "inks %v and %v: %v %v", a, b, x, y)
		}
	}
}
