package remote

import (
	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/sokoban"
	"vagen/reward"
)

// original returns the Informer of the library's own environments that stand for
// ones of the original systems, nil for others.
func original(e env.Env) Informer {
	switch e := e.(type) {
	case *frozenlake.Env:
		return informer(e.Parser(), e.Claiming())
	case *sokoban.Env:
		return informer(e.Parser(), e.Claiming())
	case *blackjack.Env:
		return table{turns{e.Parser()}, e}
	}
	return nil
}

func informer(p *reward.Parser, claiming bool) Informer {
	if claiming && p.Dialect() == reward.Legacy {
		return judged{turns{p}}
	}
	return turns{p}
}

// judged informs of legacy environments whose claims a judge scores.
type judged struct{ turns }

func (j judged) StepInfo(o env.Outcome) Info {
	in := j.turns.StepInfo(o)
	if len(o.Claims) == 0 {
		paid := o.Response.FormatCorrect && o.Turn["action_is_valid"] == 1
		in = append(in, Field{"use_state_reward", paid})
	}
	return in
}

// table adds the cards of Blackjack.
type table struct {
	turns
	game *blackjack.Env
}

func (t table) StepInfo(o env.Outcome) Info {
	in := t.turns.StepInfo(o)
	if o.Turn["action_is_valid"] != 1 {
		return in
	}
	dealer, player := t.game.Hands()
	return append(in, Field{"Dealer Card", cards(dealer)}, Field{"Player Card", cards(player)})
}

// cards writes each card as value, face and the suit's letter.
func cards(hand blackjack.Hand) []any {
	list := make([]any, len(hand))
	for i, c := range hand {
		list[i] = []any{c.Value, string(c.Face), string("CDHS"[c.Suit%4])}
	}
	return list
}
