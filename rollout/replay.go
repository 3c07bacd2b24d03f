package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"strings"

	"vagen/env"
	"vagen/internal/imagefile"
)

// branchOff brings the environment of a branch, which has been reset or restored, to the
// branch point.
func (p *Player) branchOff(ctx context.Context, l *live) {
	if l.from.State == nil {
		p.replay(ctx, l)
	}
	if l.ended {
		return
	}
	if err := p.reseed(ctx, l); err != nil {
		l.fail(endOf(err, EndSetup), err)
		return
	}
	l.join()
}

// replay gives the environment the recorded responses before the branch point. Turns
// gets the repeated turns.
func (p *Player) replay(ctx context.Context, l *live) {
	f := l.from
	for k := 0; ; k++ {
		was := &f.From.Turns[k]
		if d := differsFrom(was, l.observation); d != "" {
			l.fail(EndReplay, fmt.Errorf("rollout: %w: turn %d: %s", ErrReplay, k, d))
			return
		}
		if f.visit != nil {
			if err := f.visit(ctx, l, k); err != nil {
				l.fail(endOf(err, EndEnv), err)
				return
			}
		}
		if k == f.Turn {
			return
		}
		l.Turns = append(l.Turns, Turn{Response: was.Response})
		if p.step(ctx, l); l.ended {
			if l.Err == nil {
				l.fail(EndReplay, fmt.Errorf("rollout: %w: it ends with turn %d (%s), the recorded one has %d turns", ErrReplay, k,
					l.End, len(f.From.Turns)))
			}
			return
		}
	}
}

// differsFrom says how an observation differs from a recorded one, "" if it does not.
// One that was cut is compared with what can be left of the observation.
func differsFrom(was *Turn, o env.Observation) string {
	old := was.Observation
	if !was.Cut {
		return differ(old, o)
	}
	runes, images := len([]rune(strings.ReplaceAll(old.Text, env.ImageMark, ""))), len(old.Images)
	if images > len(o.Images) {
		return differ(old, o)
	}
	if differ(old, keepFirst(o, runes, images)) != "" && differ(old, keepLast(o, runes, images)) != "" {
		return "the recorded observation is not a part of the repeated one"
	}
	return ""
}

func differ(was, is env.Observation) string {
	if was.Text != is.Text {
		return fmt.Sprintf("the observation was %.80q, is %.80q", was.Text, is.Text)
	}
	if len(was.Images) != len(is.Images) {
		return fmt.Sprintf("the observation had %d images, has %d", len(was.Images), len(is.Images))
	}
	for i := range was.Images {
		if !samePixels(was.Images[i], is.Images[i]) {
			return fmt.Sprintf("image %d of the observation has other pixels", i)
		}
	}
	return ""
}

func samePixels(a, b image.Image) bool {
	if a == nil || b == nil || a.Bounds().Size() != b.Bounds().Size() {
		return false
	}
	return bytes.Equal(imagefile.NRGBA(a).Pix, imagefile.NRGBA(b).Pix)
}

// restoreEnv restores a snapshot.
func restoreEnv(ctx context.Context, e env.Env, state []byte) error {
	s, ok := e.(env.Snapshotter)
	if !ok {
		return env.ErrNoSnapshot
	}
	return s.Restore(ctx, state)
}

// Snapshots repeats a recorded episode in a new environment and returns the environment's
// snapshots before each turn, for Branch.State. The episode needs no tokens. The error
// wraps ErrReplay and names the turn if what the environment shows differs from what was
// recorded, and env.ErrNoSnapshot if the environment has no snapshots. Policy and Sampling
// are not used. Several goroutines may call it at once.
func (p *Player) Snapshots(ctx context.Context, t *Trajectory) ([][]byte, error) {
	switch {
	case p.Envs == nil:
		return nil, errors.New("rollout: snapshots: Envs is not set")
	case t == nil || len(t.Turns) == 0:
		return nil, fmt.Errorf("rollout: snapshots: %w: it has no turns", ErrBranch)
	}
	states := make([][]byte, len(t.Turns))
	l := &live{Trajectory: &Trajectory{Episode: t.Episode}, from: &branch{Branch: Branch{From: t, Turn: len(t.Turns) - 1}}}
	l.MaxTurns = len(t.Turns)
	l.from.visit = func(ctx context.Context, l *live, turn int) (err error) {
		states[turn], err = callEnv(ctx, p, l, "snapshot", func(_ context.Context, e env.Env) ([]byte, error) {
			if s, ok := e.(env.Snapshotter); ok {
				return s.Snapshot()
			}
			return nil, env.ErrNoSnapshot
		})
		return err
	}
	p.open(ctx, l)
	if l.env != nil {
		p.closeEnv(l.Env, l.env)
	}
	if l.Err != nil {
		return nil, fmt.Errorf("rollout: snapshots of group %d, episode %d: %w", t.Group, t.Index, l.Err)
	}
	return states, nil
}
