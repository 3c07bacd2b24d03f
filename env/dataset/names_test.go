package dataset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestAnUnknownEnvironmentIsRefusedWithTheWayToAService, and one of the original systems with
// the lines to write; with Open its name is accepted.
func TestAnUnknownEnvironmentIsRefusedWithTheWayToAService(t *testing.T) {
	const text = "envs: [{name: SpatialGym, n_envs: 2, seed: [0, 49, 1]}]"
	o := Options{Known: []string{"sokoban", "remote"}}
	_, err := ReadSpecs([]byte(strings.Replace(text, "SpatialGym", "Maze", 1)), o)
	testkit.Error(t, err, ErrFile, `environment "Maze" is unknown`,
		"set the name remote and the service's address in the option base_urls")
	_, err = ReadSpecs([]byte(text), o)
	testkit.Error(t, err, ErrFile, `environment "SpatialGym": SpatialGym of the original runs on its own service`)
	const lines = `name: RemoteEnv with config: {base_urls: "http://HOST:PORT", …}`
	require.ErrorContains(t, err, lines)
	_, err = registered("alfworld", o.Known)
	require.ErrorContains(t, err, lines)
	_, err = ReadSpecs(
		[]byte(
			`envs: [{name: RemoteEnv, n_envs: 2, seed: [0, 49, 1], config: {base_urls: "http://127.0.0.1:8000", exp_type: active}}]`,
		),
		o,
	)
	require.NoError(t, err, "the lines")
	o.Open = true
	f, err := ReadSpecs([]byte(text), o)
	require.NoError(t, err)
	episodes, err := f.Episodes()
	require.NoError(t, err)
	require.Equal(t, "SpatialGym", episodes[0].Env)
}
