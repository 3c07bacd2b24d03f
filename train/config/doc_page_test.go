package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

// TestThePageOfKeysIsUpToDate: vagen config doc > docs/config.md renews it.
func TestThePageOfKeysIsUpToDate(t *testing.T) {
	raw, err := os.ReadFile("../../docs/config.md")
	require.NoError(t, err)
	require.Equal(t, config.Page(), string(raw), "run: go run ./cmd/vagen config doc > docs/config.md")
}
