package numpyrand

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStoredStreamContinuesWhereItWas with and without a kept half.
func TestAStoredStreamContinuesWhereItWas(t *testing.T) {
	for draws := range 7 {
		g := NewPCG64(uint64(draws))
		for range draws {
			g.Uint32()
		}
		text, err := g.MarshalText()
		require.NoError(t, err)
		var h PCG64
		require.NoError(t, h.UnmarshalText(text))
		again, err := h.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, again)
		require.Equal(t, [2]uint64{g.Uint64(), uint64(g.Uint32())}, [2]uint64{h.Uint64(), uint64(h.Uint32())})
	}
}

func TestDamagedStatesAreRefused(t *testing.T) {
	text, err := NewPCG64(3).MarshalText()
	require.NoError(t, err)
	for what, bad := range map[string]string{
		"found 0 digits":                   "",
		"found 73 digits":                  string(text[1:]),
		"invalid byte":                     "x" + string(text[1:]),
		"the increment is even":            strings.Repeat("0", 74),
		"half of a draw is 0x0 and":        string(text[:72]) + "02",
		"half of a draw is 0x1 and":        string(text[:64]) + "0000000100",
		"half of a draw is 0xff000000 and": string(text[:64]) + "ff00000000",
	} {
		g := *NewPCG64(5)
		require.ErrorContains(t, g.UnmarshalText([]byte(bad)), what)
		require.Equal(t, *NewPCG64(5), g, "nothing has changed")
	}
}
