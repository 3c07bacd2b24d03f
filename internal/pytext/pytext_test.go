package pytext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpaceIsPythons(t *testing.T) {
	for r, want := range map[rune]bool{' ': true, '\v': true, 0x1c: true, 0x1f: true, 0x1b: false, 0x85: true, 0xa0: true,
		0x3000: true, 0x2028: true, 0x1680: true, 0x200b: false, 0xfeff: false, 0x180e: false, '_': false} {
		require.Equal(t, want, Space(r), "%U", r)
	}
	require.Equal(t, "a\u200b", Strip("\u3000\x1ca\u200b\u0085\n"))
}
