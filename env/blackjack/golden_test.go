package blackjack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
	tally := golden.NewTally(t, file)
	for _, g := range recorded.Episodes {
		tally.Case()
		what := fmt.Sprintf("seed %d", g.Seed)
		made, err := FromConfig(g.Config)
		require.NoError(t, err, what)
		e := made.(*Env)
		if _, err := e.Reset(context.Background(), g.Seed); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		equalHands(t, tally, what+": dealer", e.dealer, g.Dealer)
		equalHands(t, tally, what+": player", e.player, g.Player)
		for i, s := range g.Steps {
			what := fmt.Sprintf("%s turn %d (%q)", what, i, s.Response)
			held := len(e.player)
			out, err := e.Step(context.Background(), s.Response)
			require.NoError(t, err, what)
			tally.Float(t, what+": reward", out.Reward.Sum(), s.Reward, golden.Tolerance{Abs: 1e-9})
			golden.Equal(t, tally, what+": done", out.Done, s.Done)
			for name, want := range s.Metrics.Turn {
				golden.Equal(t, tally, what+": "+name, out.Turn[name], words.Number(want))
			}
			for name, want := range s.Metrics.Traj {
				golden.Equal(t, tally, what+": "+name, out.Trajectory[name], words.Number(want))
			}
			golden.Equal(t, tally, what+": valid", out.Turn["action_is_valid"] == 1, len(s.Valid) > 0)
			golden.Equal(t, tally, what+": hit", len(e.player) > held, slices.Contains(s.Valid, Hit))
			golden.Equal(t, tally, what+": format", out.Response.FormatCorrect, s.FormatCorrect)
			golden.Equal(t, tally, what+": format rewarded", out.Reward.Of(partFormat) != 0, s.FormatRewarded)
			tally.Add(1)
			require.Equal(t, s.Actions, out.Response.Actions, "%s: actions", what)
			equalHands(t, tally, what+": dealer", e.dealer, s.Dealer)
			equalHands(t, tally, what+": player", e.player, s.Player)
			golden.Equal(t, tally, what+": player's sum", e.player.Sum(), s.PlayerSum)
			golden.Equal(t, tally, what+": dealer's sum", e.dealer.Sum(), s.DealerSum)
		}
	}
}

func equalHands(t *testing.T, tally *golden.Tally, what string, got Hand, want []recordedCard) {
	t.Helper()
	tally.Add(1)
	if !slices.EqualFunc(got, want, func(a Card, b recordedCard) bool { return a == Card(b) }) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
