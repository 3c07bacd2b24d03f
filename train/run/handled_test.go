package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train"
)

// TestARunHandlesEveryKeyOutsideTheTrainer: no key is refused in a run of this package.
func TestARunHandlesEveryKeyOutsideTheTrainer(t *testing.T) {
	for _, key := range train.OuterKeys() {
		require.True(t, slices.ContainsFunc(handledKeys, func(h string) bool {
			return h == key || strings.HasSuffix(h, ".") && strings.HasPrefix(key, h)
		}), key)
	}
}
