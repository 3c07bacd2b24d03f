package net

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// trainedNodes returns the gradients of a group's trained parameters. The others are not
// computed, because nothing uses them.
func trainedNodes(grads []*Node, g *model.Group) []*Node {
	var out []*Node
	for _, i := range g.Trained() {
		out = append(out, grads[i])
	}
	return out
}

// frozenKey distinguishes backward programs of groups by their trained parameters. It is
// "" if all are trained.
func frozenKey(g *model.Group) string {
	trained := g.Trained()
	if len(trained) == len(g.Params) {
		return ""
	}
	return fmt.Sprintf(" trained=%v", trained)
}

// trained reports whether any parameter of the groups is trained.
func trained(groups ...model.Group) bool {
	for _, g := range groups {
		if len(g.Trained()) > 0 {
			return true
		}
	}
	return false
}

// gradientReach is how far back gradients are needed.
type gradientReach struct {
	Vision bool // into the vision tower
	embed  bool // to the embedding table
	layer  int  // down to this decoder layer; 0 if also below the decoder
}

func newGradientReach(g *model.Groups) gradientReach {
	r := gradientReach{Vision: trained(g.Patch, g.Merger) || trained(g.Blocks...) || trained(g.Deepstack...),
		embed: trained(g.Embed)}
	if r.Vision || r.embed {
		return r
	}
	for r.layer < len(g.Layers) && !trained(g.Layers[r.layer]) {
		r.layer++
	}
	return r
}

// TrainedGroups returns the groups restricted to their trained parameters, including
// groups without any.
func TrainedGroups(groups []*model.Group) []*model.Group {
	out := make([]*model.Group, len(groups))
	for i, g := range groups {
		t := &model.Group{Name: g.Name}
		for _, k := range g.Trained() {
			t.Params = append(t.Params, g.Params[k])
		}
		out[i] = t
	}
	return out
}

// headSlot is where the gradient of one of the head's weights is accumulated.
type headSlot struct {
	param int // index among the head's weights in program order
	to    *[]*device.Array
	at    int // index in to
	room  int // length of to
}

// HeadSlots lists the head's trained weights in program order.
func (n *Net) HeadSlots(h *model.Head, g *Parts) []headSlot {
	var out []headSlot
	param := 0
	add := func(group *model.Group, i int, to *[]*device.Array) {
		for at, k := range group.Trained() {
			if k == i {
				out = append(out, headSlot{param: param, to: to, at: at, room: len(group.Trained())})
			}
		}
		param++
	}
	add(&n.Groups.Head, 0, &g.Head)
	if h.Tokens && n.Spec.Tied {
		add(&n.Groups.Embed, 0, &g.Embed)
	} else if h.Tokens {
		add(&n.Groups.Head, 1, &g.Head)
	}
	if h.Value {
		add(&n.Groups.Score, 0, &g.Score)
		add(&n.Groups.Score, 1, &g.Score)
	}
	return out
}

// HeadGrads lists the accumulated gradients of the head's trained weights in
// program order, or nil before the first chunk. A tied table's gradient is the
// embedding's.
func HeadGrads(slots []headSlot) []*device.Array {
	var acc []*device.Array
	for _, s := range slots {
		if *s.to == nil || (*s.to)[s.at] == nil {
			return nil
		}
		acc = append(acc, (*s.to)[s.at])
	}
	return acc
}

func SetHeadGrads(slots []headSlot, grads []*device.Array) {
	for i, s := range slots {
		if *s.to == nil {
			*s.to = make([]*device.Array, s.room)
		}
		(*s.to)[s.at] = grads[i]
	}
}
