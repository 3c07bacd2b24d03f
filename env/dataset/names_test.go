package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnUnknownEnvironmentIsRefusedWithTheWayToAService: SpatialGym runs on its own
// service; with Open its name is accepted.
func TestAnUnknownEnvironmentIsRefusedWithTheWayToAService(t *testing.T) {
	const text = "envs: [{name: SpatialGym, n_envs: 2, seed: [0, 49, 1]}]"
	o := Options{Known: []string{"sokoban", "remote"}}
	_, err := ReadSpecs([]byte(text), o)
	require.ErrorIs(t, err, ErrFile)
	require.ErrorContains(t, err, `environment "SpatialGym" is unknown`)
	require.ErrorContains(t, err, "set the name remote and the service's address in the option base_urls")
	o.Open = true
	f, err := ReadSpecs([]byte(text), o)
	require.NoError(t, err)
	episodes, err := f.Episodes()
	require.NoError(t, err)
	require.Equal(t, "SpatialGym", episodes[0].Env)
}
