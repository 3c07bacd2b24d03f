package remote

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vagen/env"
	"vagen/reward"
)

// stub is the environment of the recordings: it counts turns. Its images are
// patterns of the turn, the number of the image and the seed.
type stub struct {
	o      stubOptions
	n      int
	seed   int64
	ready  bool
	closed *atomic.Int64 // counts Close calls, may be nil
	hold   chan struct{} // a step with Sleep waits for it; nil does not wait
	enter  chan struct{} // receives when such a step has started
}

type stubOptions struct {
	Images int     `option:"images"`
	Goal   int     `option:"goal"`
	Sleep  float64 `option:"sleep"`
	FailOn string  `option:"fail_on"`
	Panic  string  `option:"panic_on"`
	Hang   string  `option:"hang_on"` // ignores its context
	Wait   string  `option:"wait_on"` // honours it
	Width  int     `option:"width"`
	Height int     `option:"height"`
	Broken bool    `option:"broken"` // Reset fails
}

func newStub(config map[string]any) (*stub, error) {
	o := stubOptions{Goal: 3, Width: 4, Height: 3}
	if err := env.Decode(config, &o); err != nil {
		return nil, err
	}
	return &stub{o: o}, nil
}

func stubFactory(config map[string]any) (env.Env, error) { return newStub(config) }

func (s *stub) observe(text string) env.Observation {
	o := env.Observation{Text: text + strings.Repeat(" "+env.ImageMark, s.o.Images)}
	for i := range s.o.Images {
		img := image.NewRGBA(image.Rect(0, 0, s.o.Width, s.o.Height))
		for y := range s.o.Height {
			for x := range s.o.Width {
				img.Set(x, y, color.RGBA{uint8(x*40 + s.n), uint8(y*60 + i), uint8(s.seed), 0xff})
			}
		}
		o.Images = append(o.Images, img)
	}
	return o
}

func (s *stub) System(context.Context) (env.Observation, error) {
	return s.observe("stub rules: é ü 漢 \"quoted\" \\ back\r\nslash"), nil
}

func (s *stub) Reset(_ context.Context, seed int64) (env.Observation, error) {
	if s.o.Broken {
		return env.Observation{}, errors.New("stub cannot reset")
	}
	s.seed, s.n, s.ready = seed, 0, true
	return s.observe(fmt.Sprintf("start %d", seed)), nil
}

func (s *stub) Step(ctx context.Context, text string) (env.Outcome, error) {
	if !s.ready {
		return env.Outcome{}, errors.New("stub was not reset")
	}
	if s.o.Sleep > 0 && s.hold != nil {
		close(s.enter)
		<-s.hold
	}
	switch {
	case text == "":
	case text == s.o.FailOn:
		return env.Outcome{}, errors.New("stub failure")
	case text == s.o.Panic:
		panic("stub panic")
	case text == s.o.Hang:
		<-s.hold
	case text == s.o.Wait:
		select {
		case <-ctx.Done():
			return env.Outcome{}, ctx.Err()
		case <-time.After(time.Hour):
		}
	}
	s.n++
	done := s.n >= s.o.Goal
	pay := 0.125 * float64(s.n)
	if done {
		pay = 1
	}
	valid := 0.0
	if text != "" {
		valid = 1
	}
	return env.Outcome{
		Observation: s.observe(fmt.Sprintf("turn %d", s.n)), Reward: reward.Parts{{Name: "count", Value: pay}},
		Done: done, Success: done, Response: reward.Response{Raw: text},
		Turn: env.Metrics{"action_is_valid": valid}, Trajectory: env.Metrics{"success": map[bool]float64{true: 1}[done]},
	}, nil
}

func (s *stub) Close() error {
	if s.closed != nil {
		s.closed.Add(1)
	}
	return nil
}

func (s *stub) ResetInfo() Info { return Info{{"seed", s.seed}} }

func (s *stub) StepInfo(o env.Outcome) Info {
	return Info{{"echo", o.Response.Raw}, {"success", o.Success}, metricsField(o)}
}

// serve returns a server for tests, with the stub unless o says otherwise.
func serve(t testing.TB, change func(*ServerOptions)) *Server {
	t.Helper()
	o := DefaultServerOptions()
	o.Lite = stubFactory
	if change != nil {
		change(&o)
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("closing the server: %v", err)
		}
	})
	return s
}
