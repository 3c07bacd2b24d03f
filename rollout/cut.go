package rollout

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/policy"
)

// fit holds an observation that goes on with an episode against the budget, once.
func (p *Player) fit(l *live, s *State) error {
	limit := p.Budget.Observation
	if l.MaxObservation > 0 && (limit == 0 || l.MaxObservation < limit) {
		limit = l.MaxObservation
	}
	if !l.fresh || limit == 0 {
		return nil
	}
	o, cut, err := cutTo(l.shown, limit, keep, func(o env.Observation) (int, error) {
		return s.Count(Ask{Open: !s.Going(), Messages: []policy.Message{message(policy.User, o)}})
	})
	if err != nil {
		return err
	}
	l.shown, l.cut, l.fresh, s.Now = o, cut, false, o
	return nil
}

// cutTo cuts an observation to a number of tokens: text first, then whole images.
// part says what is left of runes of text and of images; image marks stay with their
// images.
func cutTo(o env.Observation, limit int, part func(o env.Observation, runes, images int) env.Observation, count func(env.Observation) (int, error)) (kept env.Observation, cut bool, err error) {
	n, err := count(o)
	if err != nil || n <= limit {
		return o, false, err
	}
	least := 0 // runes that have to be left
	if len(o.Images) == 0 {
		least = 1
	}
	for images := len(o.Images); images+least > 0; images-- {
		fits := func(runes int) (bool, error) {
			n, err := count(part(o, runes, images))
			return n <= limit, err
		}
		ok, err := fits(least)
		switch {
		case err != nil:
			return o, false, err
		case ok && images < len(o.Images):
			return part(o, 0, images), true, nil // without room for an image there is none for text
		case ok:
			runes, err := most(least, len([]rune(o.Text)), fits)
			return part(o, runes, images), true, err
		}
	}
	return o, false, fmt.Errorf("%w: it has %d tokens, Budget.Observation is %d", ErrObservation, n, limit)
}

// keep leaves the first runes of an observation's text, not counting image marks,
// and the first images with their marks.
func keep(o env.Observation, runes, images int) env.Observation {
	var b strings.Builder
	for i, piece := range strings.Split(o.Text, env.ImageMark) {
		if i > 0 && i <= images {
			b.WriteString(env.ImageMark)
		}
		letters := []rune(piece)
		n := min(runes, len(letters))
		b.WriteString(string(letters[:n]))
		runes -= n
	}
	return env.Observation{Text: b.String(), Images: o.Images[:images]}
}

// keepLast leaves the last runes and the last images.
func keepLast(o env.Observation, runes, images int) env.Observation {
	pieces := strings.Split(o.Text, env.ImageMark)
	first := len(pieces) - 1 - images // piece before the first mark that stays
	text := ""
	for i := len(pieces) - 1; i >= 0; i-- {
		letters := []rune(pieces[i])
		n := min(runes, len(letters))
		text = string(letters[len(letters)-n:]) + text
		if i > first && i > 0 {
			text = env.ImageMark + text
		}
		runes -= n
	}
	return env.Observation{Text: text, Images: o.Images[len(o.Images)-images:]}
}

// most finds the largest n in [low, limit) that fits, given that low does and that
// what fits does so with less.
func most(low, limit int, fits func(int) (bool, error)) (int, error) {
	for high := limit; high-low > 1; {
		mid := (low + high) / 2
		ok, err := fits(mid)
		if err != nil {
			return low, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}
