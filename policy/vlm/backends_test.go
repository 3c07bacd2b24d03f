package vlm

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// The first round allocates permanent arrays, such as moments; later rounds must not
// change the numbers of arrays and goroutines.
func TestNothingLeaksRoundAfterRound(t *testing.T) {
	m := newTiny(t, model.Qwen3VL, Options{Critic: SeparateCritic, Reference: true, MicroTokens: 64})
	rows, want := partsOf(m).FourRows(t)
	var arrays, bytes int64
	goroutines := 0
	for round := range 3 {
		vlmtest.PlayOn(t, m, m.ReadsImages(), policy.Sampling{Temperature: 1, MaxTokens: 6})
		m.Forget(1, 2)
		_, err := m.Score(t.Context(), &rows, want, everything, 1)
		require.NoError(t, err)
		partsOf(m).Train(t, 1)
		require.NoError(t, m.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), save(t, m)))
		n, b := m.dev.Live()
		if round == 0 {
			arrays, bytes, goroutines = n, b, runtime.NumGoroutine()
			continue
		}
		require.Equal(t, []int64{arrays, bytes}, []int64{n, b}, "round %d", round)
		for tries := 0; runtime.NumGoroutine() > goroutines; tries++ { // finished workers may not have exited yet
			require.Less(t, tries, 10000, "round %d", round)
			time.Sleep(time.Millisecond)
		}
	}
}
