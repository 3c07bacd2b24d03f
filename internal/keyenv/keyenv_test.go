package keyenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeysHaveNoWhiteSpaceAround, which secrets that are made from files end in.
func TestKeysHaveNoWhiteSpaceAround(t *testing.T) {
	t.Setenv("VAGEN_TEST_KEY", " secret\n")
	key, err := Read("VAGEN_TEST_KEY")
	require.NoError(t, err)
	require.Equal(t, "secret", key)
	t.Setenv("VAGEN_TEST_KEY", "\n")
	_, err = Read("VAGEN_TEST_KEY")
	require.EqualError(t, err, "the environment variable VAGEN_TEST_KEY is not set or empty")
}
