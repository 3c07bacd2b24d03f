package learn_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/tree"
	. "vagen/policy/vlm/internal/vlmtest"
)

var deviceOptions = map[string]Options{
	"critic and reference": {Critic: learn.SeparateCritic, Reference: true},
	"adapters":             {Critic: learn.SeparateCritic, Reference: true, LoRA: &LoRA{Rank: 2, Alpha: 4}},
	"frozen tower": {Critic: learn.SharedCritic, Freeze: []string{"model.visual.*"}, BFloat16: true,
		Recompute: vlm.RecomputeBlocks},
	"rows":                 {MicroRows: 1},
	"delta nets":           {Critic: learn.SeparateCritic},
	"delta nets, adapters": {Critic: learn.SeparateCritic, LoRA: &LoRA{Rank: 2, Alpha: 4}}, // with ranks only
}

// deviceFolder is a model for some of deviceOptions.
func deviceFolder(t *testing.T, name string) string {
	if strings.HasPrefix(name, "delta nets") {
		return Folder(t, model.Qwen35, nil)
	}
	return Folder(t, model.Qwen25VL, nil)
}

func TestAnyNumberOfDevicesGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(deviceOptions)) {
		if name == "delta nets, adapters" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := deviceFolder(t, name)
			var want lived
			var state map[string]string
			for _, n := range []int{1, 2, 4, 8} {
				if n != 1 && n != 4 && name != "adapters" {
					continue
				}
				o := deviceOptions[name]
				o.Devices, o.SameBytes = n, true
				m := Open(t, dir, o)
				require.Len(t, m.Devices, n)
				var got lived
				live(t, m, 1, &got)
				require.NoError(t, m.Sets.Tie(t.Context()))
				now := m.StateOf(t)
				if n == 1 {
					want, state = got, now
				}
				require.Equal(t, want, got, "%d devices", n)
				require.Equal(t, state, now, "%d devices", n)
			}
		})
	}
}

// TestAnyDivisionOfAStepIsTheWholeStep: the division of work changes only rounding, and larger batches need fewer
// programs' calls and sums.
func TestAnyDivisionOfAStepIsTheWholeStep(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	plain := Open(t, dir, Options{Critic: learn.SeparateCritic})
	b := playedBatch(t, plain)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, EntropyCoef: 0.1,
		ValueCoef: 0.5}
	actor, critic, stats := gradientsOf(t, plain, b, aim)
	for parts, o := range map[int]Options{8: {Devices: 4}, 2: {Devices: 2, PartPerDevice: true}} {
		o.Critic = learn.SeparateCritic
		m := Open(t, dir, o)
		require.Equal(t, parts, m.Sets.Parts)
		gotActor, gotCritic, got := gradientsOf(t, m, b, aim)
		requireGradients(t, actor, gotActor)
		requireGradients(t, critic, gotCritic)
		require.InEpsilon(t, stats.GradNorm, got.GradNorm, 1e-4)
		require.InDelta(t, stats.PolicyLoss, got.PolicyLoss, 1e-5)
	}

	var runs [2]lived
	for i := range runs {
		m := Open(t, dir, Options{Devices: 2, PartPerDevice: true})
		live(t, m, 0, &runs[i])
	}
	require.Len(t, runs[0].Played, 17)
	require.Equal(t, runs[0], runs[1], "a repeated run has the same bytes")
}

func TestARunOfOneDeviceContinuesOnFour(t *testing.T) {
	t.Parallel()
	dir := Folder(t, model.Qwen25VL, nil)
	o := deviceOptions["adapters"]
	o.SameBytes = true
	one := Open(t, dir, o)
	var out, want lived
	live(t, one, 1, &out)
	saved := one.Saved(t)
	live(t, one, 2, &want)

	o.Devices = 4
	four := Open(t, dir, o)
	require.NoError(t, four.Restore(t.Context(), saved))
	var got lived
	live(t, four, 2, &got)
	require.Equal(t, want, got)
	require.Equal(t, one.StateOf(t), four.StateOf(t))
}

// TestDevicesShareTheMomentsAndLeakNothing: each trained array has its moments on one device.
func TestDevicesShareTheMomentsAndLeakNothing(t *testing.T) {
	t.Parallel()
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, Reference: true, Devices: 4})
	var held [][2]int64
	for round := range 2 {
		live(t, m, round, &lived{})
		require.NoError(t, m.Sets.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), m.Saved(t)))
		var now [][2]int64
		for _, d := range m.Devices {
			arrays, bytes := d.Live()
			now = append(now, [2]int64{arrays, bytes})
		}
		if round == 0 {
			held = now
		}
		require.Equal(t, held, now, "round %d", round)
	}
	total := 8 * int64(sizeOf(m.Sets.Actor)+sizeOf(m.Sets.Critic)) // two moments of four bytes
	weights := m.Sets.Actor.Weights.Bytes() + m.Sets.Critic.Weights.Bytes() + m.Sets.Ref.Weights.Bytes()
	var moments int64
	for i, h := range held {
		own := h[1] - weights
		require.Less(t, own, total/2, "device %d", i)
		moments += own
	}
	require.Equal(t, total, moments)
}

func sizeOf(l *learn.Learner) (n int) {
	for _, g := range l.Weights.Groups {
		n += g.Size()
	}
	return n
}

func TestLeavesDivideTheRows(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{SameBytes: true})
	rows := policy.Rows{Offsets: []int{0}}
	for i := range 30 {
		for range 3 + i {
			rows.Tokens = append(rows.Tokens, 7)
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	want := Trues(len(rows.Tokens))
	leaves, err := m.Sets.Packer(m.Net).Leaves(&rows, want)
	require.NoError(t, err)
	require.Len(t, leaves, tree.Leaves)
	seen := map[int]int{}
	for i, packs := range leaves {
		tokens := 0
		for _, p := range packs {
			require.LessOrEqual(t, p.Size(), max(128, p.Length))
			for _, at := range p.Source {
				seen[at]++
			}
			tokens += len(p.At)
		}
		require.InDelta(t, float64(len(want))/tree.Leaves, tokens, float64(len(want))/tree.Leaves, "leaf %d", i)
	}
	require.Len(t, seen, len(want)-rows.Len()) // all but the first of each row

	few, _ := pick(policy.Rows{Tokens: rows.Tokens, Offsets: rows.Offsets, Images: make([][]policy.Image, 30)},
		29, 3, 5)
	leaves, err = m.Sets.Packer(m.Net).Leaves(&few, Trues(len(few.Tokens)))
	require.NoError(t, err)
	used := 0
	for _, packs := range leaves {
		used += min(1, len(packs))
	}
	require.Equal(t, 3, used, "a leaf for each row")

	none, err := m.Sets.Packer(m.Net).Leaves(&few, make([]bool, len(few.Tokens)))
	require.NoError(t, err)
	require.Nil(t, none)
}
