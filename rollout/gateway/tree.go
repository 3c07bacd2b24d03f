package gateway

import (
	"slices"

	"vagen/policy"
	"vagen/rollout/gateway/internal/dialect"
)

// call is a request for a response, at its place among the calls of an episode.
type call struct {
	parent *call // whose answer it follows; nil for one that begins a conversation
	kids   []*call
	delta  []dialect.Message // since the parent's answer
	answer *dialect.Answer   // nil until there is one

	stops     []string
	tools     bool
	messages  []policy.Message
	turn      int // −1 before the response
	waiting   int // number of requests that wait for the answer
	delivered bool
	refused   error
	done      chan struct{} // closed with the answer or the refusal
}

// callTree holds the calls of an episode. Clients send the whole conversation with every request, and change what
// they send back: find compares by meaning and returns the messages that are new.
type callTree struct{ root call } // its kids begin conversations

// place is where a request belongs.
type place struct {
	parent *call             // whose answer it follows; nil begins a conversation
	delta  []dialect.Message // the messages after that answer
	twins  []*call           // recorded calls in the same place, in order
	// loose says that an answer was recognised although its text lacks white space at its ends, a
	// part of it, or its reasoning was moved.
	loose bool
	named bool // the request has the ids of the calls of parent's answer
}

// find returns the place of a conversation: behind the answer that leaves the fewest messages
// over. If one of these is an assistant's that was not recorded, the conversation begins anew, because
// its tokens are not known.
func (t *callTree) find(ms []dialect.Message) place {
	best := place{delta: ms}
	search(nil, t.root.kids, best, &best)
	foreign := func(m dialect.Message) bool { return m.Role == dialect.Assistant }
	if best.parent != nil && slices.ContainsFunc(best.delta, foreign) {
		best = place{delta: ms}
	}
	for _, k := range *t.kids(best.parent) {
		if equal(k.delta, best.delta) {
			best.twins = append(best.twins, k)
		}
	}
	return best
}

// search looks for better places below a call. Later calls win among equal ones, unless an id of a
// tool's call names an earlier one.
func search(at *call, kids []*call, p place, best *place) {
	less := len(p.delta) < len(best.delta) || len(p.delta) == len(best.delta) && (p.named || !best.named)
	if p.parent = at; at != nil && len(p.delta) > 0 && less {
		*best = p
	}
	for _, k := range kids {
		if k.answer == nil || len(p.delta) < len(k.delta) || !equal(k.delta, p.delta[:len(k.delta)]) {
			continue
		}
		if e := echo(k.answer, p.delta[len(k.delta):]); e.ok {
			search(k, k.kids, place{delta: e.rest, loose: p.loose || e.loose, named: e.named}, best)
		}
	}
}

// kids are the calls after a call's answer, those that begin conversations for nil.
func (t *callTree) kids(c *call) *[]*call {
	if c == nil {
		c = &t.root
	}
	return &c.kids
}

// add records a call at its place.
func (t *callTree) add(p place, c *call) {
	c.parent, c.delta = p.parent, p.delta
	kids := t.kids(c.parent)
	*kids = append(*kids, c)
}

// remove forgets a call that has no answer and so no kids.
func (t *callTree) remove(c *call) {
	kids := t.kids(c.parent)
	*kids = slices.DeleteFunc(*kids, func(k *call) bool { return k == c })
}

// same reports whether two calls have equal messages after the same answer.
func (c *call) same(o *call) bool { return c.parent == o.parent && equal(c.delta, o.delta) }

// equal compares messages that the client wrote itself, which it does not change: role, text, images
// by the hash of their files, and calls. Ids of calls are not part of what the policy reads.
func equal(a, b []dialect.Message) bool {
	return slices.EqualFunc(a, b, func(a, b dialect.Message) bool {
		sameImage := func(x, y dialect.Image) bool { return x.Hash == y.Hash }
		return a.Role == b.Role && a.Text == b.Text && slices.EqualFunc(a.Images, b.Images, sameImage) &&
			sameCalls(a.Calls, b.Calls)
	})
}
