package gateway

import (
	"slices"
	"strings"

	"vagen/policy"
	"vagen/rollout/gateway/internal/dialect"
)

// call is a request for a response, at its place among the calls of an episode. These are a tree, whose root stands for
// no request: its kids begin conversations. Clients send the whole conversation with every request, and change what
// they send back: find compares by meaning and returns the messages that are new.
type call struct {
	parent *call // whose answer it follows; nil for the root
	kids   []*call
	delta  []dialect.Message // since the parent's answer
	answer *dialect.Answer   // nil until there is one, and for the root

	stops     []string
	calls     bool // the answer may call tools
	messages  []policy.Message
	turn      int // of the answer; −1 for the root
	waiting   int // number of requests that wait for the answer
	delivered bool
	refused   error
	done      chan struct{} // closed with the answer or the refusal
}

// place is where a request belongs.
type place struct {
	parent *call             // whose answer it follows; the root for one that begins a conversation
	delta  []dialect.Message // the messages after that answer
	twins  []*call           // recorded calls in the same place, in order
	// loose says that an answer was recognised although its text lacks white space at its ends, a
	// part of it, or its reasoning was moved.
	loose bool
	named bool // the request has the ids of the calls of parent's answer
}

// find returns the place of a conversation below the root: behind the answer that leaves the fewest messages
// over. If one of these is an assistant's that was not recorded, the conversation begins anew, because
// its tokens are not known.
func (root *call) find(ms []dialect.Message) place {
	anew := place{parent: root, delta: ms}
	best := anew
	search(anew, &best)
	foreign := func(m dialect.Message) bool { return m.Role == dialect.Assistant }
	if slices.ContainsFunc(best.delta, foreign) {
		best = anew
	}
	for _, k := range best.parent.kids {
		if equal(k.delta, best.delta) {
			best.twins = append(best.twins, k)
		}
	}
	return best
}

// search looks for better places than p below it. Later calls win among equal ones, unless an id of a
// tool's call names an earlier one.
func search(p place, best *place) {
	less := len(p.delta) < len(best.delta) || len(p.delta) == len(best.delta) && (p.named || !best.named)
	if len(p.delta) > 0 && less {
		*best = p
	}
	for _, k := range p.parent.kids {
		rest, ok := k.rest(p.delta)
		if !ok {
			continue
		}
		if behind, ok := echo(k.answer, rest); ok {
			behind.parent, behind.loose = k, p.loose || behind.loose
			search(behind, best)
		}
	}
}

// rest returns what follows the messages of a call that has an answer. Clients of Anthropic's protocol leave out an
// answer without text, and add what follows it to the last message of the user before it.
func (c *call) rest(ms []dialect.Message) (rest []dialect.Message, ok bool) {
	if c.answer == nil || len(ms) < len(c.delta) {
		return nil, false
	}
	ms, rest = ms[:len(c.delta)], ms[len(c.delta):]
	if equal(c.delta, ms) {
		return rest, true
	}
	i := len(ms) - 1
	for i > 0 && ms[i].Role != dialect.User {
		i--
	}
	m, more := c.delta[i], ms[i]
	if more.Text, ok = strings.CutPrefix(more.Text, m.Text+"\n"); !ok || len(more.Images) < len(m.Images) ||
		m.Role != dialect.User || !empty(c.answer) {
		return nil, false
	}
	more.Images = more.Images[len(m.Images):]
	ms = slices.Clone(ms)
	ms[i].Text, ms[i].Images = m.Text, ms[i].Images[:len(m.Images)]
	return slices.Concat([]dialect.Message{more}, rest), equal(c.delta, ms)
}

// add records a call at its place.
func (p place) add(c *call) {
	c.parent, c.delta = p.parent, slices.Clone(p.delta) // without the request's other messages
	p.parent.kids = append(p.parent.kids, c)
}

// remove forgets a call that has no answer and so no kids.
func (c *call) remove() {
	c.parent.kids = slices.DeleteFunc(c.parent.kids, func(k *call) bool { return k == c })
}

// before returns the conversation that a call's answer follows.
func (c *call) before() []dialect.Message { return append(c.parent.through(), c.delta...) }

// through returns the conversation up to the answer to a call; that of the root is empty.
func (c *call) through() []dialect.Message {
	if c.answer == nil {
		return nil
	}
	return append(c.before(), answered(c.answer))
}

// tools returns the definitions of the tools that the answer to a call may call, "" for none: those that the
// instructions show, and deferred ones in the results that refer to them.
func (c *call) tools() string {
	var all []string
	for _, m := range c.before() {
		if c.calls && (m.Replaced == dialect.Tools || m.Role == dialect.Tool && all != nil) {
			all = append(all, m.Text)
		}
	}
	return strings.Join(all, "\n")
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
