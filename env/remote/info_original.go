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
func original(e env.Env, config map[string]any) Informer {
	switch e := e.(type) {
	case *frozenlake.Env:
		o := e.Options()
		p := parser(o.Rules == frozenlake.Legacy, o.PromptFormat, o.ActionSep)
		if o.UseStateReward {
			return judged{turns{p}}
		}
		return turns{p}
	case *sokoban.Env:
		o := e.Options()
		p := parser(o.Rules == sokoban.Legacy, o.PromptFormat, o.ActionSep)
		if o.UseStateReward {
			return judged{turns{p}}
		}
		return turns{p}
	case *blackjack.Env:
		o := blackjack.Defaults()
		if env.Decode(config, &o) != nil {
			return nil
		}
		return table{turns{parser(true, o.PromptFormat, o.ActionSep)}, e}
	}
	return nil
}

// parser returns a parser for writing what the environment's own one has read,
// for which only the format counts. It is nil if there is no such format.
func parser(legacy bool, format, sep string) *reward.Parser {
	o := reward.ParserOptions{Dialect: reward.Lite, ActionSep: sep}
	if legacy {
		o.Dialect = reward.Legacy
	}
	p, err := reward.NewParser(format, o)
	if err != nil {
		return nil
	}
	return p
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
