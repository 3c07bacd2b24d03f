package vlm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/internal/testcerts"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/weights"
)

// followAs is the environment variable that makes the test binary a node that follows: the folder of
// its model and its options.
const followAs = "VAGEN_TEST_FOLLOW"

// following is the value of followAs.
type following struct {
	Dir     string
	Options Options
}

// follow is the main function of such a node. It prints the digests of its weights and moments.
func follow(raw string) error {
	var f following
	if err := json.Unmarshal([]byte(raw), &f); err != nil {
		return err
	}
	m, err := Open(context.Background(), f.Dir, f.Options)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Connect(context.Background()); err != nil {
		return err
	}
	if err := m.Follow(context.Background()); err != nil {
		return err
	}
	state, err := digests(m)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(state)
}

// digests are those of weights and moments.
func digests(m *Model) (map[string]string, error) {
	out := map[string]string{}
	for name, l := range map[string]*learn.Learner{"actor": m.actor, "critic": m.critic, "reference": m.ref} {
		if l == nil {
			continue
		}
		all := []*weights.Tensors{l.Weights}
		if l.Adam != nil {
			all = append(all, l.Adam.M, l.Adam.V)
		}
		h := sha256.New()
		for _, x := range all {
			err := x.Each(func(part model.Part, values []float32) error {
				_, err := fmt.Fprint(h, part.Name, values)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		out[name] = fmt.Sprintf("%x", h.Sum(nil))
	}
	return out, nil
}

// node is a process that follows.
type node struct {
	cmd         *exec.Cmd
	said, wrote bytes.Buffer
}

// freeAddress is a loopback address at which nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(nil)
	defer s.Close()
	return s.Listener.Addr().String()
}

// startNodes starts count-1 processes that follow and returns the options of the leader.
func startNodes(t testing.TB, dir string, o Options, count int, change func(id int, o *Options)) (Options, []*node) {
	t.Helper()
	o.Backend, o.MicroTokens, o.HeadTokens = cmp.Or(o.Backend, backend.Go), 128, 64
	o.Nodes = Nodes{Count: count, Coordinator: freeAddress(t), Token: "secret", Timeout: time.Minute,
		Cert: o.Nodes.Cert, CertKey: o.Nodes.CertKey, CA: o.Nodes.CA}
	var out []*node
	for id := 1; id < count; id++ {
		theirs := o
		theirs.Nodes.ID = id
		if change != nil {
			change(id, &theirs)
		}
		raw, err := json.Marshal(following{dir, theirs})
		require.NoError(t, err)
		n := &node{cmd: exec.CommandContext(t.Context(), os.Args[0])}
		n.cmd.Env = append(os.Environ(), followAs+"="+string(raw))
		n.cmd.Stderr, n.cmd.Stdout = &n.said, &n.wrote
		require.NoError(t, n.cmd.Start())
		t.Cleanup(func() {
			n.cmd.Process.Kill()
			n.cmd.Wait()
		})
		out = append(out, n)
	}
	return o, out
}

// ended waits for a node and returns its digests.
func (n *node) ended(t testing.TB) map[string]string {
	t.Helper()
	require.NoError(t, n.cmd.Wait(), n.said.String())
	var out map[string]string
	require.NoError(t, json.Unmarshal(n.wrote.Bytes(), &out))
	return out
}

// TestNodesGiveTheBytesOfOneProcess plays, scores and trains with PPO and with a loss over whole rows
// in one process and on several nodes, with all weights, adapters, which travel over TLS, and a frozen tower.
func TestNodesGiveTheBytesOfOneProcess(t *testing.T) {
	t.Parallel()
	for name, shapes := range map[string][][2]int{ // nodes, devices of each
		"critic and reference": {{2, 1}, {2, 2}},
		"adapters":             {{2, 1}, {4, 1}},
		"frozen tower":         {{4, 2}},
		"rows":                 {{8, 1}},
		"part for each device": {{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tinyFolder(t, model.Qwen25VL, nil)
			train := func(m *Model) (out lived, state map[string]string) {
				live(t, m, 1, &out)
				require.NoError(t, m.Tie(t.Context()))
				saved := save(t, m)
				live(t, m, 2, &lived{})
				require.NoError(t, m.Restore(t.Context(), saved))
				live(t, m, 3, &out)
				return out, stateOf(t, m)
			}
			one := deviceOptions[name]
			parts := name == "part for each device"
			if one.SameBytes = !parts; parts {
				one.PartPerDevice, one.Devices = true, 2
			}
			m := openTiny(t, dir, one)
			want, state := train(m)
			followers, err := digests(m)
			require.NoError(t, err)
			for _, shape := range shapes {
				o := deviceOptions[name]
				o.Devices, o.PartPerDevice = shape[1], parts
				o.ShardWeights = shape[1] > 1 && name == "critic and reference"
				if name == "adapters" {
					ca := testcerts.Authority(t, "authority")
					cert := ca.Issue(t, "nodes", nil)
					o.Nodes.Cert, o.Nodes.CertKey, o.Nodes.CA = cert.File, cert.KeyFile, ca.File
				}
				o, others := startNodes(t, dir, o, shape[0], nil)
				leader := openTiny(t, dir, o)
				require.NoError(t, leader.Connect(t.Context()))
				got, now := train(leader)
				require.Equal(t, want, got, "%v nodes and devices", shape)
				require.Equal(t, state, now, "%v nodes and devices", shape)
				gauges := leader.Gauges()
				require.Equal(t, float64(shape[0]), gauges["nodes"])
				require.Positive(t, gauges["exchange_sent_mb"])
				require.Positive(t, gauges["exchange_share"])
				require.Positive(t, gauges["exchange_wait_share"])
				require.Less(t, gauges["exchange_share"]+gauges["exchange_wait_share"], 1.0, "they do not count the same time")
				require.NoError(t, leader.Close())
				for i, n := range others {
					require.Equal(t, followers, n.ended(t), "node %d of %v", i+1, shape)
				}
			}
		})
	}
}

// learnOnce takes a step without playing.
func learnOnce(ctx context.Context, m *Model, kind loss.Policy) error {
	n := 40
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0, 10, 20, 30, 40}, Tokens: make([]int32, n)}}
	for i := range n {
		b.Tokens[i] = int32(i % 7)
		b.Weight, b.OldLogProbs, b.Advantages = append(b.Weight, 1), append(b.OldLogProbs, -1), append(b.Advantages, float32(i%3))
	}
	for _, at := range b.Offsets[:4] {
		b.Weight[at] = 0
	}
	_, err := m.Update(ctx, b, policy.Objective{Temperature: 1, Policy: kind}, policy.DefaultOptimizer())
	return err
}

func TestNodesThatDifferAreRefused(t *testing.T) {
	dir, other := tinyFolder(t, model.Qwen2, nil), tinyFolder(t, model.Qwen2, object{"rms_norm_eps": 1e-5})
	for says, change := range map[string]func(id int, o *Options){
		"MicroRows is 0 on node 0 and 3 on node 1, must be the same":                         func(_ int, o *Options) { o.MicroRows = 3 },
		"Devices is 1 on node 0 and 2 on node 1, must be the same":                           func(_ int, o *Options) { o.Devices = 2 },
		"Critic is none on node 0 and shared on node 1, must be the same":                    func(_ int, o *Options) { o.Critic = SharedCritic },
		"number of nodes is 2 on node 0 and 4 on node 1, must be the same":                   func(_ int, o *Options) { o.Nodes.Count = 4 },
		"LoRA is none on node 0 and":                                                         func(_ int, o *Options) { o.LoRA = &LoRA{Rank: 2, Alpha: 4} },
		"Freeze is [] on node 0 and [\"*.embed_tokens.weight\"] on node 1, must be the same": func(_ int, o *Options) { o.Freeze = []string{"*.embed_tokens.weight"} },
	} {
		o, others := startNodes(t, dir, Options{Devices: 1}, 2, change)
		m := openTiny(t, dir, o)
		err := m.Connect(t.Context())
		require.ErrorIs(t, err, nodes.ErrConfig)
		require.ErrorContains(t, err, says)
		require.Error(t, others[0].cmd.Wait())
		require.Contains(t, others[0].said.String(), "must be the same")
	}
	o, others := startNodes(t, other, Options{}, 2, nil)
	err := openTiny(t, dir, o).Connect(t.Context())
	require.ErrorContains(t, err, "SHA-256 of config.json is ")
	require.Error(t, others[0].cmd.Wait())

	changed := tinyFolder(t, model.Qwen2, nil)
	require.NoError(t, os.Remove(filepath.Join(changed, "model.safetensors")))
	require.NoError(t, weights.Write(changed, openTiny(t, dir, Options{}).cfg, safetensors.F32, spread(4)))
	o, others = startNodes(t, changed, Options{}, 2, nil)
	err = openTiny(t, dir, o).Connect(t.Context())
	require.ErrorContains(t, err, "SHA-256 of the weights of the policy is ")
	require.Error(t, others[0].cmd.Wait())

	o, others = startNodes(t, dir, Options{}, 2, func(_ int, o *Options) { o.Nodes.Token = "guessed" })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		others[0].cmd.Wait()
		cancel() // node 0 waits for the right one
	}()
	require.ErrorIs(t, openTiny(t, dir, o).Connect(ctx), context.Canceled)
	require.Contains(t, others[0].said.String(), "it does not accept the token")
}

// TestALostNodeEndsTheCall: the leader returns an error, and its weights are those of a whole step.
func TestALostNodeEndsTheCall(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 4, nil)
	m := openTiny(t, dir, o)
	require.ErrorContains(t, learnOnce(t.Context(), m, nil), "Nodes.Count is 4, but the nodes are not connected: call Connect first")
	require.NoError(t, m.Connect(t.Context()))
	require.NoError(t, learnOnce(t.Context(), m, nil))
	before := stateOf(t, m)
	require.ErrorIs(t, learnOnce(t.Context(), m, loss.PPO{Low: 2}), loss.ErrSetting)
	require.NoError(t, m.group.Err(), "an error before other nodes take part does not end the group")
	require.NoError(t, others[1].cmd.Process.Kill())
	others[1].cmd.Wait()
	err := learnOnce(t.Context(), m, nil)
	require.Error(t, err)
	require.True(t, errors.Is(err, nodes.ErrLost) || errors.Is(err, nodes.ErrFailed), "%v", err)
	require.ErrorContains(t, err, "node 2")
	require.Equal(t, before, stateOf(t, m))
	require.ErrorContains(t, learnOnce(t.Context(), m, nil), "the group of nodes has ended")
	for _, n := range []*node{others[0], others[2]} {
		require.Error(t, n.cmd.Wait(), "nodes end with the group")
		require.Contains(t, n.said.String(), "node 2")
	}
}

// TestNodesEndWithTheLeader: without a farewell, as if it had been killed.
func TestNodesEndWithTheLeader(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, nil)
	leader := o
	leader.Nodes.ID = 0
	m := openTiny(t, dir, leader)
	require.NoError(t, m.Connect(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, learnOnce(ctx, m, nil), context.Canceled)
	require.Error(t, others[0].cmd.Wait())
	require.Contains(t, others[0].said.String(), "node 1: ")
}

// TestDivergedNodesAreNoticed changes one bit of a weight on one node.
func TestDivergedNodesAreNoticed(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, nil)
	m := openTiny(t, dir, o)
	require.NoError(t, m.Connect(t.Context()))
	require.NoError(t, learnOnce(t.Context(), m, nil))
	first := true
	require.NoError(t, m.actor.Weights.Replace(weights.IsTrained, func(_ model.Part, x []float32) ([]float32, error) {
		if first {
			x[len(x)-1], first = math.Float32frombits(math.Float32bits(x[len(x)-1])^1), false
		}
		return x, nil
	}))
	var err error
	for range len(m.actor.Weights.Groups) + 1 { // each group's turn
		if err = learnOnce(t.Context(), m, nil); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrDiverged)
	require.Error(t, others[0].cmd.Wait())
}

func TestOptionsOfNodesAreChecked(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	for says, o := range map[string]Options{
		"Nodes.Count is 3, must be 1, 2, 4 or 8":                                              {Nodes: Nodes{Count: 3}},
		"Nodes.ID is 1, but Nodes.Count is 1":                                                 {Nodes: Nodes{ID: 1}},
		"ID is 2, must be in [0, 1]":                                                          {Nodes: Nodes{Count: 2, ID: 2, Coordinator: "a:1"}},
		"Coordinator is \"\", must be host:port":                                              {Nodes: Nodes{Count: 2}},
		"Address is \"host\", must be host:port":                                              {Nodes: Nodes{Count: 2, Coordinator: "a:1", Address: "host"}},
		"Timeout is -1ns, must be positive":                                                   {Nodes: Nodes{Count: 2, Coordinator: "a:1", Timeout: -1}},
		"Nodes: nodes: bad setting: TLS: Cert is not set; Cert, CertKey and CA must all":      {Nodes: Nodes{Count: 2, Coordinator: "a:1", CA: "/ca"}},
		"Nodes.Count is 4 and Devices 4: a step's rows are divided into 8 parts, so together": {Devices: 4, Nodes: Nodes{Count: 4, Coordinator: "a:1"}},
	} {
		o.Backend = backend.Go
		_, err := Open(t.Context(), dir, o)
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, says)
	}
	m := openTiny(t, dir, Options{})
	require.ErrorContains(t, m.Connect(t.Context()), "Nodes.Count is 1, must be at least 2")
	require.ErrorContains(t, m.Follow(t.Context()), "Nodes.ID is 0 (connected: false), must be at least 1, and connected")
	m = openTiny(t, dir, Options{Nodes: Nodes{Count: 2, Coordinator: "192.0.2.1:1"}})
	require.ErrorContains(t, m.Connect(t.Context()), "other machines can reach 192.0.2.1:1, so a token is needed")
}

// TestNodesOnOtherDevicesAreRefused: node 0 computes in pure Go, node 1 on XLA. All differences are
// reported.
func TestNodesOnOtherDevicesAreRefused(t *testing.T) {
	if _, err := backend.Device(t.Context(), backend.XLA, nil); errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	dir := tinyFolder(t, model.Qwen2, nil)
	o, others := startNodes(t, dir, Options{}, 2, func(_ int, o *Options) { o.Backend = backend.XLA })
	err := openTiny(t, dir, o).Connect(t.Context())
	require.ErrorIs(t, err, nodes.ErrConfig)
	require.ErrorContains(t, err, "kind of devices is processor, "+runtime.GOARCH+" on node 0 and cpu, "+runtime.GOARCH+" on node 1, must be the same")
	require.ErrorContains(t, err, "version of the backend is "+runtime.Version()+" on node 0 and PJRT 0.")
	require.Error(t, others[0].cmd.Wait())
	require.Contains(t, others[0].said.String(), "kind of devices is ")
}

// TestLossesTravel: every loss arrives as it was.
func TestLossesTravel(t *testing.T) {
	for _, l := range []loss.Policy{
		nil, loss.Reinforce{}, loss.PPO{Low: 0.2, High: math.Inf(1), Clamp: true}, loss.GSPO{Low: 0.1, High: 3}, loss.DefaultPPO(),
	} {
		sent, err := learn.SendLoss(l)
		require.NoError(t, err)
		got, err := sent.Policy()
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	sent, err := learn.SendLoss(ownLoss{loss.DefaultPPO()})
	require.NoError(t, err)
	got, err := sent.Policy()
	require.NoError(t, err)
	require.Equal(t, learn.OnNode0{}, got, "node 0 evaluates a loss of another package")
	_, err = (&learn.SentLoss{Kind: "os.File"}).Policy()
	require.ErrorIs(t, err, nodes.ErrProtocol)
}

func TestOrdersWithBadImagesAreRefused(t *testing.T) {
	table := &imageTable{}
	_, err := table.read(&order{Images: []sentImage{{Hash: make([]byte, 32), Width: 1000, Height: 1000, RGB: []byte{1}}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)
	_, err = table.read(&order{Images: []sentImage{{Hash: []byte{1}}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)
	_, err = table.read(&order{Refs: [][]int{{5}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)
}
