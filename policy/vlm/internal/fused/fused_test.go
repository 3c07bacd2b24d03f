package fused

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// XLA's flag for the instructions that it may use holds for all products of the kernels.
func TestRegisterKeepsToTheInstructionsOfXLA(t *testing.T) {
	if !Able() {
		t.Skip("no kernels")
	}
	for flags, want := range map[string]bool{
		"":                       true,
		"--xla_cpu_max_isa=AVX2": false,
		"--xla_cpu_max_isa=sse4_2 --xla_dump_to=d":      false,
		"--xla_dump_to=d --xla_cpu_max_isa=avx512_bf16": true,
	} {
		t.Setenv("XLA_FLAGS", flags)
		require.ErrorContains(t, Register("none"), "the plugin is not loaded")
		require.Equal(t, want, AllowAVX512(true), flags)
	}
}
