package rollout_test

import (
	"bytes"
	"context"
	"image"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// faults are the ways in which an environment may fail, with the resulting End.
var faults = map[string]struct {
	method string
	turn   int
	fault  func(ctx context.Context, o *env.Outcome) error
	end    rollout.End
	wraps  error
	says   string
}{
	"constructor fails":  {"new", 0, fail, rollout.EndSetup, errBroken, "reset of fake"},
	"constructor panics": {"new", 0, crash, rollout.EndContract, rollout.ErrContract, "panicked: out of luck"},
	"system fails":       {"system", 0, fail, rollout.EndSetup, errBroken, "reset of fake"},
	"system panics":      {"system", 0, crash, rollout.EndContract, rollout.ErrContract, "panicked: out of luck"},
	"reset fails":        {"reset", 0, fail, rollout.EndSetup, errBroken, "reset of fake"},
	"reset panics":       {"reset", 0, crash, rollout.EndContract, rollout.ErrContract, "panicked: out of luck"},
	"reset hangs": {"reset", 0, wait, rollout.EndHang, rollout.ErrTimeout,
		"reset of fake: environment did not answer in time (3s)"},
	"reset forgets an image": {"reset", 0, func(_ context.Context, o *env.Outcome) error {
		o.Observation = env.Observation{Text: "a <image> and a <image>", Images: []image.Image{picture(0, 0)}}
		return nil
	}, rollout.EndContract, rollout.ErrContract, "2 image marks and 1 images"},
	"system shows an unmarked image": {"system", 0, func(_ context.Context, o *env.Outcome) error {
		o.Observation.Images = []image.Image{picture(0, 0)}
		return nil
	}, rollout.EndContract, rollout.ErrContract, "0 image marks and 1 images"},
	"step fails": {"step", 1, fail, rollout.EndEnv, errBroken, "step of fake"},
	"step panics": {"step", 1, crash, rollout.EndContract, rollout.ErrContract,
		"step of fake: environment broke its contract: step of fake panicked: out of luck"},
	"step hangs": {"step", 1, wait, rollout.EndHang, rollout.ErrTimeout,
		"step of fake: environment did not answer in time (3s)"},
	"step has a deadline of its own": {"step", 1, func(context.Context, *env.Outcome) error {
		return context.DeadlineExceeded
	},
		rollout.EndHang, rollout.ErrTimeout, "step of fake"},
	"step gives up at the deadline": {"step", 1, func(ctx context.Context, _ *env.Outcome) error {
		<-ctx.Done()
		return errBroken
	},
		rollout.EndHang, rollout.ErrTimeout, "step of fake: environment did not answer in time (3s)"},
	"step marks an image too many": {"step", 0, func(_ context.Context, o *env.Outcome) error {
		o.Observation.Text = "<image>"
		return nil
	}, rollout.EndContract, rollout.ErrContract, "1 image marks and 0 images"},
	"step shows a typed nil": {"step", 0, func(_ context.Context, o *env.Outcome) error {
		o.Observation = env.Observation{Text: "<image>", Images: []image.Image{(*image.RGBA)(nil)}}
		return nil
	}, rollout.EndContract, rollout.ErrContract, "panicked"},
	"step shows an image without pixels": {"step", 0, func(_ context.Context, o *env.Outcome) error {
		o.Observation = env.Observation{Text: "<image>", Images: []image.Image{image.NewGray(image.Rectangle{})}}
		return nil
	}, rollout.EndContract, rollout.ErrContract, "image 0 is empty"},
	"reward is NaN": {"step", 1, pay(math.NaN()), rollout.EndContract, rollout.ErrContract,
		`reward "late" is NaN, must be finite`},
	"reward is too large": {"step", 1, pay(1e39), rollout.EndContract, rollout.ErrContract,
		"the turn's reward is 1e+39, must fit a float32"},
	"turn metric is NaN": {"step", 0, func(_ context.Context, o *env.Outcome) error {
		o.Turn["odd"] = math.NaN()
		return nil
	},
		rollout.EndContract, rollout.ErrContract, `turn metric "odd" is NaN`},
	"trajectory metric is infinite": {"step", 0, func(_ context.Context, o *env.Outcome) error {
		o.Trajectory["odd"] = math.Inf(1)
		return nil
	},
		rollout.EndContract, rollout.ErrContract, `trajectory metric "odd" is +Inf`},
}

func fail(context.Context, *env.Outcome) error       { return errBroken }
func crash(context.Context, *env.Outcome) error      { panic("out of luck") }
func wait(ctx context.Context, _ *env.Outcome) error { <-ctx.Done(); return ctx.Err() }

func pay(x float64) func(context.Context, *env.Outcome) error {
	return func(_ context.Context, o *env.Outcome) error {
		o.Reward = append(o.Reward, reward.Part{Name: "late", Value: x})
		return nil
	}
}

func TestAFactoryThatReturnsNoEnvironmentBreaksItsContract(t *testing.T) {
	w := &world{}
	p := player(t, w, &parrot{})
	require.NoError(t, p.Envs.Register("empty", func(map[string]any) (env.Env, error) { return nil, nil }))
	ts := play(t, w, p, []rollout.Episode{{Env: "empty"}})
	require.Equal(t, rollout.EndContract, ts[0].End)
	require.ErrorContains(t, ts[0].Err, "returned no environment")
}

// TestAHangingEnvironmentIsAbandoned has an environment that ignores its context.
// Play continues after the timeout, does not call the environment again while the
// abandoned call runs, and closes it when that call returns.
func TestAHangingEnvironmentIsAbandoned(t *testing.T) {
	for _, method := range []string{"reset", "step"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			w := &world{fault: func(_ context.Context, seed int64, at string, turn int, _ *env.Outcome) error {
				if seed == 1 && at == method {
					<-release
				}
				return nil
			}}
			p := player(t, w, &parrot{})
			p.EnvTimeout = 5 * time.Second
			begin := time.Now()
			ts := finished(t, p, []rollout.Episode{{Env: "fake", Seed: 0}, {Env: "fake", Seed: 1, Index: 1}})
			require.Equal(t, 5*time.Second, time.Since(begin), "it costs the timeout, once")
			require.Equal(t, rollout.EndMaxTurns, ts[0].End)
			require.Equal(t, rollout.EndHang, ts[1].End)
			require.ErrorIs(t, ts[1].Err, rollout.ErrTimeout)
			require.EqualValues(t, 1, w.closed.Load(), "the one that hangs is open still")
			close(release)
			synctest.Wait()
			require.EqualValues(t, 2, w.closed.Load())
			require.Zero(t, w.overlaps.Load())
		})
	}
}

// TestAnEnvironmentThatDoesNotCloseDelaysNothing: Play waits at most one second for
// each environment to close, and logs the failure.
func TestAnEnvironmentThatDoesNotCloseDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := &world{fault: func(_ context.Context, seed int64, method string, _ int, _ *env.Outcome) error {
			switch {
			case method == "close" && seed == 0:
				<-release
			case method == "close" && seed == 1:
				return errBroken
			case method == "close" && seed == 2:
				panic("out of luck")
			}
			return nil
		}}
		var log bytes.Buffer
		p := player(t, w, &parrot{})
		p.Log = slog.New(slog.NewTextHandler(&log, nil))
		begin := time.Now()
		ts := finished(t, p, []rollout.Episode{{Env: "fake", Seed: 0}, {Env: "fake", Seed: 1, Index: 1},
			{Env: "fake", Seed: 2, Index: 2}})
		require.Equal(t, time.Second, time.Since(begin))
		for _, tr := range ts {
			require.True(t, tr.End.Usable(), "the episode is over and stands")
		}
		require.Contains(t, log.String(), "environment did not close")
		require.Contains(t, log.String(), errBroken.Error())
		require.Contains(t, log.String(), "out of luck")
		close(release)
	})
}

func TestUnusableEpisodesAreLoggedWithTheirCauses(t *testing.T) {
	w := &world{fault: func(_ context.Context, seed int64, method string, _ int, _ *env.Outcome) error {
		if method == "step" && seed < 2 {
			return errBroken
		}
		return nil
	}}
	var log bytes.Buffer
	p := player(t, w, &parrot{})
	p.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	play(t, w, p, []rollout.Episode{{Env: "fake", Seed: 0}, {Env: "fake", Seed: 1, Index: 1},
		{Env: "fake", Seed: 2, Index: 2}})
	for _, want := range []string{"level=WARN", "unusable=2", "of=3", "env_error=2", "level=DEBUG", "seed=1", "index=1",
		errBroken.Error()} {
		require.Contains(t, log.String(), want)
	}
}

// TestConversationsFailAlone: the policy fails on one conversation, or returns an
// invalid completion for it.
func TestConversationsFailAlone(t *testing.T) {
	const bad = 2 // conversations count from 1
	for name, c := range map[string]struct {
		turn  int
		alter func(*policy.Completion)
		end   rollout.End
		says  string // "" when the episode can be used
		turns int
	}{
		"error": {1, func(c *policy.Completion) { *c = policy.Completion{Err: errBroken} }, rollout.EndPolicy,
			errBroken.Error(), 1},
		"no room, first turn": {0, func(c *policy.Completion) { *c = policy.Completion{Err: policy.ErrNoRoom} },
			rollout.EndPolicy, policy.ErrNoRoom.Error(), 0},
		"no room later": {2, func(c *policy.Completion) {
			*c = policy.Completion{Err: policy.ErrNoRoom}
		}, rollout.EndNoRoom, "", 2},
		"empty generation": {1, func(c *policy.Completion) { c.Tokens, c.LogProbs, c.Text = nil, nil, "" },
			rollout.EndEmpty, "returned no token", 1},
		"vision token": {1, func(c *policy.Completion) { c.Stop = policy.StopVision }, rollout.EndVision,
			"image placeholder", 2},
		"too few log-probs": {0, func(c *policy.Completion) { c.LogProbs = c.LogProbs[1:] }, rollout.EndPolicy,
			"turn 0: the policy returned ", 0},
		"log-prob not a number": {1, func(c *policy.Completion) { c.LogProbs[0] = float32(math.NaN()) }, rollout.EndPolicy,
			"turn 1: the policy returned the log-prob NaN for token 0", 1},
		"tokens left out": {1, func(c *policy.Completion) { c.Tokens, c.LogProbs = nil, nil }, rollout.EndPolicy,
			"turn 1: the policy returned 0 tokens after 1 responses", 1},
		"end of turn alone": {1, func(c *policy.Completion) {
			c.Tokens, c.LogProbs, c.Text = []int32{endToken}, []float32{-1}, ""
		}, rollout.EndMaxTurns, "", 4},
	} {
		w := &world{}
		eps := []rollout.Episode{{Env: "fake", Index: 0}, {Env: "fake", Index: 1}, {Env: "fake", Index: 2}}
		want := play(t, w, player(t, w, &parrot{}), eps)
		q := &parrot{alter: func(_ context.Context, p policy.Prompt, turn int, out *policy.Completion) error {
			if p.Conversation == bad && turn == c.turn {
				c.alter(out)
			}
			return nil
		}}
		got := play(t, w, player(t, w, q), eps)
		require.Equal(t, want[0], got[0], name)
		require.Equal(t, want[2], got[2], name)
		tr := got[bad-1]
		require.Equal(t, c.end, tr.End, "%s: %v", name, tr.Err)
		require.Len(t, tr.Turns, c.turns, name)
		require.Equal(t, c.says == "", tr.End.Usable(), name)
		if c.says == "" {
			require.NoError(t, tr.Err, name)
		} else {
			require.ErrorContains(t, tr.Err, c.says, name)
		}
	}
}

// TestAFailingPolicyEndsPlay: a batch without completions cannot continue.
func TestAFailingPolicyEndsPlay(t *testing.T) {
	w := &world{}
	q := &parrot{alter: func(_ context.Context, p policy.Prompt, turn int, _ *policy.Completion) error {
		if turn == 1 && p.Conversation == 3 {
			return errBroken
		}
		return nil
	}}
	p := player(t, w, q)
	ts, _, err := p.Play(t.Context(), episodes(6), 7)
	testkit.Error(t, err, errBroken, "rollout: generate: ")
	require.Nil(t, ts)
	orderly(t, w, p, episodes(6))
}

type mute struct{ *parrot }

func (m mute) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	out, err := m.parrot.Generate(ctx, prompts, s)
	return out[1:], err
}

func TestTooFewCompletionsAreAnError(t *testing.T) {
	w, q := &world{}, &parrot{}
	p := player(t, w, q)
	p.Policy = mute{q}
	_, _, err := p.Play(t.Context(), episodes(3), 7)
	require.EqualError(t, err, "rollout: generate: the policy returned 2 completions for 3 prompts")
	require.Equal(t, w.made.Load(), w.closed.Load())
}

// TestAFailingPolicyDoesNotWaitForEnvironments: with two waves one steps, for an
// hour, while the policy fails on the other.
func TestAFailingPolicyDoesNotWaitForEnvironments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{delay: func(_ int64, method string) time.Duration {
			if method == "step" {
				return time.Hour
			}
			return 0
		}}
		q := &parrot{alter: func(_ context.Context, p policy.Prompt, _ int, _ *policy.Completion) error {
			if p.Conversation == 2 {
				return errBroken
			}
			return nil
		}}
		p := player(t, w, q)
		p.Waves, p.EnvTimeout = 2, 2*time.Hour
		begin := time.Now()
		_, _, err := p.Play(t.Context(), episodes(4), 7)
		require.ErrorIs(t, err, errBroken)
		require.Zero(t, time.Since(begin))
		synctest.Wait()
		orderly(t, w, p, episodes(4))
	})
}

// TestCancellationEndsPlay cancels in every kind of call. synctest fails the test
// when a goroutine is left, and its clock shows that Play did not wait.
func TestCancellationEndsPlay(t *testing.T) {
	for _, at := range []string{"system", "reset", "step", "generate"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &world{}
			w.fault = func(ctx context.Context, seed int64, method string, turn int, _ *env.Outcome) error {
				if method != at || turn != 0 || seed > 101 {
					return nil
				}
				if seed == 101 || method == "system" {
					cancel()
				}
				return wait(ctx, nil)
			}
			q := &parrot{alter: func(ctx context.Context, p policy.Prompt, turn int, _ *policy.Completion) error {
				if at == "generate" && turn == 1 {
					cancel()
				}
				return ctx.Err()
			}}
			p := player(t, w, q)
			p.Workers, p.Waves = 4, 2
			begin := time.Now()
			ts, _, err := p.Play(ctx, episodes(40), 7)
			require.ErrorIs(t, err, context.Canceled, at)
			require.Nil(t, ts)
			require.Zero(t, time.Since(begin), at)
			synctest.Wait()
			orderly(t, w, p, episodes(40))
			if at == "system" {
				require.LessOrEqual(t, w.made.Load(), int64(p.Workers), "no environment is made after the end")
			}
		})
	}
}
