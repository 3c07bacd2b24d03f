package rollout

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/policy"
)

// fitObservation cuts a follow-up observation to Budget.Observation. It does so once
// for each observation.
func (p *Player) fitObservation(l *live, s *State) error {
	limit := p.Budget.Observation
	if l.MaxObservation > 0 && (limit == 0 || l.MaxObservation < limit) {
		limit = l.MaxObservation
	}
	if !l.unchecked || limit == 0 {
		return nil
	}
	o, cut, err := cutTo(l.observation, limit, keepFirst, func(o env.Observation) (int, error) {
		return s.Count(Request{Open: !s.HasOpenConversation(), Messages: []policy.Message{message(policy.User, o)}})
	})
	if err != nil {
		return err
	}
	l.observation, l.cut, l.unchecked, s.Observation = o, cut, false, o
	return nil
}

// cutTo cuts an observation to a number of tokens: text first, then whole images.
// part returns the observation with the given number of runes of text and of images;
// each image mark stays with its image.
func cutTo(o env.Observation, limit int, part func(o env.Observation, runes, images int) env.Observation,
	count func(env.Observation) (int, error)) (kept env.Observation, cut bool, err error) {
	n, err := count(o)
	if err != nil || n <= limit {
		return o, false, err
	}
	least := 0 // smallest number of runes to keep
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
			return part(o, 0, images), true, nil // where a whole image does not fit, text is dropped, too
		case ok:
			runes, err := largestFit(least, len([]rune(o.Text)), fits)
			return part(o, runes, images), true, err
		}
	}
	return o, false, fmt.Errorf("%w: it has %d tokens, Budget.Observation allows %d", ErrObservation, n, limit)
}

// keepFirst keeps the first runes of an observation's text, not counting image marks,
// and the first images with their marks.
func keepFirst(o env.Observation, runes, images int) env.Observation {
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

// keepLast keeps the last runes and the last images.
func keepLast(o env.Observation, runes, images int) env.Observation {
	pieces := strings.Split(o.Text, env.ImageMark)
	first := len(pieces) - 1 - images // piece before the first mark that is kept
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

// largestFit returns the largest n in [low, limit) that fits, by bisection. low must
// fit, and every n below one that fits must fit.
func largestFit(low, limit int, fits func(int) (bool, error)) (int, error) {
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
