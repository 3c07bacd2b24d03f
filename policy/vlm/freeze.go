package vlm

import (
	"fmt"

	. "github.com/gomlx/gomlx/pkg/core/graph"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// trainedNodes keeps the gradients of a group's parameters that are trained. The
// others are not computed then, for nothing reads them.
func trainedNodes(grads []*Node, g *model.Group) []*Node {
	var out []*Node
	for _, i := range g.Trained() {
		out = append(out, grads[i])
	}
	return out
}

// frozenKey tells backward programs of groups apart by what is trained. It is ""
// when everything is.
func frozenKey(g *model.Group) string {
	trained := g.Trained()
	if len(trained) == len(g.Params) {
		return ""
	}
	return fmt.Sprintf(" trained=%v", trained)
}

// trained reports whether any parameter of the groups is.
func trained(groups ...model.Group) bool {
	for _, g := range groups {
		if len(g.Trained()) > 0 {
			return true
		}
	}
	return false
}

// reach says how far back gradients must go.
type reach struct {
	vision bool // into the vision tower
	embed  bool // to the embedding table
	layer  int  // to this decoder layer; 0 when they go beyond it
}

func newReach(g *model.Groups) reach {
	r := reach{vision: trained(g.Patch, g.Merger) || trained(g.Blocks...) || trained(g.Deepstack...), embed: trained(g.Embed)}
	if r.vision || r.embed {
		return r
	}
	for r.layer < len(g.Layers) && !trained(g.Layers[r.layer]) {
		r.layer++
	}
	return r
}

// trainedGroups are groups of the trained parameters alone; groups without any
// have none.
func trainedGroups(groups []*model.Group) []*model.Group {
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
	param int // place among the head's weights in program order
	to    *[]*device.Array
	at    int // place in to
	room  int // length of to
}

// headSlots lists the head's trained weights in program order.
func (n *net) headSlots(h *model.Head, g *parts) []headSlot {
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
	add(&n.groups.Head, 0, &g.head)
	if h.Tokens && n.spec.Tied {
		add(&n.groups.Embed, 0, &g.embed)
	} else if h.Tokens {
		add(&n.groups.Head, 1, &g.head)
	}
	if h.Value {
		add(&n.groups.Score, 0, &g.score)
		add(&n.groups.Score, 1, &g.score)
	}
	return out
}

// headGrads lists the accumulated gradients of the head's trained weights in
// program order, or nil before the first chunk. A tied table's gradient is the
// embedding's.
func headGrads(slots []headSlot) []*device.Array {
	var acc []*device.Array
	for _, s := range slots {
		if *s.to == nil || (*s.to)[s.at] == nil {
			return nil
		}
		acc = append(acc, (*s.to)[s.at])
	}
	return acc
}

func setHeadGrads(slots []headSlot, grads []*device.Array) {
	for i, s := range slots {
		if *s.to == nil {
			*s.to = make([]*device.Array, s.room)
		}
		(*s.to)[s.at] = grads[i]
	}
}
