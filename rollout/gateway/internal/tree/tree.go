// Package tree finds the recorded call that a request continues. Clients send the whole conversation
// with every request, and change what they send back: Find compares by meaning and returns the
// messages that are new.
package tree

import (
	"slices"

	"vagen/rollout/gateway/internal/dialect"
)

// Node is a recorded call: the messages since its parent's answer, and its own answer.
type Node[T any] struct {
	Parent *Node[T] // nil for one that begins a conversation
	Kids   []*Node[T]
	Delta  []dialect.Message
	Answer *dialect.Answer // nil until there is one
	Value  T
}

// Tree holds the calls of an episode.
type Tree[T any] struct{ roots []*Node[T] }

// Place is where a request belongs.
type Place[T any] struct {
	Parent *Node[T]          // whose answer it follows; nil begins a conversation
	Delta  []dialect.Message // the messages after that answer
	Twins  []*Node[T]        // recorded calls in the same place, in order
	// Loose says that an answer was recognised although its text lacks white space at its ends, a
	// part of it, or its reasoning was moved.
	Loose bool
	named bool // the request has the ids of the calls of Parent's answer
}

// Find returns the place of a conversation: behind the answer that leaves the fewest messages
// over. If one of these is an assistant's that was not recorded, the conversation begins anew, because
// its tokens are not known.
func (t *Tree[T]) Find(ms []dialect.Message) Place[T] {
	best := Place[T]{Delta: ms}
	t.search(nil, t.roots, Place[T]{Delta: ms}, &best)
	foreign := func(m dialect.Message) bool { return m.Role == dialect.Assistant }
	if best.Parent != nil && slices.ContainsFunc(best.Delta, foreign) {
		best = Place[T]{Delta: ms}
	}
	for _, k := range t.kids(best.Parent) {
		if len(k.Delta) == len(best.Delta) && equal(k.Delta, best.Delta) {
			best.Twins = append(best.Twins, k)
		}
	}
	return best
}

func (t *Tree[T]) kids(n *Node[T]) []*Node[T] {
	if n == nil {
		return t.roots
	}
	return n.Kids
}

// search looks for better places below a node. Later calls win among equal ones, unless an id of a
// tool's call names an earlier one.
func (t *Tree[T]) search(at *Node[T], kids []*Node[T], p Place[T], best *Place[T]) {
	less := len(p.Delta) < len(best.Delta) || len(p.Delta) == len(best.Delta) && (p.named || !best.named)
	if p.Parent = at; at != nil && len(p.Delta) > 0 && less {
		*best = p
	}
	for _, k := range kids {
		if k.Answer == nil || len(p.Delta) < len(k.Delta) || !equal(k.Delta, p.Delta[:len(k.Delta)]) {
			continue
		}
		if e := echo(k.Answer, p.Delta[len(k.Delta):]); e.ok {
			t.search(k, k.Kids, Place[T]{Delta: e.rest, Loose: p.Loose || e.loose, named: e.named}, best)
		}
	}
}

// Add records a call at its place.
func (t *Tree[T]) Add(p Place[T], value T) *Node[T] {
	n := &Node[T]{Parent: p.Parent, Delta: p.Delta, Value: value}
	if p.Parent == nil {
		t.roots = append(t.roots, n)
	} else {
		p.Parent.Kids = append(p.Parent.Kids, n)
	}
	return n
}

// Remove forgets a call that has no answer and so no kids.
func (t *Tree[T]) Remove(n *Node[T]) {
	same := func(k *Node[T]) bool { return k == n }
	if n.Parent == nil {
		t.roots = slices.DeleteFunc(t.roots, same)
	} else {
		n.Parent.Kids = slices.DeleteFunc(n.Parent.Kids, same)
	}
}

// Same reports whether two calls have equal messages after the same answer.
func (t *Tree[T]) Same(a, b *Node[T]) bool { return a.Parent == b.Parent && equal(a.Delta, b.Delta) }

// equal compares messages that the client wrote itself, which it does not change: role, text, images
// by the hash of their files, and calls. Ids of calls are not part of what the policy reads.
func equal(a, b []dialect.Message) bool {
	return slices.EqualFunc(a, b, func(a, b dialect.Message) bool {
		sameImage := func(x, y dialect.Image) bool { return x.Hash == y.Hash }
		return a.Role == b.Role && a.Text == b.Text && slices.EqualFunc(a.Images, b.Images, sameImage) &&
			sameCalls(a.Calls, b.Calls)
	})
}
