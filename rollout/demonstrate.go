package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vagen/env"
	"vagen/mask"
	"vagen/policy"
)

// Demonstrate plays episodes with scripted responses and records them as if a policy
// had read and written them: demonstrations for imitation. say returns the response
// of a turn; it gets the running environment, so it can use the true state. Episodes
// are played one after the other. A failure of the environment, the script or the
// encoder is an error that names the episode. If encode is nil, trajectories have no rows.
func Demonstrate(ctx context.Context, encode policy.Encoder, envs *env.Registry, episodes []Episode,
	say func(e env.Env, ep Episode, turn int) (string, error)) ([]*Trajectory, error) {
	if envs == nil || say == nil {
		return nil, errors.New("rollout: demonstrate: envs or say is nil, both are required")
	}
	out := make([]*Trajectory, len(episodes))
	for i, ep := range episodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := demonstrate(ctx, encode, envs, ep, say)
		if err != nil {
			return nil, fmt.Errorf("rollout: demonstration %d (%s, seed %d): %w", i, ep.Env, ep.Seed, err)
		}
		out[i] = t
	}
	return out, nil
}

func demonstrate(ctx context.Context, encode policy.Encoder, envs *env.Registry, ep Episode,
	say func(e env.Env, ep Episode, turn int) (string, error)) (t *Trajectory, err error) {
	if ep.MaxTurns < 1 {
		return nil, fmt.Errorf("MaxTurns is %d, must be positive", ep.MaxTurns)
	}
	b, err := recoverPanic(ctx, "reset", func(ctx context.Context) (resetEnv, error) {
		return startEnv(ctx, envs, ep, nil, true)
	})
	if err != nil {
		return nil, err
	}
	e, shown := b.env, b.first
	defer func() { err = errors.Join(err, e.Close()) }()
	t = &Trajectory{Episode: ep, End: EndMaxTurns}
	var msgs []policy.Message
	if b.sys.Text != "" {
		msgs = append(msgs, message(policy.System, b.sys))
	}
	for turn := range ep.MaxTurns {
		text, err := say(e, ep, turn)
		if err != nil {
			return nil, fmt.Errorf("script of turn %d: %w", turn, err)
		}
		msgs = append(msgs, message(policy.User, shown), policy.Message{Role: policy.Assistant, Text: text})
		o, err := recoverPanic(ctx, "step", func(ctx context.Context) (env.Outcome, error) { return checked(e.Step(ctx, text)) })
		if err != nil {
			return nil, fmt.Errorf("turn %d: %w", turn, err)
		}
		t.Turns = append(t.Turns, Turn{Observation: shown, Response: text, Stop: policy.StopEnd, Parsed: o.Response,
			Reward: o.Reward, Metrics: o.Turn})
		t.Metrics, t.Success = o.Trajectory, o.Success
		if o.Done {
			t.End = EndDone
			break
		}
		shown = o.Observation
	}
	if encode == nil {
		return t, nil
	}
	row, err := EncodeRow(encode, msgs)
	if err != nil {
		return nil, err
	}
	if row.Turns() != len(t.Turns) {
		return nil, fmt.Errorf("the encoder returned %d responses for %d turns", row.Turns(), len(t.Turns))
	}
	t.Rows = []Row{row}
	return t, nil
}

// EncodeRow tokenises a conversation whose responses are known, into a row that records who
// wrote which token. An engine.Codec is an encoder in plain Go, a vlm.Model one with the model.
// LogProbs are 0. Messages that are Unlearned are context.
func EncodeRow(encode policy.Encoder, msgs []policy.Message) (Row, error) {
	if encode == nil {
		return Row{}, errors.New("rollout: the encoder of a row is nil")
	}
	pieces, images, err := encode.Encode(msgs)
	if err != nil {
		return Row{}, err
	}
	row := Row{Images: images}
	responses := slices.DeleteFunc(slices.Clone(msgs), func(m policy.Message) bool { return m.Role != policy.Assistant })
	for _, p := range pieces {
		learned := p.Response
		if p.Response && len(responses) > 0 {
			learned, responses = !responses[0].Unlearned, responses[1:]
		}
		switch {
		case learned:
			err = row.AppendResponse(p.Tokens...)
		case row.Turns() == 0:
			err = row.AppendContext(mask.Prompt, p.Tokens...)
		default:
			err = row.AppendContext(mask.Observation, p.Tokens...)
		}
		if err != nil {
			return Row{}, err
		}
	}
	row.LogProbs = make([]float32, row.Len())
	return row, nil
}
