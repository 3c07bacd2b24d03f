package unmade_test

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/primitiveskill"
	"vagen/env/remote"
	"vagen/env/remote/hosts"
	"vagen/env/remote/openenv"
	"vagen/env/svg"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/policy/engine"
	"vagen/policy/vlm"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/rollout/gateway"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/evaluation"
	"vagen/train/proof"
	"vagen/train/queue"
	"vagen/train/replay"
	"vagen/train/run"
	"vagen/train/sft"
	"vagen/train/track"
	"vagen/train/track/mlflow"
	"vagen/train/track/tensorboard"
)

// second returns the error of a call that returns a value, too.
func second[T any](_ T, err error) error { return err }

// third returns the error of a call with two other results.
func third[T, U any](_ T, _ U, err error) error { return err }

// zero are the values that only functions of their packages make.
type zero struct {
	judged  env.Judged
	lite    remote.Client
	legacy  remote.LegacyClient
	server  remote.Server
	open    openenv.Client
	hosted  openenv.Server
	pool    hosts.Pool
	chat    chat.Model
	fleet   engine.Fleet
	policy  engine.Policy
	codec   engine.Codec
	model   vlm.Model
	tok     tokenizer.Tokenizer
	judge   client.Client
	batches client.Batches
	gate    gateway.Gateway
	writer  store.Writer
	reader  store.Reader
	gallery store.Gallery
	follow  engines.Follower
	plan    evaluation.Plan
}

// kept are the values of a run's folder.
type kept struct {
	recorder proof.Recorder
	inputs   proof.Inputs
	report   proof.Report
	queue    queue.Queue
	credit   replay.Credit
	run      run.Run
	data     sft.Data
	lines    track.JSONLines
	console  track.Console
	board    tensorboard.Sink
	flow     mlflow.Sink
}

func TestMethodsOfZeroValuesSayWhatMakesThem(t *testing.T) {
	var z zero
	var k kept
	ctx := t.Context()
	prompts := []policy.Prompt{{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "Go."}}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	for _, test := range []struct {
		want string
		err  error
	}{
		{"Judged.Env is nil", second(z.judged.Reset(ctx, 1))},
		{"Judged.Env is nil", second(z.judged.System(ctx))},
		{"Judged.Env is nil", second(z.judged.Step(ctx, ""))},
		{"remote: Client", second(z.lite.Reset(ctx, 1))},
		{"remote: Client", second(z.legacy.Reset(ctx, 1))},
		{"remote: Client", second(z.lite.Step(ctx, ""))},
		{"remote: Client", second(z.legacy.System(ctx))},
		{"remote: Server", z.server.Serve(ctx, listener)},
		{"remote: serve: the listener is nil", z.server.Serve(ctx, nil)},
		{"openenv: Client", second(z.open.System(ctx))},
		{"hosts: Pool", second(z.pool.Session([]string{"http://localhost"}, hosts.SessionOptions{}))},
		{"Make is nil", second(openenv.NewServer(openenv.Hosted{}, remote.ServerOptions{}))},
		{"chat: Model", second(z.chat.Generate(ctx, prompts, policy.Sampling{MaxTokens: 1}))},
		{"engine: Fleet", z.fleet.Publish(ctx, engine.Version{})},
		{"engine: Fleet", second(z.fleet.Score(ctx, &policy.Rows{Offsets: []int{0}}, nil, 0))},
		{"engine: Policy", second(z.policy.Generate(ctx, prompts, policy.Sampling{MaxTokens: 1}))},
		{"engine: Policy", second(engine.NewPolicy(nil).Count(prompts[0]))},
		{"engine: Policy", z.policy.Resume()},
		{"engine: Codec", third(z.codec.Encode(prompts[0].Messages))},
		{"tokenizer: Tokenizer", second(z.tok.Encode("a"))},
		{"engines: Follower", second(z.follow.Policy(ctx, []byte("{}")))},
		{"client: Client", third(z.judge.Complete(ctx, []string{"a"}))},
		{"client: Batches", third(z.batches.Complete(ctx, nil))},
		{"client: the policy is nil", third(client.Over(nil, "", nil, nil))},
		{"client: the block", second(client.New(nil, nil))},
		{"judge: the block", second((*judge.StateReward)(nil).Judge(nil))},
		{"store: Writer", z.writer.Write(1)},
		{"store: Gallery", z.gallery.Save("a", 1, nil)},
		{"store: Reader", second(z.reader.Summaries())},
		{"trajectory 0: the file has 0", second(z.reader.At(0))},
		{"store: the file is nil", second(store.NewReader(nil))},
		{"store: the episode is nil", store.WriteEpisode("", "", nil)},
		{"evaluation: Plan", z.plan.Check(ctx, nil)},
		{"proof: Recorder", k.recorder.Event(track.Event{})},
		{"proof: inputs: the configuration is nil", second(k.recorder.RecordInputs(ctx, nil, nil, nil))},
		{"queue: Queue", k.queue.Finish(ctx)},
		{"queue: Queue", third(k.queue.Deal(ctx, nil, []rollout.Episode{{}}, 1))},
		{"replay: Credit", k.credit.Set(nil)},
		{"run: Run", k.run.Train(ctx)},
		{"run: Run", k.run.RecordInputs(ctx, nil)},
		{"sft: Data", k.data.Encode(ctx, nil)},
		{"sft: Data", second(k.data.Batch(1, 1))},
		{"track: JSONLines", k.lines.Event(track.Event{})},
		{"track: Console", k.console.Event(track.Event{Kind: track.KindStep})},
		{"track: Console", track.NewConsole(nil).Event(track.Event{Kind: track.KindStep})},
		{"track: SinkFunc", track.SinkFunc(nil).Event(track.Event{})},
		{"tensorboard: Sink", k.board.Event(track.Event{})},
		{"mlflow: Sink", k.flow.Event(track.Event{})},
	} {
		require.ErrorContains(t, test.err, test.want)
	}
	_, _, _, err = z.plan.Open(ctx, nil)
	require.ErrorContains(t, err, "evaluation: Plan is a zero value, must be made by Load")
}

// TestMethodsOfAZeroModelSayWhatMakesIt is of the type with the most methods.
func TestMethodsOfAZeroModelSayWhatMakesIt(t *testing.T) {
	var m vlm.Model
	ctx, dir := t.Context(), t.TempDir()
	for _, err := range []error{
		second(m.Generate(ctx, nil, policy.Sampling{})), m.Resume(), second(m.Count(policy.Prompt{})), m.Tie(ctx),
		second(m.Score(ctx, nil, nil, policy.ScoreRequest{}, 1)), m.CheckScore(policy.ScoreRequest{}), m.Save(ctx, dir),
		second(m.Update(ctx, nil, policy.Objective{}, policy.Optimizer{})), second(m.Step(ctx, policy.Optimizer{})),
		m.Restore(ctx, dir), second(m.Snapshot(ctx)), second(m.SnapshotPolicy(ctx)), m.Export(ctx, dir), m.Connect(ctx),
		m.ExportAdapter(ctx, dir), second(m.Limits(ctx)), second(m.Plan(vlm.Workload{})), third(m.Encode(nil)),
		second(m.Cost(vlm.StepDecode, 1, 1)), second(m.EncodeSystem("")), second(m.ToolCalls("", "")),
		second(m.WithTools("[{}]")), second(m.ToolSystem("", "[{}]")),
	} {
		require.EqualError(t, err, "vlm: Model is a zero value, must be made by Open")
	}
	require.ErrorIs(t, m.Follow(ctx), vlm.ErrOption)
	policies, critics := m.Parameters()
	require.Zero(t, policies+critics+len(m.Gauges())+len(m.Backend()+m.Family()+m.Opened()+m.Response([]int32{1})))
	require.Zero(t, len(m.Ends([]int32{1}))+m.MaxPositions()+int(m.CompileTime())+len(m.Inputs()))
	require.False(t, m.ReadsImages() || m.RewritesHistory())
	require.Nil(t, m.Tokenizer())
	m.Forget(1)
}

// TestZeroValuesHaveNothing: methods without an error return nothing, and nothing is to be closed.
func TestZeroValuesHaveNothing(t *testing.T) {
	var z zero
	var k kept
	ctx := context.Background()
	for range 2 {
		for i, err := range []error{
			z.judged.Close(), z.lite.Close(), z.legacy.Close(), z.server.Close(ctx), z.open.Close(), z.hosted.Close(ctx),
			z.pool.Close(), z.chat.Close(), z.fleet.Close(), z.model.Close(), z.gate.Close(), z.writer.Close(), z.reader.Close(),
			z.follow.Close(), k.recorder.Close(), k.inputs.Wait(), k.queue.Close(), k.credit.Close(), k.run.Close(),
			k.lines.Close(), k.console.Close(), k.board.Close(), k.flow.Close(),
		} {
			require.NoError(t, err, i)
		}
	}
	z.batches.Close()
	z.gallery.Sync()
	z.reader.Lenient()
	z.reader.NamesOnly()
	k.data.Held(func(*policy.Batch, error) bool { t.Fatal("no row is held out"); return false })
	require.Zero(t, z.reader.Len()+k.data.Epoch(3)+len(k.report.Steps())+len(k.report.Input("model"))+k.run.Done())
	require.Zero(t, z.chat.Usage())
	require.Empty(t, z.codec.Opened()+z.codec.Response([]int32{1}))
	require.Empty(t, append(z.codec.Ends([]int32{1}), z.policy.Ends([]int32{1})...))
	steps, err := k.report.Replayable(&config.Config{})
	require.NoError(t, err)
	require.Empty(t, steps)
	answer := httptest.NewRecorder()
	z.server.ServeHTTP(answer, httptest.NewRequest("GET", "/health", nil))
	z.hosted.ServeHTTP(answer, httptest.NewRequest("GET", "/health", nil))
	require.Contains(t, answer.Body.String(), "remote: Server is a zero value, must be made by NewServer")

	require.Empty(t, (&tokenizer.Decoder{}).Add(1))
	_, ok := z.tok.TokenID("a")
	require.False(t, ok)
	require.Zero(t, (&processor.Processor{}).Tokens(processor.Grid{T: 1, H: 2, W: 2}))
	require.Empty(t, (&processor.Processor{}).Normalize(nil, []byte{1}))
	require.Zero(t, (&svg.Dataset{}).Pick(1))
	require.Zero(t, (&frozenlake.Map{}).Start())
	require.Zero(t, primitiveskill.World{}.Position("red_cube_position"))
	require.False(t, advantage.Spec{}.Reads("lam"))
	require.Empty(t, advantage.Spec{}.Idle("lam", advantage.DefaultParams()))
	var session hosts.Session
	a := session.Begin(hosts.Open, 1)
	a.Report(hosts.Silent)
	a.Next()
	require.False(t, a.Move() || a.GiveUp() || session.Gone())
	require.Nil(t, a.Host())
}
