package blackjack

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/env/internal/words"
	"vagen/internal/golden"
)

// recordedCard is a card as the recording has it: value, face and suit.
type recordedCard Card

func (c *recordedCard) UnmarshalJSON(data []byte) error {
	var value int
	var face, suit string
	if err := json.Unmarshal(data, &[]any{&value, &face, &suit}); err != nil {
		return err
	}
	*c = recordedCard{Value: value, Face: face[0], Suit: Suit(slices.Index([]string{"C", "D", "H", "S"}, suit))}
	return nil
}

type game struct {
	Seed           int64
	Config         map[string]any
	Dealer, Player []recordedCard
	Steps          []struct {
		Response string
		Reward   float64
		Done     bool
		Metrics  struct {
			Turn map[string]bool `json:"turn_metrics"`
			Traj map[string]bool `json:"traj_metrics"`
		}
		Valid          []string `json:"valid_actions"`
		Actions        []string
		FormatCorrect  bool `json:"format_correct"`
		FormatRewarded bool `json:"is_format_rewarded"`
		Dealer, Player []recordedCard
		PlayerSum      int `json:"player_sum"`
		DealerSum      int `json:"dealer_sum"`
	}
}

// The recorded games are those of the original environment
// (testdata/envs/blackjack_legacy.json); cards come from the seed.
func TestGamesEqualTheOriginals(t *testing.T) {
	const file = "envs/blackjack_legacy.json"
	var recorded struct{ Episodes []game }
	golden.Read(t, file, &recorded)
	all := golden.Of(t, file)
	for _, g := range recorded.Episodes {
		r := all.Next("seed %d", g.Seed)
		made, err := FromConfig(g.Config)
		require.NoError(t, err)
		e := made.(*Env)
		envtest.Reset(t, e, g.Seed)
		equalHands(r, "dealer", e.dealer, g.Dealer)
		equalHands(r, "player", e.player, g.Player)
		for i, s := range g.Steps {
			r := r.In("turn %d (%q)", i, s.Response)
			held := len(e.player)
			out := envtest.Play(t, e, s.Response)
			r.Within("reward", out.Reward.Sum(), s.Reward, golden.Tolerance{Abs: 1e-9})
			r.Equal("done", out.Done, s.Done)
			for name, want := range s.Metrics.Turn {
				r.Equal(name, out.Turn[name], words.Number(want))
			}
			for name, want := range s.Metrics.Traj {
				r.Equal(name, out.Trajectory[name], words.Number(want))
			}
			r.Equal("valid", out.Turn["action_is_valid"] == 1, len(s.Valid) > 0)
			r.Equal("hit", len(e.player) > held, slices.Contains(s.Valid, Hit))
			r.Equal("format", out.Response.FormatCorrect, s.FormatCorrect)
			r.Equal("format rewarded", out.Reward.Of(partFormat) != 0, s.FormatRewarded)
			r.Equal("actions", out.Response.Actions, s.Actions)
			equalHands(r, "dealer", e.dealer, s.Dealer)
			equalHands(r, "player", e.player, s.Player)
			r.Equal("player's sum", e.player.Sum(), s.PlayerSum)
			r.Equal("dealer's sum", e.dealer.Sum(), s.DealerSum)
		}
	}
}

func equalHands(r *golden.Run, what string, got Hand, want []recordedCard) {
	r.Helper()
	same := slices.EqualFunc(got, want, func(a Card, b recordedCard) bool { return a == Card(b) })
	r.Equal(fmt.Sprintf("%s: %v, recorded %v", what, got, want), same, true)
}
