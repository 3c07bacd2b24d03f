package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/config"
)

// TestThePageOfKeysIsUpToDate: vagen config doc > docs/config.md renews it.
func TestThePageOfKeysIsUpToDate(t *testing.T) {
	raw := testkit.Text(t, "../../docs/config.md")
	require.Equal(t, config.Page(), raw, "run: go run ./cmd/vagen config doc > docs/config.md")
}
