package vlm

import (
	"maps"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// The plan counts states once, however long the rows are, and entries by slots.
func TestPlansCountTheStatesOfHybridModels(t *testing.T) {
	t.Parallel()
	m := newTiny(t, model.Qwen35Text, Options{})
	_, weights := m.dev.Live()
	_, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 1, Messages: vlmtest.Say("left")},
		{Conversation: 2, Messages: vlmtest.Say("right")}}, policy.Sampling{MaxTokens: 32})
	require.NoError(t, err)
	_, held := m.dev.Live()
	s := m.gen.Batches[0]
	const state = 4 * (2*28 + 2*8*6) // bytes of a row's window of queries, keys and values, and of two heads' states
	require.Equal(t, held-weights, 2*m.cfg.CacheBytes(s.Slots+s.RecentLen, dtypes.Float32))
	require.Equal(t, int64(state), m.cfg.CacheBytes(0, dtypes.Float32))
	require.Equal(t, int64(2*4*2*16), m.cfg.CacheBytes(1, dtypes.Float32)-state,
		"a key and a value of two heads in the one layer with attention")
}

// Layers of a type share their programs, also in generation, so that a deeper model compiles no more.
func TestProgramsOfHybridModelsDoNotGrowWithTheDepth(t *testing.T) {
	t.Parallel()
	var want []string
	for _, depth := range []int{3, 5} { // the last layer, of which single tokens are read, is of the same type
		m := openTiny(t, vlmtest.Folder(t, model.Qwen35Text, vlmtest.Object{"num_hidden_layers": depth}), Options{})
		for _, say := range []string{"left", "right"} {
			prompt := policy.Prompt{Conversation: 1, Messages: vlmtest.Say(say)}
			_, err := m.Generate(t.Context(), []policy.Prompt{prompt}, policy.Sampling{MaxTokens: 3})
			require.NoError(t, err)
		}
		names := slices.Sorted(maps.Keys(m.net.Programs))
		if want == nil {
			want = names
		}
		require.Equal(t, want, names)
	}
}

// A state cannot be cut back to a token at which a row has ended.
func TestHybridModelsMakeOneTokenPerCall(t *testing.T) {
	t.Parallel()
	vlmtest.OnCPU(t)
	o := Options{Backend: devicetest.Backend()}
	dir := vlmtest.Folder(t, model.Qwen35Text, nil)
	require.Equal(t, 1, generate.TokensPerCall(0, generate.Programs{Net: openTiny(t, dir, o).net}))
	o.TokensPerCall = 4
	_, err := Open(t.Context(), dir, o)
	testkit.Error(t, err, ErrOption, "TokensPerCall is 4, must be 0 or 1 for a model whose layers keep a state")
}
