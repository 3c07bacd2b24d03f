package sft

import (
	"context"
	"fmt"
	"image"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
)

// playLessons plays the lessons of the configuration.
func (o *opener) playLessons(ctx context.Context) ([]source, error) {
	c := o.config
	l := &c.SFT.Lessons
	turns := l.MaxTurns
	if turns == 0 {
		turns = c.Rollout.MaxTurns
	}
	episodes := make([]rollout.Episode, l.Episodes)
	for i := range episodes {
		episodes[i] = rollout.Episode{Env: c.Env.Name, Config: c.Env.Config, Seed: c.FirstLesson() + int64(i), Group: i,
			MaxTurns: turns}
	}
	played := &recorder{}
	ts, err := rollout.Demonstrate(ctx, played, o.envs, episodes,
		func(e env.Env, ep rollout.Episode, turn int) (string, error) {
			t, ok := e.(env.Teacher)
			if !ok {
				return "", fmt.Errorf("sft.lessons.teacher is %s, but %s has no scripts", l.Teacher, c.Env.Name)
			}
			return t.Teach(l.Teacher, l.Noise, rollout.ScriptRand(c.Run.Seed, uint64(ep.Group), uint64(turn)))
		})
	if err != nil {
		return nil, fmt.Errorf("lessons: %w", err)
	}
	var out []source
	for i, msgs := range played.episodes {
		where := fmt.Sprintf("lesson %d (%s, seed %d)", i, c.Env.Name, episodes[i].Seed)
		if ts[i].Success {
			o.solved++
		}
		if c.Trainer.Harness == "concat" {
			out = append(out, source{where: where, messages: msgs})
			continue
		}
		for k, turn := range split(msgs) {
			out = append(out, source{where: fmt.Sprintf("%s, turn %d", where, k), messages: turn, follows: k > 0})
		}
	}
	return out, nil
}

// split makes a conversation of every turn, with the instructions in each.
func split(msgs []message) (out [][]message) {
	var system []message
	if msgs[0].role == policy.System {
		system, msgs = msgs[:1:1], msgs[1:]
	}
	for ; len(msgs) >= 2; msgs = msgs[2:] { // an observation and its response
		out = append(out, append(system, msgs[:2]...))
	}
	return out
}

// recorder is an encoder that keeps the messages of each episode.
type recorder struct{ episodes [][]message }

// Encode implements policy.Encoder with one token for each message.
func (r *recorder) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var msgs []message
	var pieces []policy.Piece
	for _, m := range messages {
		one := message{role: m.Role, text: m.Text, weight: 1}
		for _, im := range m.Images {
			one.pictures = append(one.pictures, func() (image.Image, error) { return im, nil })
		}
		msgs = append(msgs, one)
		pieces = append(pieces, policy.Piece{Tokens: []int32{0}, Response: m.Role == policy.Assistant})
	}
	r.episodes = append(r.episodes, msgs)
	return pieces, nil, nil
}
