package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnUnknownEnvironmentIsRefusedWithTheWayToAService: SpatialGym runs on a service
// of its own, and Open takes the name as that service knows it.
func TestAnUnknownEnvironmentIsRefusedWithTheWayToAService(t *testing.T) {
	const text = "envs: [{name: SpatialGym, n_envs: 2, seed: [0, 49, 1]}]"
	o := Options{Known: []string{"sokoban", "remote"}}
	_, err := ReadSpecs([]byte(text), o)
	require.ErrorIs(t, err, ErrFile)
	require.ErrorContains(t, err, `no environment is called "SpatialGym"`)
	require.ErrorContains(t, err, "by the name remote with the address in the option base_urls")
	o.Open = true
	f, err := ReadSpecs([]byte(text), o)
	require.NoError(t, err)
	episodes, err := f.Episodes()
	require.NoError(t, err)
	require.Equal(t, "SpatialGym", episodes[0].Env)
}
