package generate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/net"
)

// resumed is a recorded conversation that has not been generated for.
type resumed struct {
	tokens   []int32
	images   []policy.Image
	pictures []net.Picture
	ended    bool // the last token is the end-of-turn token
}

// Resume takes recorded conversations, or none if one of them cannot be continued.
func (g *Generator) Resume(conversations []policy.Recorded) error {
	fresh := make(map[uint64]*resumed, len(conversations))
	for _, c := range conversations {
		r, err := g.resume(c)
		if err != nil {
			return fmt.Errorf("vlm: resume: conversation %d: %w: %w", c.Conversation, policy.ErrResume, err)
		}
		fresh[c.Conversation] = r
	}
	maps.Copy(g.Resumed, fresh)
	return nil
}

// resume checks a recorded conversation and processes its images.
func (g *Generator) resume(c policy.Recorded) (*resumed, error) {
	if _, open := g.Chats[c.Conversation]; open {
		return nil, errors.New("it is already open")
	}
	if len(c.Tokens) == 0 {
		return nil, errors.New("it has no tokens")
	}
	r := &resumed{tokens: c.Tokens, images: c.Images}
	var grids []net.Grid
	for i, im := range c.Images {
		p, err := g.Picture(im)
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		r.pictures, grids = append(r.pictures, p), append(grids, p.Grid)
	}
	if err := g.CheckTokens(c.Tokens); err != nil {
		return nil, err
	}
	if _, _, err := net.Positions(g.Cfg, c.Tokens, grids); err != nil {
		return nil, err
	}
	_, end := g.Chat.EndOfTurn()
	r.ended = c.Tokens[len(c.Tokens)-1] == end
	return r, nil
}

// prepend puts the recorded tokens and images in front of a request's. r may be nil.
func (r *resumed) prepend(t *Turn) {
	if r == nil {
		return
	}
	t.Tokens, t.Images = slices.Concat(r.tokens, t.Tokens), slices.Concat(r.pictures, t.Images)
	t.Shared = net.ContextKey(t.Tokens, slices.Concat(r.images, t.refs))
}
