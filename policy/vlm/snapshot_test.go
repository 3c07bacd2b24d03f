package vlm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/internal/weights"
)

// TestSnapshotsSaveWhatTheModelWas: after more training, restoring another checkpoint or
// closing the model, its snapshot saves the bytes that the model would have saved when
// the snapshot was created.
func TestSnapshotsSaveWhatTheModelWas(t *testing.T) {
	t.Parallel()
	adapters := &LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}
	for dtype, options := range map[safetensors.DType][]Options{
		safetensors.F32:  {{}, {Critic: SharedCritic, LoRA: adapters}},
		safetensors.BF16: {{Critic: SharedCritic}, {Critic: SeparateCritic}, {Critic: SeparateCritic, LoRA: adapters}},
	} {
		for _, o := range options {
			t.Run(fmt.Sprint(o.Critic, " ", dtype, " ", o.LoRA != nil), func(t *testing.T) {
				dir := vlmtest.Folder(t, model.Qwen25VL, nil)
				require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
				require.NoError(t, weights.Write(dir, vlmtest.ConfigOf(t, dir), dtype, vlmtest.Spread(3)))
				o.Seed = 9
				m := openTiny(t, dir, o)
				for _, steps := range []int{0, 1} {
					partsOf(m).Train(t, steps)
					want := save(t, m)
					s, err := m.Snapshot(t.Context())
					require.NoError(t, err)
					partsOf(m).Train(t, 1)
					got := filepath.Join(t.TempDir(), "snapshot")
					require.NoError(t, s.Save(t.Context(), got))
					vlmtest.RequireSameFiles(t, want, got)
				}
				s, err := m.Snapshot(t.Context())
				require.NoError(t, err)
				want := save(t, m)
				m.Close()
				got := filepath.Join(t.TempDir(), "snapshot")
				require.NoError(t, s.Save(t.Context(), got))
				vlmtest.RequireSameFiles(t, want, got)
				_, err = m.Snapshot(t.Context())
				require.ErrorIs(t, err, ErrClosed)
			})
		}
	}
}
