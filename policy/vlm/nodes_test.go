package vlm

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/internal/weights"
)

// startNodes opens count-1 models that follow, each as a rank, and returns the options of the leader.
func startNodes(
	t testing.TB, dir string, o Options, count int, change func(o *Options),
) (Options, []*vlmtest.Rank) {
	t.Helper()
	o.Backend, o.MicroTokens, o.HeadTokens = cmp.Or(o.Backend, backend.Go), 128, 64
	o.Nodes = Nodes{Count: count, Timeout: time.Minute}
	lead := o
	var others []*vlmtest.Rank
	lead.Nodes.world, others = vlmtest.Ranks(t, count, func(ctx context.Context, w mpi.World) (map[string]string, error) {
		theirs := o
		theirs.Nodes.world = w
		if change != nil {
			change(&theirs)
		}
		m, err := Open(ctx, dir, theirs)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		if err := m.Connect(ctx); err != nil {
			return nil, err
		}
		if err := m.Follow(ctx); err != nil {
			return nil, err
		}
		return vlmtest.Digests(m.sets)
	})
	return lead, others
}

// learnOnce takes a step without playing.
func learnOnce(ctx context.Context, m *Model, kind loss.Policy) error {
	n := 40
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0, 10, 20, 30, 40}, Tokens: make([]int32, n)}}
	for i := range n {
		b.Tokens[i] = int32(i % 7)
		b.Weight, b.OldLogProbs, b.Advantages = append(b.Weight, 1), append(b.OldLogProbs, -1),
			append(b.Advantages, float32(i%3))
	}
	for _, at := range b.Offsets[:4] {
		b.Weight[at] = 0
	}
	_, err := m.Update(ctx, b, policy.Objective{Temperature: 1, Policy: kind}, policy.DefaultOptimizer())
	return err
}

func TestNodesThatDifferAreRefused(t *testing.T) {
	dir, other := vlmtest.Folder(t, model.Qwen2, nil), vlmtest.Folder(t, model.Qwen2, vlmtest.Object{"rms_norm_eps": 1e-5})
	for says, change := range map[string]func(o *Options){
		"MicroRows is 0 on rank 0 and 3 on rank 1, must be the same": func(o *Options) { o.MicroRows = 3 },
		"LoRA is none on rank 0 and":                                 func(o *Options) { o.LoRA = &LoRA{Rank: 2, Alpha: 4} },
		"Freeze is [] on rank 0 and [\"*.embed_tokens.weight\"] on rank 1, must be the same": func(o *Options) {
			o.Freeze = []string{"*.embed_tokens.weight"}
		},
	} {
		o, others := startNodes(t, dir, Options{Devices: 1}, 2, change)
		m := openTiny(t, dir, o)
		err := m.Connect(t.Context())
		testkit.Error(t, err, nodes.ErrConfig, says)
		require.ErrorContains(t, <-others[0].Ended, "must be the same")
	}
	o, others := startNodes(t, other, Options{}, 2, nil)
	err := openTiny(t, dir, o).Connect(t.Context())
	require.ErrorContains(t, err, "SHA-256 of config.json is ")
	require.Error(t, <-others[0].Ended)

	changed := vlmtest.Folder(t, model.Qwen2, nil)
	require.NoError(t, os.Remove(filepath.Join(changed, "model.safetensors")))
	require.NoError(t, weights.Write(changed, openTiny(t, dir, Options{}).cfg, safetensors.F32, vlmtest.Spread(4)))
	o, others = startNodes(t, changed, Options{}, 2, nil)
	err = openTiny(t, dir, o).Connect(t.Context())
	require.ErrorContains(t, err, "SHA-256 of the weights of the policy is ")
	require.Error(t, <-others[0].Ended)
}

// TestALostNodeEndsTheCall: the leader returns an error, and its weights are those of a whole step.
func TestALostNodeEndsTheCall(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 4, nil)
	m := openTiny(t, dir, o)
	require.ErrorContains(t, learnOnce(t.Context(), m, nil),
		"Nodes.Count is 4, but the ranks are not connected: call Connect first")
	require.NoError(t, m.Connect(t.Context()))
	require.NoError(t, learnOnce(t.Context(), m, nil))
	before := partsOf(m).StateOf(t)
	require.ErrorIs(t, learnOnce(t.Context(), m, loss.PPO{Low: 2}), loss.ErrSetting)
	require.NoError(t, m.sets.Peers.Err(), "an error before other ranks take part does not end the group")
	others[1].Stop()
	<-others[1].Ended
	err := learnOnce(t.Context(), m, nil)
	require.Error(t, err)
	testkit.Error(t, err, nodes.ErrFailed, "rank 2")
	require.Equal(t, before, partsOf(m).StateOf(t))
	require.ErrorContains(t, learnOnce(t.Context(), m, nil), "the group of ranks has ended")
	for _, n := range []*vlmtest.Rank{others[0], others[2]} {
		require.ErrorContains(t, <-n.Ended, "rank 2")
	}
}

// TestAnInterruptedCallLeavesTheGroup: other ranks do not take part in it.
func TestAnInterruptedCallLeavesTheGroup(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, nil)
	m := openTiny(t, dir, o)
	require.NoError(t, m.Connect(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, learnOnce(ctx, m, nil), context.Canceled)
	require.NoError(t, learnOnce(t.Context(), m, nil))
	gauges := m.Gauges()
	require.Equal(t, 2.0, gauges["nodes"])
	for _, name := range []string{"exchange_sent_mb", "exchange_share", "exchange_wait_share"} {
		require.Positive(t, gauges[name], name)
	}
	same := partsOf(m).StateOf(t)
	require.NoError(t, m.Close())
	require.NoError(t, <-others[0].Ended)
	require.Equal(t, same, others[0].State)
}

// TestDivergedNodesAreNoticed changes one bit of a weight on one node.
func TestDivergedNodesAreNoticed(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, nil)
	m := openTiny(t, dir, o)
	require.NoError(t, m.Connect(t.Context()))
	require.NoError(t, learnOnce(t.Context(), m, nil))
	first := true
	require.NoError(t, m.sets.Actor.Weights.Replace(weights.IsTrained,
		func(_ model.Stored, x []float32) ([]float32, error) {
			if first {
				x[len(x)-1], first = math.Float32frombits(math.Float32bits(x[len(x)-1])^1), false
			}
			return x, nil
		}))
	var err error
	for range len(m.sets.Actor.Weights.Groups) + 1 { // each group's turn
		if err = learnOnce(t.Context(), m, nil); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrDiverged)
	require.Error(t, <-others[0].Ended)
}

func TestOptionsOfNodesAreChecked(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	for says, o := range map[string]Options{
		"Nodes.Count is 3, must be 1, 2, 4 or 8": {Nodes: Nodes{Count: 3}},
		"Nodes.Timeout is -1ns, must be positive": {Nodes: Nodes{Count: 2,
			Timeout: -1}},
		"Nodes.Count is 4 and Devices 4: a step's rows are divided into 8 parts, so together": {Devices: 4,
			Nodes: Nodes{Count: 4}},
	} {
		o.Backend = backend.Go
		_, err := Open(t.Context(), dir, o)
		testkit.Error(t, err, ErrOption, says)
	}
	m := openTiny(t, dir, Options{})
	require.ErrorContains(t, m.Connect(t.Context()), "Nodes.Count is 1, must be at least 2")
	require.ErrorContains(t, m.Follow(t.Context()), "this process is not connected, or rank 0, which leads")
	rank, err := m.opts.Nodes.Rank(t.Context())
	require.NoError(t, err)
	require.Zero(t, rank, "one process needs no MPI")
}

// TestNodesOnOtherDevicesAreRefused: rank 0 computes in pure Go, rank 1 on XLA. All differences are
// reported.
func TestNodesOnOtherDevicesAreRefused(t *testing.T) {
	if _, err := backend.OpenDevice(t.Context(), backend.XLA, nil); errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, func(o *Options) { o.Backend = backend.XLA })
	err := openTiny(t, dir, o).Connect(t.Context())
	require.ErrorIs(t, err, nodes.ErrConfig)
	require.ErrorContains(t, err, "kind of devices is processor, "+runtime.GOARCH+" on rank 0 and cpu, "+runtime.GOARCH+
		" on rank 1, must be the same")
	require.ErrorContains(t, err, "version of the backend is "+runtime.Version()+" on rank 0 and PJRT 0.")
	require.ErrorContains(t, <-others[0].Ended, "kind of devices is ")
}
