package generate

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// A pass of one position reads all weights, and one of a few positions takes little longer. With Settings.DraftTokens,
// batches of few rows therefore also compute positions after the next one, for tokens that are guessed: those that
// followed the last tokens earlier in the conversation, or in a response of another one. Each position is sampled with
// the noise of its token, so that what is sampled is right as far as the guesses were.
//
// Rows get ahead of each other, but their tokens are added to the responses at the same time, as without drafts: when
// all rows have one. So keys and values get the same slots, batches change at the same tokens, where what a row has
// ahead is discarded, and the kernels give a position the bits that it has alone.

// Limits of drafts.
const (
	maxPositions = 4    // of all rows in a pass: more take as much longer as they can gain
	longestGram  = 4    // tokens that are compared before a guess
	shortestGram = 2    // that must be equal
	maxHeard     = 4096 // tokens of other conversations that are searched
)

// sample is a token with its log-prob.
type sample struct {
	id      int32
	logProb float32
}

// CheckDraftTokens checks the number of tokens of drafts.
func CheckDraftTokens(n int) error {
	if n < 0 || n >= maxPositions {
		return fmt.Errorf("DraftTokens is %d, must be in [0, %d]", n, maxPositions-1)
	}
	return nil
}

// refuseDrafts is the error of drafts that are not possible.
func refuseDrafts(tokens int, why string) error {
	return fmt.Errorf("vlm: %w: DraftTokens is %d, must be 0 %s", backend.ErrOption, tokens, why)
}

// CheckDrafts refuses drafts for a model with which a pass of several positions may have other bits than one position,
// or cannot be cut back. Weights that are packed have their adapters merged.
func CheckDrafts(tokens int, c *model.Config, compute dtypes.DType, packed bool) error {
	one := *c
	if packed {
		one.LoRA = nil
	}
	without := func(l model.Layer) bool { return !model.HasStepKernel(l) }
	switch {
	case tokens == 0:
	case c.KeepsState():
		return refuseDrafts(tokens, "for a model whose layers keep a state, which cannot be cut back")
	case slices.ContainsFunc(one.Layers(compute), without):
		return refuseDrafts(tokens, "for a model of this family, or with adapters that are not merged into rounded "+
			"weights (RolloutDType): there is no kernel for its layers")
	case compute != dtypes.Float32:
		return refuseDrafts(tokens, fmt.Sprintf("with activations in %s: the kernels compute in float32", compute))
	}
	return nil
}

// CheckDraftsOn refuses drafts on a device without kernels.
func CheckDraftsOn(d *device.Device, tokens int) error {
	if tokens > 0 && (d.PureGo() || d.Accelerator() || !fused.Registered()) {
		return refuseDrafts(tokens, fmt.Sprintf(
			"on %s without the kernels for a CPU, which give a token the same bits beside others", d.Name()))
	}
	return nil
}

// listen takes a response that has ended, and what was read just before it, into the text that guesses are from.
func (f *DecodeBatch) listen(p *Sequence) {
	c, text := f.scheduler, p.state.text
	if c.DraftTokens == 0 {
		return
	}
	p.state.text = append(text, p.state.Pending)
	if p.ended() {
		text = p.state.text
		c.heard = append(c.heard, text[max(0, len(text)-len(p.Reply.Tokens)-longestGram):]...)
		c.heard = c.heard[max(0, len(c.heard)-maxHeard):]
	}
}

// learnFrom keeps what calls have heard and counted.
func (g *Generator) learnFrom(schedulers []*Scheduler) {
	for _, c := range schedulers {
		g.heard = c.heard
		g.fed.Add(int64(c.fed))
		g.passes.Add(int64(c.passes))
	}
}

// guess returns up to most tokens that follow the longest of the last tokens of text, at its last place in text itself
// or else in others.
func guess(text, others []int32, most int) []int32 {
	if most < 1 {
		return nil
	}
	for _, in := range [][]int32{text, others} {
		at, longest := 0, shortestGram-1
		for i := len(in) - 1; i > 0 && longest < longestGram; i-- {
			n := 0
			for n < min(longestGram, i, len(text)) && in[i-1-n] == text[len(text)-1-n] {
				n++
			}
			if n > longest {
				at, longest = i, n
			}
		}
		if at > 0 {
			return in[at:min(at+most, len(in))]
		}
	}
	return nil
}

// positions is the number of positions of each row in a pass with drafts; 1 without.
func (f *DecodeBatch) positions() int {
	return max(1, min(1+f.scheduler.DraftTokens, maxPositions/len(f.Rows)))
}

// ready reports whether all unfinished rows have tokens ahead.
func (f *DecodeBatch) ready() bool {
	rows := f.unfinished()
	behind := func(row int) bool { return len(f.ahead[row]) == 0 }
	return f.ahead != nil && len(rows) > 0 && !slices.ContainsFunc(rows, behind)
}

// drafts returns the guesses of the next pass by row, nil for rows that it does not compute, or nil if it should have
// one position.
func (f *DecodeBatch) drafts() [][]int32 {
	each := f.positions()
	if each == 1 {
		return nil
	}
	if f.ahead == nil {
		f.ahead = make([][]sample, len(f.Rows))
	}
	out := make([][]int32, len(f.Rows))
	rows, guessed, ahead := f.unfinished(), 0, false
	for _, row := range rows {
		ahead = ahead || len(f.ahead[row]) > 0
		if n := f.room(row, each); n > 0 {
			text := f.Sequences[row].state.text
			for _, s := range f.ahead[row] {
				text = append(text[:len(text):len(text)], s.id)
			}
			out[row] = append([]int32{}, guess(text, f.scheduler.heard, n-1)...)
			guessed += min(1, len(out[row]))
		}
	}
	if !ahead && 2*guessed < len(rows) {
		return nil
	}
	return out
}

// room is how many of each positions a row may compute behind those that it has ahead: as many as there are slots,
// tokens of the response, and tokens that the limit of thinking leaves to the model.
func (f *DecodeBatch) room(row, each int) int {
	p, ahead := f.Sequences[row], f.ahead[row]
	least := 1
	if n := len(ahead); n > 0 {
		least = 0
		if slices.Contains(f.scheduler.end, ahead[n-1].id) {
			return 0
		}
	}
	n := min(each, f.RecentLen-f.recentUsed-len(ahead), p.Max-len(p.Reply.Tokens)-len(ahead))
	for n > least && !p.Think.Leaves(len(ahead)+n) {
		n--
	}
	return n
}

// stepDrafts computes the drafts' positions and adds the tokens that all rows have then.
func (f *DecodeBatch) stepDrafts(own *net.Scope, drafts [][]int32, done func() bool) error {
	each := f.positions()
	in, err := f.draftInputs(own, drafts, each)
	if err != nil {
		return err
	}
	sampler := f.scheduler.sampler
	sampler.Forced = true
	ids, logProbs, err := f.sample(own, in, sampler, 1)
	if err != nil {
		return err
	}
	for row, draft := range drafts {
		for i := 0; draft != nil && i <= len(draft); i++ {
			id := ids[row*each+i]
			f.ahead[row] = append(f.ahead[row], sample{id, logProbs[row*each+i]})
			if i < len(draft) && id != draft[i] {
				break
			}
		}
		if draft != nil {
			f.scheduler.passes++
		}
	}
	f.addAhead(done)
	return nil
}

// addAhead adds tokens to the responses as long as all unfinished rows have one. Before each but the first it stops if
// done.
func (f *DecodeBatch) addAhead(done func() bool) {
	for first := true; f.ready() && (first || !done()); first = false {
		ids, logProbs := make([]int32, len(f.Rows)), make([]float32, len(f.Rows))
		for _, row := range f.unfinished() {
			next := f.ahead[row][0]
			ids[row], logProbs[row], f.ahead[row] = next.id, next.logProb, f.ahead[row][1:]
		}
		f.feed()
		f.recentUsed++
		f.collect(ids, logProbs, 1)
	}
}

// draftInputs are the inputs of a pass with each positions of a row, one behind the other. Those without a token write
// no slot.
func (f *DecodeBatch) draftInputs(own *net.Scope, drafts [][]int32, each int) ([]*device.Array, error) {
	n := each * len(f.Rows)
	now, allow := make([]int32, n*nowColumns), make([]bool, 0, n*f.RecentLen)
	for at := range n {
		row := at / each
		here := now[at*nowColumns:]
		here[nowForced], here[nowSlot] = -1, -1
		allow = append(allow, f.recentAllow[row*f.RecentLen:(row+1)*f.RecentLen]...)
		i := at % each
		if drafts[row] == nil || i > len(drafts[row]) {
			continue
		}
		p, ahead := f.Sequences[row], f.ahead[row]
		token, forced := p.state.Pending, int32(-1)
		switch {
		case i > 0:
			token = drafts[row][i-1]
		case len(ahead) > 0:
			token = ahead[len(ahead)-1].id
		default:
			forced = p.Think.Next()
		}
		i += len(ahead)
		p.describe(here, token, forced, i)
		here[nowSlot] = int32(f.recentUsed + i)
		for slot := range i + 1 {
			allow[at*f.RecentLen+f.recentUsed+slot] = true
		}
	}
	return f.inputs(own, now, f.uploadSeeds(own, each), allow)
}
