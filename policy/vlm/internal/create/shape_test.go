package create

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/tokenizer"
)

// The sizes are those that the model cards give.
func TestNamedShapesHaveTheSizeOfTheirModels(t *testing.T) {
	tok, err := tokenizer.NewTiny(nil)
	require.NoError(t, err)
	want := map[string]float64{"llama-135m": 134.5e6, "qwen2-0_5b": 494.0e6, "qwen3-0_6b": 596.0e6,
		"qwen2_5_vl-3b":     3754.6e6,
		"qwen3_5_text-0_8b": 752.4e6, "qwen3_5-0_8b": 852.9e6}
	for _, name := range ShapeNames() {
		s, err := Named(name)
		require.NoError(t, err)
		object, err := Config(s, tok)
		require.NoError(t, err, name)
		raw, err := json.Marshal(object)
		require.NoError(t, err)
		cfg, err := model.ParseConfig(raw)
		require.NoError(t, err, name)
		size := 0
		for _, g := range cfg.Groups().All() {
			size += g.Size()
		}
		if n, ok := want[name]; ok {
			assert.InEpsilon(t, n, size, 0.001, name)
		}
	}
	_, err = Named("llama")
	require.ErrorIs(t, err, ErrShape)
	assert.ErrorContains(t, err, strings.Join(ShapeNames(), ", "))
}
