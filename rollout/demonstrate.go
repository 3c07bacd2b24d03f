package rollout

import (
	"context"
	"errors"
	"fmt"

	"vagen/env"
	"vagen/mask"
	"vagen/policy"
)

// Demonstrate plays episodes with scripted responses and records them as a
// policy would have read and written them: transcripts for imitation. say returns
// the response of a turn; it sees the live environment, so it can say what is
// true. Episodes are played one after the other.
func Demonstrate(ctx context.Context, encode policy.Encoder, envs *env.Registry, episodes []Episode,
	say func(e env.Env, ep Episode, turn int) (string, error)) ([]*Trajectory, error) {
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
	e, err := envs.New(ep.Env, ep.Config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	sys, err := e.System(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := e.Reset(ctx, ep.Seed)
	if err != nil {
		return nil, err
	}
	t = &Trajectory{Episode: ep, End: EndMaxTurns}
	var msgs []policy.Message
	if sys.Text != "" {
		msgs = append(msgs, message(policy.System, sys))
	}
	for turn := range ep.MaxTurns {
		text, err := say(e, ep, turn)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, message(policy.User, shown), policy.Message{Role: policy.Assistant, Text: text})
		o, err := e.Step(ctx, text)
		if err != nil {
			return nil, err
		}
		if err := checkOutcome(o); err != nil {
			return nil, err
		}
		t.Turns = append(t.Turns, Turn{Observation: shown, Response: text, Stop: policy.StopEnd, Parsed: o.Response, Reward: o.Reward, Metrics: o.Turn})
		t.Metrics, t.Success = o.Trajectory, o.Success
		if o.Done {
			t.End = EndDone
			break
		}
		shown = o.Observation
	}
	row, err := encodeRow(encode, msgs)
	if err != nil {
		return nil, err
	}
	t.Rows = []Row{row}
	return t, nil
}

// encodeRow tokenises a conversation with given responses.
func encodeRow(encode policy.Encoder, msgs []policy.Message) (Row, error) {
	pieces, images, err := encode.Encode(msgs)
	if err != nil {
		return Row{}, err
	}
	row := Row{Images: images}
	for _, p := range pieces {
		switch {
		case p.Response:
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
