package vlm

import (
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/plan"
	"vagen/policy/vlm/internal/vlmtest"
)

func planOf(t *testing.T, m *Model, w Workload) MemoryPlan {
	t.Helper()
	p, err := m.Plan(w)
	require.NoError(t, err)
	return p
}

// heldBy is the size of the arrays on all devices.
func heldBy(m *Model) (sum int64) {
	for _, d := range m.devices {
		_, bytes := d.Live()
		sum += bytes
	}
	return sum
}

// The planned weights and moments equal the arrays on the device, byte for byte.
func TestPlannedWeightsAndMomentsAreThoseThatAreThere(t *testing.T) {
	for name, o := range map[string]Options{
		"policy":          {},
		"shared critic":   {Critic: SharedCritic},
		"three models":    {Critic: SeparateCritic, Reference: true},
		"adapters":        {LoRA: &LoRA{Rank: 2, Alpha: 4}, Reference: true},
		"frozen tower":    {Freeze: []string{"model.visual.*"}},
		"frozen, adapted": {LoRA: &LoRA{Rank: 2, Alpha: 4}, Critic: SeparateCritic},
		"four devices":    {LoRA: &LoRA{Rank: 2, Alpha: 4}, Reference: true, Devices: 4},
	} {
		m := newTiny(t, model.Qwen25VL, o)
		rows, want := partsOf(m).FourRows(t)
		p := planOf(t, m, Workload{Train: true, Rows: 4, Tokens: 21})
		held := heldBy(m)
		require.Equal(t, held, p.Weights, name)
		b := &policy.Batch{Rows: rows, Weight: vlmtest.Evenly(want)}
		b.Returns, b.OldValues, b.ValueWeight = b.Weight, b.Weight, b.Weight
		b.OldLogProbs, b.Advantages = b.Weight, b.Weight
		o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2, Clamp: true}}
		if m.opts.Critic != NoCritic {
			o.ValueCoef = 1
		}
		_, err := m.Update(t.Context(), b, o, policy.DefaultOptimizer())
		require.NoError(t, err)
		held = heldBy(m)
		require.Equal(t, held, p.Weights+p.Moments, name)
	}
}

// The devices' own count of a training step, in which activations are the larger part, is met within a fifth, for
// every choice of what is computed again, and for every number of devices.
func TestPlannedStepsTakeWhatWasPlanned(t *testing.T) {
	t.Parallel()
	step := func(vocab, sequences int, o Options) (m *Model) {
		o.MicroTokens, o.HeadTokens = 1024, 32
		m = openTiny(t, vlmtest.Folder(t, model.Llama, vlmtest.Object{"num_hidden_layers": 4, "vocab_size": vocab}), o)
		rows := policy.Rows{Tokens: make([]int32, sequences*128), Offsets: []int{0}}
		for range sequences {
			rows.Offsets = append(rows.Offsets, rows.Offsets[len(rows.Offsets)-1]+128)
		}
		partsOf(m).Imitate(t, rows, vlmtest.Trues(len(rows.Tokens)), 1e-3) // moments exist from the first step on
		partsOf(m).Imitate(t, rows, vlmtest.Trues(len(rows.Tokens)), 1e-3)
		p := planOf(t, m, Workload{Train: true, Rows: sequences, Tokens: 128})
		used := p.Logits
		for _, d := range m.devices { // temporary memory inside a program is not counted
			used += d.Peak() + 4*plan.InsideLayer(m.net.Layers, 256, 2, 128)
		}
		require.InEpsilon(t, used, p.Peak()-p.Program-p.Heap-p.Training, 0.2, "recompute %s, %d devices: %v", o.Recompute,
			len(m.devices), p)
		return m
	}
	var before int64
	for _, r := range []Recompute{RecomputeNothing, RecomputeAttention, RecomputeBlocks} {
		m := step(272, 2, Options{Recompute: r})
		if before > 0 {
			require.Less(t, m.dev.Peak(), before, "recompute %s", r)
		}
		before = m.dev.Peak()
	}
	for _, n := range []int{1, 2, 4, 8} {
		step(2048, 8, Options{Devices: n, SameBytes: true})
	}
}

func TestPlannedCachesAreThoseOfConversations(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	_, weights := m.dev.Live()
	prompts := []policy.Prompt{{Conversation: 1, Messages: vlmtest.Say("left"), Seed: 1},
		{Conversation: 2, Messages: vlmtest.Say("right"), Seed: 2}}
	_, err := m.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 32})
	require.NoError(t, err)
	_, held := m.dev.Live()
	n := m.gen.Batches[0].Slots
	p := planOf(t, m, Workload{Generate: true, Rows: 2, Tokens: n})
	require.Equal(t, weights, p.Weights)
	require.GreaterOrEqual(t, p.Caches, 2*(held-weights), "a grown copy beside the old one")
	require.Greater(t, planOf(t, m, Workload{Generate: true, Rows: 200, Tokens: n}).Caches, 20*p.Caches)
}

// TestThePlanCountsCopiesOfThePolicy: the trained weights that copies hold, and the caches of
// their conversations, at the same time as all other work.
func TestThePlanCountsCopiesOfThePolicy(t *testing.T) {
	for name, o := range map[string]Options{
		"weights":      {Critic: SharedCritic},
		"adapters":     {LoRA: &LoRA{Rank: 2, Alpha: 4}, Critic: SharedCritic},
		"four devices": {LoRA: &LoRA{Rank: 2, Alpha: 4}, Devices: 4},
		"sharded":      {Devices: 2, ShardWeights: true},
	} {
		m := newTiny(t, model.Qwen25VL, o)
		before := heldBy(m)
		for range 3 {
			l, err := m.SnapshotPolicy(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
		require.Equal(t, heldBy(m)-before, 3*m.planSetup().CopiedBytes(), name)
		w := Workload{Generate: true, Score: true, Train: true, Rows: 8, Tokens: 64}
		none := planOf(t, m, w)
		require.Zero(t, none.Snapshots)
		w.Snapshots = 3
		three := planOf(t, m, w)
		require.Equal(t, 3*(m.planSetup().CopiedBytes()+none.Caches), three.Snapshots, name)
		require.Equal(t, none.Caches, three.Caches)
		three.Program, three.Heap = none.Program, none.Heap // those of the process change
		require.Equal(t, none.Peak()+three.Snapshots, three.Peak())
		w.Generate = false
		require.Equal(t, three.Snapshots, planOf(t, m, w).Snapshots, "%s: copies generate, also if the model does not", name)
		require.Zero(t, planOf(t, m, w).Caches)
		w.Generate, w.Played = true, 24
		more, validating := planOf(t, m, w), planOf(t, m, Workload{Generate: true, Rows: 24, Tokens: 64})
		require.Equal(t, validating.Caches, more.Caches, name)
		require.Greater(t, more.Caches, none.Caches)
		require.Equal(t, three.Snapshots, more.Snapshots, "copies play no validation")
	}
}

// The plan includes rows that move to another batch, in addition to their old batch,
// which grows at the same time, and rows of several batches.
func TestPlannedCachesIncludeRegroupedRows(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	one := openTiny(t, dir, Options{MaxRows: 1})
	prompts := vlmtest.Crowd(t, one, false, 16, 4, 100, func(i int) bool { return i < 4 || i >= 8 })
	for i := range 4 {
		prompts[8+i].MaxTokens = 40 // so that the last four have room
	}
	for name, rows := range map[string]int{"half of one batch": 8, "three batches, one after the other": 16} {
		m := openTiny(t, dir, Options{MaxRows: 8, CacheTokens: 384})
		_, weights := m.dev.Live()
		_, err := m.Generate(t.Context(), prompts[:rows], policy.Sampling{Temperature: 1, MaxTokens: 100})
		require.NoError(t, err)
		require.True(t, vlmtest.Regrouped(m.net))
		require.Equal(t, 384, m.gen.Batches[0].Slots)
		const inputs = 32 << 10 // of one program, such as masks
		plan := m.planSetup().AllCaches(Workload{Rows: rows, Tokens: 384})
		require.LessOrEqual(t, m.dev.Peak()-weights, plan+inputs, name)
		require.Greater(t, m.dev.Peak()-weights, plan*8/10, name)
	}
}

// collect removes the garbage of earlier tests, too: what only a cleanup keeps is freed by the
// collection after the one that starts the cleanup.
func collect() {
	var m runtime.MemStats
	for last := uint64(math.MaxUint64); ; last = m.HeapAlloc {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc+1<<20 > last {
			return
		}
		time.Sleep(10 * time.Millisecond) // cleanups run in a goroutine of their own
	}
}

// The Go heap is counted with garbage that has not been collected yet, without the
// program itself.
func TestPlansCountTheHeapOfTheProcess(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	w := Workload{Train: true, Rows: 1, Tokens: 8}
	collect()
	before := planOf(t, m, w)
	require.Positive(t, before.Heap)
	const size = 64 << 20
	pictures := make([]byte, size)
	for i := range pictures {
		pictures[i] = byte(i)
	}
	collect()
	after := planOf(t, m, w)
	require.InDelta(t, 2*size, after.Heap-before.Heap, size/2, "as much again, before it is collected")
	require.InDelta(t, before.Program, after.Program, size/2)
	runtime.KeepAlive(pictures)
}

// A policy that only generates drops images early; one that is trained keeps them.
func TestPlansIncludeReturnedImages(t *testing.T) {
	c := generate.NewPictureCache(generate.PlayedPictures)
	for i := range byte(40) {
		c.Put([32]byte{i}, net.Picture{Pixels: make([]byte, 4<<20)})
		require.EqualValues(t, max(0, 2*(int(i)+1)*4<<20-c.Size-c.OldSize), c.Growth())
	}
	require.Greater(t, c.Growth(), int64(90<<20))
	m := newTiny(t, model.Qwen25VL, Options{})
	w := Workload{Train: true, Rows: 1, Tokens: 8}
	before := planOf(t, m, w)
	m.text.Pictures.Seen = 200 << 20
	require.InDelta(t, 2*400<<20, planOf(t, m, w).Heap-before.Heap, 64<<20)
	m.text.Pictures.Seen = 1 << 40
	require.InDelta(t, 2*generate.LearnedPictures, planOf(t, m, w).Heap-before.Heap, 64<<20)
}

func TestFewerWantedTokensTakeFewerLogits(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{HeadTokens: 512, MicroTokens: 1024})
	all := planOf(t, m, Workload{Train: true, Rows: 2, Tokens: 256})
	some := planOf(t, m, Workload{Train: true, Rows: 2, Tokens: 256, Wanted: 16})
	require.Equal(t, all.Logits/16, some.Logits)
	require.Equal(t, all.Activations, some.Activations)
}

// TestPlannedPromptsAttendToTheCache: but for those that open a conversation, which have nothing before them.
func TestPlannedPromptsAttendToTheCache(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	caches := func(open, read int) int64 {
		return planOf(t, m, Workload{Generate: true, Rows: 8, Tokens: 1000, OpenTokens: open, ReadTokens: read}).Caches
	}
	require.Equal(t, caches(1, 100), caches(100, 100))
	require.Greater(t, caches(100, 200), caches(200, 100))
	require.Greater(t, caches(900, 1), caches(100, 1))
}

// TestScoresOfTheKernelHaveNoLogits, which a loss that compares tokens needs.
func TestScoresOfTheKernelHaveNoLogits(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	w := Workload{Score: true, Rows: 8, Tokens: 64}
	scored := planOf(t, m, w).Logits
	w.Compared = loss.Choice{By: loss.ByTeacher, K: 4}
	compared := planOf(t, m, w).Logits
	require.Positive(t, compared)
	if m.dev.PureGo() || m.dev.Accelerator() || !fused.Registered() {
		require.Equal(t, compared, scored)
	} else {
		require.Zero(t, scored)
	}
}

// TestTheStartOfTheCompilerIsInTheProcessOnceItHasCompiled: of the peak of training it is a part all the same.
func TestTheStartOfTheCompilerIsInTheProcessOnceItHasCompiled(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	w := Workload{Train: true, Rows: 1, Tokens: 8}
	require.False(t, m.dev.Compiled())
	before := planOf(t, m, w).Training
	_, err := m.Generate(t.Context(), []policy.Prompt{{Messages: vlmtest.Say("left")}}, policy.Sampling{MaxTokens: 1})
	require.NoError(t, err)
	require.True(t, m.dev.Compiled())
	started := int64(65_000_000)
	if m.dev.PureGo() || m.dev.Accelerator() {
		started = 0
	}
	require.Equal(t, before+started, planOf(t, m, w).Training)
}

func TestPlansRefuseWhatIsNoWork(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	for want, w := range map[string]Workload{
		"Rows is 0, must be at least 1":     {Tokens: 1},
		"Tokens is -1, must be at least 1":  {Rows: 1, Tokens: -1},
		"Images is -2, must be at least 0":  {Rows: 1, Tokens: 1, Images: -2},
		"Wanted is -4, must be at least 0":  {Rows: 1, Tokens: 1, Wanted: -4},
		"Patches is -3, must be at least 0": {Rows: 1, Tokens: 1, Patches: -3},
		"Snapshots is -1, must be at least": {Rows: 1, Tokens: 1, Snapshots: -1},
	} {
		_, err := m.Plan(w)
		require.ErrorContains(t, err, want)
	}
}

// TestPlansOfModelsWithoutATower: images add nothing to what only reads text.
func TestPlansOfModelsWithoutATower(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{SharePrefix: true})
	w := Workload{Train: true, Generate: true, Rows: 4, Tokens: 21}
	text := planOf(t, m, w)
	w.Images, w.Patches = 1, 16
	require.Equal(t, text.Activations, planOf(t, m, w).Activations)
}

func TestPlanIsLoggedOnceBeforeTheFirstStep(t *testing.T) {
	var out strings.Builder
	m := newTiny(t, model.Qwen25VL, Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	rows, want := partsOf(m).FourRows(t)
	partsOf(m).Imitate(t, rows, want, 1e-3)
	partsOf(m).Imitate(t, rows, want, 1e-3)
	lines := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(l string) bool {
		return !strings.Contains(l, "memory plan")
	})
	require.Len(t, lines, 1)
	for _, word := range []string{"rows=4", "plan.peak=", "plan.weights=", "plan.moments=", "plan.gradients=",
		"plan.activations=", "plan.caches=", "plan.program=", "plan.heap="} {
		require.Contains(t, lines[0], word)
	}
}

func TestPlansBeyondTheMachineAreWarnedOf(t *testing.T) {
	for limit, want := range map[int64]bool{0: false, 1 << 20: true, 1 << 50: false} {
		var out strings.Builder
		m := newTiny(t, model.Qwen2, Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
		m.memoryLimit = func() (int64, string) { return limit, "/some/file" }
		rows, marks := partsOf(m).FourRows(t)
		partsOf(m).Imitate(t, rows, marks, 1e-3)
		require.Equal(t, want, strings.Contains(out.String(), "more memory than available"), limit)
		if want {
			require.Regexp(t, `level=WARN .* plan=\d+MB limit=1MB says=/some/file`, out.String())
		}
		out.Reset()
		_, err := m.Plan(Workload{Rows: 1, Tokens: 1})
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(out.String(), "the planned work may need more memory"), limit)
	}
}

// TestPlansCountOffloadedWeights: those of reference and critic are on every device while it scores.
func TestPlansCountOffloadedWeights(t *testing.T) {
	for _, devices := range []int{1, 4} {
		m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic, Reference: true, Devices: devices,
			OffloadReference: true,
			OffloadCritic:    true, OffloadMoments: true, OffloadCriticMoments: true})
		scoring := planOf(t, m, Workload{Score: true, Rows: 4, Tokens: 32})
		playing := planOf(t, m, Workload{Generate: true, Rows: 4, Tokens: 32})
		onHost := m.sets.Ref.HostBytes() + m.sets.Critic.HostBytes()
		require.Equal(t, int64(devices)*onHost, scoring.Weights-playing.Weights)
	}
}

// TestAMemoryPlanCountsDividedWeights: on a CPU, whose devices share its memory, the plan has
// the weights once and a layer of them for each device.
func TestAMemoryPlanCountsDividedWeights(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	planned := func(shard bool, w Workload) MemoryPlan {
		m := openTiny(t, dir, Options{Devices: 4, ShardWeights: shard})
		p, err := m.Plan(w)
		require.NoError(t, err)
		return p
	}
	m := openTiny(t, dir, Options{})
	all, largest := m.sets.Actor.Weights.Bytes(), int64(0)
	for _, g := range m.sets.Actor.Weights.Groups {
		largest = max(largest, 4*int64(g.Size()))
	}
	train := Workload{Train: true, Rows: 8, Tokens: 32}
	require.Equal(t, 4*all, planned(false, train).Weights)
	require.Equal(t, all+4*largest, planned(true, train).Weights)
	play := Workload{Generate: true, Rows: 8, Tokens: 32}
	decoder := openTiny(t, dir, Options{Devices: 4, ShardWeights: true}).gen.NarrowBytes()
	require.Greater(t, decoder, all/4)
	require.Equal(t, planned(false, play).Caches+4*decoder, planned(true, play).Caches)
}

func TestAPartForEachDeviceTakesFewerSums(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	w := Workload{Train: true, Rows: 64, Tokens: 32}
	eight := planOf(t, openTiny(t, dir, Options{Critic: SeparateCritic, Devices: 2}), w)
	two := planOf(t, openTiny(t, dir, Options{Critic: SeparateCritic, Devices: 2, PartPerDevice: true}), w)
	require.Less(t, two.Gradients, eight.Gradients, "one sum of gradients on a device, not three")
}

// TestComparedTokensAreInThePlan: of all of the vocabulary for every token of the rows, and a plan that the process
// cannot hold is a warning.
func TestComparedTokensAreInThePlan(t *testing.T) {
	var log strings.Builder
	m := newTiny(t, model.Qwen2, Options{Reference: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	w := Workload{Score: true, Train: true, Rows: 8, Tokens: 16}
	plain := planOf(t, m, w)
	require.Zero(t, plain.Compared)
	n := int64(8 * 16)
	vocab := int64(m.cfg.Text.Vocab)
	w.Compared.By = loss.WholeVocabulary
	require.Equal(t, n*vocab*(4+4+8+plan.EvalBytes), planOf(t, m, w).Compared)
	w.UpdateRows = 2
	p := planOf(t, m, w)
	require.Equal(t, n*vocab*4+n/4*vocab*(4+8+plan.EvalBytes), p.Compared)
	without := p
	without.Compared = 0
	require.Equal(t, p.Peak()-p.Compared, without.Peak())
	w.Compared = loss.Choice{By: loss.ByTeacher, K: 5}
	require.Equal(t, n*5*8+n/4*5*(8+8+plan.EvalBytes), planOf(t, m, w).Compared)
	w.Train = false
	require.Equal(t, n*5*8, planOf(t, m, w).Compared)
	require.NotContains(t, log.String(), "more memory than available")
	m.memoryLimit = func() (int64, string) { return 1 << 31, "test" }
	w.Train, w.Rows, w.UpdateRows, w.Compared = true, 1<<16, 0, loss.Choice{By: loss.WholeVocabulary}
	planOf(t, m, w)
	require.Contains(t, log.String(), "more memory than available")
}
