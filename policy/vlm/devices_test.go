package vlm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/tree"
	"vagen/policy/vlm/internal/weights"
)

// digestOf is the SHA-256 of tensors.
func digestOf(t testing.TB, all ...*weights.Tensors) string {
	t.Helper()
	h := sha256.New()
	for _, x := range all {
		require.NoError(t, x.Each(func(part model.Part, values []float32) error {
			_, err := io.WriteString(h, part.Name)
			return errors.Join(err, binary.Write(h, binary.LittleEndian, values))
		}))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// stateOf digests weights and moments. It also checks that all devices have the same weights.
func stateOf(t testing.TB, m *Model) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, l := range map[string]*learn.Learner{"actor": m.sets.Actor, "critic": m.sets.Critic, "reference": m.sets.Ref} {
		if l == nil {
			continue
		}
		require.NoError(t, l.Unpark())
		out[name] = digestOf(t, l.Weights)
		for i, r := range l.Replicas {
			require.Equal(t, out[name], digestOf(t, r.Weights), "%s on device %d", name, i)
		}
		if l.Adam != nil {
			out[name+" moments"] = fmt.Sprint(digestOf(t, l.Adam.M, l.Adam.V), l.Adam.Steps)
		}
		require.NoError(t, l.Park())
	}
	return out
}

// lived is what a model wrote, scored and reported.
type lived struct {
	Played []policy.Completion
	Scores []*policy.Scores
	Stats  []policy.Stats
}

// live plays ten conversations of two turns, some of them with pictures, and learns from them.
func live(t testing.TB, m *Model, round int, out *lived) {
	t.Helper()
	var keys []uint64
	var prompts []policy.Prompt
	for i := range 10 {
		key := uint64(100*round + i)
		p := policy.Prompt{Conversation: key, Messages: say([]string{"left", "go right"}[i%2]), Seed: key}
		if i%3 == 0 && m.ReadsImages() {
			p.Messages = say("<image> goal?", drawing(uint64(i), 16, 8*(1+i/3)))
		}
		keys, prompts = append(keys, key), append(prompts, p)
	}
	played := stories{}
	out.Played = append(out.Played, played.play(t, m, prompts, policy.Sampling{Temperature: 1, MaxTokens: 5})...)
	for i := range prompts {
		prompts[i].Messages, prompts[i].Seed = say("on"), uint64(1000+i)
	}
	out.Played = append(out.Played, played.play(t, m, prompts[:7], policy.Sampling{Temperature: 1, MaxTokens: 4})...)
	for i := range out.Played {
		out.Played[i].Images = nil // pictures are not results
	}
	m.Forget(keys...)

	rows, written, logProbs := played.rows(keys)
	what := policy.ScoreRequest{LogProbs: true, Entropy: true, Values: m.opts.Critic != NoCritic, Reference: m.opts.Reference}
	s, err := m.Score(t.Context(), &rows, written, what, 1)
	require.NoError(t, err)
	out.Scores = append(out.Scores, s)
	n := len(rows.Tokens)
	b := &policy.Batch{Rows: rows, Weight: evenly(written), Advantages: make([]float32, n), OldLogProbs: logProbs, Reference: s.Reference}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = evenly(written), s.Values, make([]float32, n)
	}
	for i := range n {
		b.Advantages[i] = float32(i%5) - 2
		if what.Values {
			b.Returns[i] = float32(i % 3)
		}
	}
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate, opt.GradClip = 0.01, 0.01, 0.5
	for _, kind := range []loss.Policy{loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, ownLoss{loss.GSPO{Low: 0.2, High: 0.2}}} {
		aim := policy.Objective{Temperature: 1, Policy: kind, EntropyCoef: 0.1}
		if what.Reference {
			aim.KL, aim.KLCoef = "k3", 0.1
		}
		if what.Values {
			aim.ValueCoef, aim.ValueClip = 0.5, 0.2
		}
		if _, own := kind.(ownLoss); own { // of this package, in three calls
			for range 2 {
				stats, err := m.Accumulate(t.Context(), b, aim)
				require.NoError(t, err)
				out.Stats = append(out.Stats, stats)
			}
			stats, err := m.Step(t.Context(), opt)
			require.NoError(t, err)
			require.False(t, stats.Skipped)
			out.Stats = append(out.Stats, stats)
			continue
		}
		stats, err := m.Update(t.Context(), b, aim, opt)
		require.NoError(t, err)
		require.False(t, stats.Skipped)
		out.Stats = append(out.Stats, stats)
	}
	opt.MaxGradNorm = 1e-9 // reached by any gradient
	before := stateOf(t, m)
	stats, err := m.Update(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2}}, opt)
	require.NoError(t, err)
	require.True(t, stats.Skipped)
	require.Equal(t, before, stateOf(t, m))
	out.Stats = append(out.Stats, stats)
}

var deviceOptions = map[string]Options{
	"critic and reference": {Critic: SeparateCritic, Reference: true},
	"adapters":             {Critic: SeparateCritic, Reference: true, LoRA: &LoRA{Rank: 2, Alpha: 4}},
	"frozen tower":         {Critic: SharedCritic, Freeze: []string{"model.visual.*"}, BFloat16: true, Recompute: RecomputeBlocks},
	"rows":                 {MicroRows: 1},
}

func TestAnyNumberOfDevicesGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(deviceOptions)) {
		t.Run(name, func(t *testing.T) {
			dir := tinyFolder(t, model.Qwen25VL, nil)
			var want lived
			var state map[string]string
			for _, n := range []int{1, 2, 4, 8} {
				if n != 1 && n != 4 && name != "adapters" {
					continue
				}
				o := deviceOptions[name]
				o.Devices, o.SameBytes = n, true
				m := openTiny(t, dir, o)
				require.Len(t, m.devices, n)
				var got lived
				live(t, m, 1, &got)
				require.NoError(t, m.Tie(t.Context()))
				now := stateOf(t, m)
				if n == 1 {
					want, state = got, now
				}
				require.Equal(t, want, got, "%d devices", n)
				require.Equal(t, state, now, "%d devices", n)
			}
		})
	}
}

// TestAPartForEachDevice: the division of work changes only rounding, and larger batches need
// fewer programs' calls and sums.
func TestAPartForEachDevice(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	eight := openTiny(t, dir, Options{Critic: SeparateCritic, Devices: 2})
	two := openTiny(t, dir, Options{Critic: SeparateCritic, Devices: 2, PartPerDevice: true})
	require.Equal(t, []int{8, 2}, []int{eight.parts, two.parts})
	b := playedBatch(t, eight)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, EntropyCoef: 0.1, ValueCoef: 0.5}
	actor8, critic8, stats8 := gradientsOf(t, eight, b, aim)
	actor2, critic2, stats2 := gradientsOf(t, two, b, aim)
	requireGradients(t, actor8, actor2)
	requireGradients(t, critic8, critic2)
	require.InEpsilon(t, stats8.GradNorm, stats2.GradNorm, 1e-4)
	w := Workload{Train: true, Rows: 64, Tokens: 32}
	most, err := eight.Plan(w)
	require.NoError(t, err)
	least, err := two.Plan(w)
	require.NoError(t, err)
	require.Less(t, least.Gradients, most.Gradients, "one sum of gradients on a device, not three")

	var runs [2]lived
	for i := range runs {
		live(t, openTiny(t, dir, Options{Devices: 2, PartPerDevice: true}), 0, &runs[i])
	}
	require.Len(t, runs[0].Played, 17)
	require.Equal(t, runs[0], runs[1], "a repeated run has the same bytes")

	_, err = Open(t.Context(), dir, Options{Backend: backend.Go, SameBytes: true, PartPerDevice: true})
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "SameBytes and PartPerDevice exclude each other")
}

// TestTreeStepsAreStepsOfTheWholeBatch: dividing a step changes only rounding.
func TestTreeStepsAreStepsOfTheWholeBatch(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	plain := openTiny(t, dir, Options{Critic: SeparateCritic})
	several := openTiny(t, dir, Options{Critic: SeparateCritic, Devices: 4})
	b := playedBatch(t, plain)
	aim := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}, EntropyCoef: 0.1, ValueCoef: 0.5}
	actor, critic, stats := gradientsOf(t, plain, b, aim)
	actor4, critic4, stats4 := gradientsOf(t, several, b, aim)
	requireGradients(t, actor, actor4)
	requireGradients(t, critic, critic4)
	require.InEpsilon(t, stats.GradNorm, stats4.GradNorm, 1e-4)
	require.InDelta(t, stats.PolicyLoss, stats4.PolicyLoss, 1e-5)
}

func TestARunOfOneDeviceContinuesOnFour(t *testing.T) {
	t.Parallel()
	dir := tinyFolder(t, model.Qwen25VL, nil)
	o := deviceOptions["adapters"]
	o.SameBytes = true
	one := openTiny(t, dir, o)
	var out, want lived
	live(t, one, 1, &out)
	saved := save(t, one)
	live(t, one, 2, &want)

	o.Devices = 4
	four := openTiny(t, dir, o)
	require.NoError(t, four.Restore(t.Context(), saved))
	var got lived
	live(t, four, 2, &got)
	require.Equal(t, want, got)
	require.Equal(t, stateOf(t, one), stateOf(t, four))

	snapshot, err := four.SnapshotPolicy(t.Context())
	require.NoError(t, err)
	prompts := []policy.Prompt{{Conversation: 1, Messages: say("left"), Seed: 1}, {Conversation: 2, Messages: say("right"), Seed: 2}, {Conversation: 3, Messages: say("goal"), Seed: 3}}
	sampling := policy.Sampling{Temperature: 1, MaxTokens: 6}
	first, err := snapshot.Generate(t.Context(), prompts, sampling)
	require.NoError(t, err)
	second, err := one.Generate(t.Context(), prompts, sampling)
	require.NoError(t, err)
	require.Equal(t, second, first)
	require.NoError(t, snapshot.Close())
}

// TestDevicesShareTheMomentsAndLeakNothing: each trained array has its moments on one device.
func TestDevicesShareTheMomentsAndLeakNothing(t *testing.T) {
	t.Parallel()
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic, Reference: true, Devices: 4})
	var held [][2]int64
	for round := range 2 {
		live(t, m, round, &lived{})
		require.NoError(t, m.Tie(t.Context()))
		require.NoError(t, m.Restore(t.Context(), save(t, m)))
		var now [][2]int64
		for _, d := range m.devices {
			arrays, bytes := d.Live()
			now = append(now, [2]int64{arrays, bytes})
		}
		if round == 0 {
			held = now
		}
		require.Equal(t, held, now, "round %d", round)
	}
	total := 8 * int64(sizeOf(m.sets.Actor)+sizeOf(m.sets.Critic)) // two moments of four bytes
	weights := m.sets.Actor.Weights.Bytes() + m.sets.Critic.Weights.Bytes() + m.sets.Ref.Weights.Bytes()
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
	m := newTiny(t, model.Qwen25VL, Options{SameBytes: true})
	rows := policy.Rows{Offsets: []int{0}}
	for i := range 30 {
		for range 3 + i {
			rows.Tokens = append(rows.Tokens, 7)
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	want := trues(len(rows.Tokens))
	leaves, err := m.sets.Packer(m.net).Leaves(&rows, want)
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

	few, _ := pick(policy.Rows{Tokens: rows.Tokens, Offsets: rows.Offsets, Images: make([][]policy.Image, 30)}, 29, 3, 5)
	leaves, err = m.sets.Packer(m.net).Leaves(&few, trues(len(few.Tokens)))
	require.NoError(t, err)
	used := 0
	for _, packs := range leaves {
		used += min(1, len(packs))
	}
	require.Equal(t, 3, used, "a leaf for each row")

	none, err := m.sets.Packer(m.net).Leaves(&few, make([]bool, len(few.Tokens)))
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestNumbersOfDevicesAreChecked(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	for n, says := range map[int]string{
		3: "must be 1, 2, 4 or 8", 16: "at most 8 devices are allowed", -2: "must be 1, 2, 4 or 8",
	} {
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, Devices: n})
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, fmt.Sprintf("Devices: bad number of devices: %d, ", n))
		require.ErrorContains(t, err, says)
	}
	m := openTiny(t, dir, Options{Devices: AllDevices, PreferDevices: 4})
	require.Len(t, m.devices, 1, "a CPU is one device unless more are asked for")
	require.Zero(t, m.parts)
}
