package rollout_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// service answers like a model behind an API, without tokens, with one completion after the other.
type service []policy.Completion

func (s *service) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i := range out {
		out[i], *s = (*s)[0], (*s)[1:]
	}
	return out, nil
}

func (*service) Forget(...uint64) {}

// reading is an environment of one format; its reward is 1 if a response has it.
type reading struct {
	parser *reward.Parser
	turns  int
}

func (e *reading) Parser() *reward.Parser { return e.parser }
func (e *reading) System(context.Context) (env.Observation, error) {
	return env.Observation{}, nil
}

func (e *reading) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: "on"}, nil
}

func (e *reading) Step(_ context.Context, response string) (env.Outcome, error) {
	e.turns++
	o := env.Outcome{Response: e.parser.Parse(response), Observation: env.Observation{Text: "on"}, Done: e.turns == 3}
	if o.Response.FormatCorrect {
		o.Reward = reward.Parts{{Name: "format", Value: 1}}
	}
	return o, nil
}

func (e *reading) Close() error { return nil }

// playService plays an episode of three turns.
func playService(t *testing.T, format string, answers ...policy.Completion) *rollout.Trajectory {
	parser, err := reward.NewParser(format, reward.ParserOptions{Dialect: reward.Legacy})
	require.NoError(t, err)
	envs := &env.Registry{}
	require.NoError(t, envs.Register("reading", func(map[string]any) (env.Env, error) {
		return &reading{parser: parser}, nil
	}))
	s := service(answers)
	p := rollout.Player{Policy: &s, Envs: envs, Sampling: policy.Sampling{MaxTokens: 8}, MaxTurns: 3}
	out, _, err := p.Play(t.Context(), []rollout.Episode{{Env: "reading"}}, 1)
	require.NoError(t, err)
	return out[0]
}

// The environment gets the reasoning that a service returned apart, in the tags of its format.
func TestReasoningApartReachesTheEnvironment(t *testing.T) {
	const answer = "<answer>Up</answer>"
	tr := playService(t, "free_think", policy.Completion{Text: answer, Reasoning: "hm"},
		policy.Completion{Text: "<think>go</think>" + answer}, policy.Completion{Reasoning: "hm"})
	require.NoError(t, tr.Err)
	require.Equal(t, 2.0, tr.Return())
	require.Equal(t, "<think>hm</think>"+answer, tr.Turns[0].Response)
	require.Equal(t, "<think>go</think>"+answer, tr.Turns[1].Response)
	require.Equal(t, "<think>hm</think>", tr.Turns[2].Response)

	plain := policy.Completion{Text: answer}
	tr = playService(t, "no_think", policy.Completion{Text: answer, Reasoning: "hm"}, plain, plain)
	require.Equal(t, 3.0, tr.Return(), "a format without thoughts has none")
}

// An empty answer of a service is a response with a bad format, like that of a local model that
// writes only its end token: the episode goes on, and counts.
func TestEmptyAnswersCountAsResponses(t *testing.T) {
	good := policy.Completion{Text: "<think>go</think><answer>Up</answer>"}
	tr := playService(t, "free_think", policy.Completion{}, good, policy.Completion{Stop: policy.StopLength})
	require.NoError(t, tr.Err)
	require.Equal(t, rollout.EndDone, tr.End)
	require.Len(t, tr.Turns, 3)
	require.False(t, tr.Turns[0].Parsed.FormatCorrect)
	require.Equal(t, 1.0, tr.Return())
}
