package rollout_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// spell is the parrot's tokenizer as an encoder. alter may corrupt its result.
type spell struct {
	alter func([]policy.Piece) ([]policy.Piece, error)
}

func (s spell) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var out []policy.Piece
	var images []policy.Image
	var pending []policy.Message
	for _, m := range messages {
		if m.Role != policy.Assistant {
			pending = append(pending, m)
			continue
		}
		context, ims := read(pending)
		images, pending = append(images, ims...), nil
		response := policy.Piece{Response: true}
		for _, r := range m.Text {
			response.Tokens = append(response.Tokens, int32(r))
		}
		response.Tokens = append(response.Tokens, endToken)
		out = append(out, policy.Piece{Tokens: context}, response)
	}
	if s.alter != nil {
		var err error
		out, err = s.alter(out)
		return out, images, err
	}
	return out, images, nil
}

// count is a script that responds with the number of the turn.
func count(_ env.Env, _ rollout.Episode, turn int) (string, error) { return fmt.Sprint(turn), nil }

// TestDemonstrationsAreRecordedAsIfPlayed plays the script once as a policy and
// once as a script. Apart from sampling, which a script does not do, the
// trajectories are equal.
func TestDemonstrationsAreRecordedAsIfPlayed(t *testing.T) {
	w := &world{}
	q := &parrot{alter: func(_ context.Context, p policy.Prompt, turn int, c *policy.Completion) error {
		c.Text, c.Tokens, c.LogProbs = fmt.Sprint(turn), []int32{'0' + int32(turn), endToken}, make([]float32, 2)
		return nil
	}}
	eps := episodes(9)
	for i := range eps {
		eps[i].MaxTurns = 1 + i%4
	}
	want := play(t, w, player(t, w, q), eps)
	var seen []string
	got, err := rollout.Demonstrate(t.Context(), spell{}, w.registry(t), eps,
		func(e env.Env, ep rollout.Episode, turn int) (string, error) {
			seen = append(seen, fmt.Sprint(ep.Seed, ep.Index, turn, e.(*fakeEnv).turn))
			return count(e, ep, turn)
		})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, w.made.Load(), w.closed.Load())
	require.Equal(t, "100 0 0 0", seen[0], "the script sees the live environment")
}

func TestDemonstrationsNeedEnvironmentsAndAScript(t *testing.T) {
	r := (&world{}).registry(t)
	eps := []rollout.Episode{{Env: "fake", MaxTurns: 1}}
	for name, run := range map[string]func() ([]*rollout.Trajectory, error){
		"envs": func() ([]*rollout.Trajectory, error) {
			return rollout.Demonstrate(t.Context(), spell{}, nil, eps, count)
		},
		"script": func() ([]*rollout.Trajectory, error) { return rollout.Demonstrate(t.Context(), spell{}, r, eps, nil) },
	} {
		_, err := run()
		require.ErrorContains(t, err, "envs or say is nil", name)
	}
	_, err := rollout.EncodeRow(nil, nil)
	require.EqualError(t, err, "rollout: the encoder of a row is nil")
	_, err = rollout.NewBatch([]*rollout.Trajectory{nil}, mask.Options{}, reward.PerTurn)
	require.EqualError(t, err, "rollout: trajectory 0 is nil")
	played := &rollout.Trajectory{End: rollout.EndDone, Rows: make([]rollout.Row, 1), Turns: make([]rollout.Turn, 1)}
	require.NoError(t, played.Rows[0].AppendResponse(7, 8))
	b, err := rollout.NewBatch([]*rollout.Trajectory{played}, mask.Options{}, reward.PerTurn)
	require.NoError(t, err)
	require.Equal(t, []float32{0, 0}, b.LogProbs)
	played.Rows[0].LogProbs = []float32{-1}
	_, err = rollout.NewBatch([]*rollout.Trajectory{played}, mask.Options{}, reward.PerTurn)
	require.ErrorContains(t, err, "row 0 has 1 log-probs for 2 tokens")
	ts, err := rollout.Demonstrate(t.Context(), spell{}, r, nil, count)
	require.NoError(t, err)
	require.Empty(t, ts)
	ts, err = rollout.Demonstrate(t.Context(), nil, r, eps, count)
	require.NoError(t, err)
	require.Equal(t, "0", ts[0].Turns[0].Response)
	require.Empty(t, ts[0].Rows, "there is no encoder")
}

// TestFailedDemonstrationsNameTheEpisode makes the second of two episodes fail in
// each possible way.
func TestFailedDemonstrationsNameTheEpisode(t *testing.T) {
	const bad = 7
	on := func(method string, turn int, fault func(context.Context, *env.Outcome) error) *world {
		return &world{fault: func(ctx context.Context, seed int64, at string, done int, o *env.Outcome) error {
			if seed == bad && at == method && done == turn {
				return fault(ctx, o)
			}
			return nil
		}}
	}
	lost := func([]policy.Piece) ([]policy.Piece, error) { return nil, errBroken }
	for name, c := range map[string]struct {
		w     *world
		enc   spell
		turns int
		say   func(env.Env, rollout.Episode, int) (string, error)
		wraps error
		says  string
	}{
		"no turns":    {w: &world{}, turns: 0, says: "MaxTurns is 0, must be positive"},
		"constructor": {w: on("new", 0, fail), turns: 2, wraps: errBroken},
		"system":      {w: on("system", 0, fail), turns: 2, wraps: errBroken},
		"reset":       {w: on("reset", 0, fail), turns: 2, wraps: errBroken},
		"reset panics": {w: on("reset", 0, crash), turns: 2, wraps: rollout.ErrContract,
			says: "reset panicked: out of luck"},
		"reset marks": {w: on("reset", 0, func(_ context.Context, o *env.Outcome) error {
			o.Observation.Text = "<image>"
			return nil
		}), turns: 2, wraps: rollout.ErrContract, says: "image marks"},
		"step":        {w: on("step", 1, fail), turns: 2, wraps: errBroken, says: "turn 1: "},
		"step panics": {w: on("step", 1, crash), turns: 2, wraps: rollout.ErrContract, says: "turn 1: "},
		"step marks": {w: on("step", 0, func(_ context.Context, o *env.Outcome) error {
			o.Observation.Text = "<image>"
			return nil
		}), turns: 2, wraps: rollout.ErrContract, says: "turn 0: "},
		"close":   {w: on("close", 2, fail), turns: 2, wraps: errBroken},
		"script":  {w: &world{}, turns: 2, wraps: errBroken, says: "script of turn 1: ", say: scriptFails},
		"encoder": {w: &world{}, turns: 2, enc: spell{alter: lost}, wraps: errBroken},
		"empty piece": {w: &world{}, turns: 2, enc: spell{alter: func(ps []policy.Piece) ([]policy.Piece, error) {
			ps[1].Tokens = nil
			return ps, nil
		}}, wraps: mask.ErrEmptyTurn},
		"piece missing": {w: &world{}, turns: 2, enc: spell{alter: func(ps []policy.Piece) ([]policy.Piece, error) {
			return ps[:3], nil
		}}, says: "the encoder returned 1 responses for 2 turns"},
	} {
		if c.say == nil {
			c.say = count
		}
		first := rollout.Episode{Env: "fake", Seed: 1, MaxTurns: 2}
		if c.enc.alter != nil { // the encoder does not know the episode: only one is played
			first.Seed = bad
		}
		ts, err := rollout.Demonstrate(t.Context(), c.enc, c.w.registry(t),
			[]rollout.Episode{first, {Env: "fake", Seed: bad, MaxTurns: c.turns, Config: map[string]any{"level": bad}}}, c.say)
		require.Error(t, err, name)
		require.Nil(t, ts, name)
		require.ErrorContains(t, err, "(fake, seed 7): ", name)
		require.ErrorContains(t, err, c.says, name)
		if c.wraps != nil {
			require.ErrorIs(t, err, c.wraps, name)
		}
		require.Equal(t, c.w.made.Load(), c.w.closed.Load(), name)
	}
}

func scriptFails(e env.Env, ep rollout.Episode, turn int) (string, error) {
	if ep.Seed == 7 && turn == 1 {
		return "", errBroken
	}
	return count(e, ep, turn)
}

func TestDemonstrationsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{}
	played := 0
	eps := episodes(5)
	for i := range eps {
		eps[i].MaxTurns = 1
	}
	ts, err := rollout.Demonstrate(ctx, spell{}, w.registry(t), eps,
		func(e env.Env, ep rollout.Episode, turn int) (string, error) {
			played++
			cancel()
			return count(e, ep, turn)
		})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, ts)
	require.Equal(t, 1, played)
}

// A message without a loss is context of the row, as what the environment said.
func TestUnlearnedMessagesAreContextOfARow(t *testing.T) {
	asked := policy.Message{Role: policy.User, Text: "?"}
	before, last := policy.Message{Role: policy.Assistant, Text: "a"}, policy.Message{Role: policy.Assistant, Text: "b"}
	whole, err := rollout.EncodeRow(spell{}, []policy.Message{asked, before, asked, last})
	require.NoError(t, err)
	before.Unlearned = true
	row, err := rollout.EncodeRow(spell{}, []policy.Message{asked, before, asked, last})
	require.NoError(t, err)
	require.Equal(t, whole.Tokens(), row.Tokens())
	require.Equal(t, []int{2, 1}, []int{whole.Turns(), row.Turns()})
	start, end, ok := row.TurnAt(0)
	require.True(t, ok)
	require.Equal(t, []int32{'b', endToken}, row.Tokens()[start:end])
}
