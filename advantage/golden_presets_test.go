package advantage

import (
	"testing"

	"vagen/internal/golden"
	"vagen/mask"
)

// TestGoldenPresets runs the presets from recorded tokens to advantages: masks and
// scores from the recorded kinds of tokens, rewards minus the KL penalty, advantages and
// returns by the estimator's name.
func TestGoldenPresets(t *testing.T) {
	const file = "algorithms/presets.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		p := newPreset(t, c)
		golden.Floats(t, tally, c.Name+" token_level_scores", p.scores, p.want("token_level_scores"), c.Tolerance)
		golden.Floats(t, tally, c.Name+" token_level_rewards", p.rewards, p.want("token_level_rewards"), c.Tolerance)
		same(t, tally, c.Name+" actor_mask", p.actor, bools(p.want("actor_mask")))
		if want := p.want("critic_mask"); want != nil {
			same(t, tally, c.Name+" critic_mask", p.critic, bools(want))
		}
		est, err := New(p.estimator, p.params)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		var out Result
		if err := est.Estimate(&out, &p.batch); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		tol := storage(c.Tolerance, 1)
		golden.Floats(t, tally, c.Name+" advantages", out.Advantages, p.want("advantages"), tol)
		golden.Floats(t, tally, c.Name+" returns", out.Returns, p.want("returns"), tol)
	}
}

type preset struct {
	t         *testing.T
	c         golden.Case
	estimator string
	params    Params
	options   mask.Options
	width     int // of the response part of a row
	batch     Batch

	scores                  []float32
	rewards, values         []float64
	actor, critic, attended []bool
}

func (p *preset) want(name string) []float64 {
	x, _ := flat(p.t, p.c.Expected, name)
	return x
}

// response reads a full-length mask and leaves out the prompt columns.
func (p *preset) response(name string) []bool {
	x, width := flat(p.t, p.c.Inputs, name)
	var prompt int
	golden.Need(p.t, p.c.Params, "prompt_length", &prompt)
	var out []bool
	for i := 0; i < len(x); i += width {
		out = append(out, bools(x[i+prompt:i+width])...)
	}
	return out
}

func newPreset(t *testing.T, c golden.Case) *preset {
	p := &preset{t: t, c: c}
	golden.Need(t, c.Params, "adv_estimator", &p.estimator)
	p.params = DefaultParams()
	golden.Need(t, c.Params, "gamma", &p.params.Gamma)
	golden.Need(t, c.Params, "lam", &p.params.Lambda)
	golden.Need(t, c.Params, "high_level_gamma", &p.params.TurnGamma)
	var useLoss, useGAE bool
	golden.Need(t, c.Params, "use_loss_mask", &useLoss)
	golden.Need(t, c.Params, "use_gae_mask", &useGAE)
	p.options.NoLossMask, p.options.NoGAEMask = !useLoss, !useGAE
	golden.Need(t, c.Params, "critic_use_reward_mask", &p.options.ValueAtTurnEnd)
	p.values, p.width = flat(t, c.Inputs, "values")
	p.attended = p.response("attention_mask")
	p.batch = Batch{
		Values: narrow(p.values), Attention: p.attended, TurnEnd: p.response("end_of_response_position_mask"),
		Group: ids(t, c.Inputs, "uid"),
	}
	p.rows(p.response("loss_mask"))
	p.shape()
	return p
}

// rows records the rows and derives their masks and scores.
func (p *preset) rows(wrote []bool) {
	var turns [][]float64
	var final []float64
	var multi bool
	golden.Need(p.t, p.c.Inputs, "turn_rewards", &turns)
	golden.Need(p.t, p.c.Inputs, "final_reward", &final)
	golden.Need(p.t, p.c.Params, "use_multi_turn_reward", &multi)
	for row := range turns {
		lo := row * p.width
		hi := lo + count(p.attended[lo:lo+p.width])
		s := p.sequence(wrote[lo:hi], p.batch.TurnEnd[lo:hi])
		var scores []float32
		var err error
		if multi {
			scores, err = s.PlaceTurnRewards(nil, turns[row], final[row])
		} else {
			total := final[row]
			for _, r := range turns[row] {
				total += r
			}
			scores, err = s.PlaceOutcome(nil, total)
		}
		if err != nil {
			p.t.Fatalf("%s: row %d: %v", p.c.Name, row, err)
		}
		loss, gae := s.Loss(nil, p.options), s.Advantage(nil, p.options)
		value := s.Value(nil, p.options)
		if p.options.NoLossMask && !p.options.ValueAtTurnEnd {
			// The original aligns attention with the state before each token:
			// the row's first token has none, and the token after its end has.
			value = append(append([]bool{false}, value...), make([]bool, p.width)...)
		}
		p.batch.Offsets = append(p.batch.Offsets, lo)
		p.actor = append(p.actor, widen(loss, p.width)...)
		p.critic = append(p.critic, widen(value, p.width)...)
		p.scores = append(p.scores, widen(scores, p.width)...)
		if !p.options.NoLossMask {
			p.batch.Loss = append(p.batch.Loss, widen(loss, p.width)...)
		}
		if !p.options.NoGAEMask {
			p.batch.GAE = append(p.batch.GAE, widen(gae, p.width)...)
		}
	}
	p.batch.Offsets = append(p.batch.Offsets, len(p.attended))
}

// widen pads a row to the width, or cuts it.
func widen[E any](row []E, width int) []E {
	out := make([]E, width)
	copy(out, row)
	return out
}

func (p *preset) sequence(wrote, ends []bool) *mask.Sequence {
	s := new(mask.Sequence)
	for from := 0; from < len(wrote); {
		to := from
		for to < len(wrote) && wrote[to] == wrote[from] && (to == from || !wrote[from] || !ends[to-1]) {
			to++
		}
		ids := make([]int32, to-from)
		var err error
		if wrote[from] {
			err = s.AppendResponse(ids...)
		} else {
			err = s.AppendContext(mask.Observation, ids...)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		from = to
	}
	return s
}

// shape charges the KL penalty to every attended token.
func (p *preset) shape() {
	old, _ := flat(p.t, p.c.Inputs, "old_log_probs")
	ref, _ := flat(p.t, p.c.Inputs, "ref_log_prob")
	var kind string
	var coef float64
	golden.Need(p.t, p.c.Params, "kl_penalty", &kind)
	golden.Need(p.t, p.c.Params, "kl_coef", &coef)
	if kind != "kl" {
		p.t.Fatalf("%s: kl_penalty %q", p.c.Name, kind)
	}
	for i, s := range p.scores {
		r := float64(s)
		if p.attended[i] {
			r -= coef * (old[i] - ref[i])
		}
		p.rewards = append(p.rewards, r)
	}
	p.batch.Rewards = narrow(p.rewards)
}
