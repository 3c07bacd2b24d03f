package blackjack

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/reward"
)

func hand(values ...int) Hand {
	var h Hand
	for _, v := range values {
		h = append(h, Card{Value: v})
	}
	return h
}

func TestAcesCountElevenWhereThatFits(t *testing.T) {
	for _, c := range []struct {
		hand Hand
		sum  int
		ace  bool
	}{
		{hand(1, 1), 12, true}, {hand(1, 10), 21, true}, {hand(1, 10, 1), 12, false}, {hand(10, 9, 5), 24, false},
		{hand(1, 5, 5), 21, true}, {nil, 0, false},
	} {
		require.Equal(t, c.sum, c.hand.Sum(), "%v", c.hand)
		require.Equal(t, c.ace, c.hand.Ace(), "%v", c.hand)
	}
	require.Zero(t, hand(10, 9, 5).score())
}

func start(t *testing.T, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions()
	o.RenderMode, o.PromptFormat = env.Text, "no_think"
	change(&o)
	return envtest.Started(t, New, o, 7)
}

func TestTheBetterHandWins(t *testing.T) {
	for name, c := range map[string]struct {
		dealer, player Hand
		want           float64
	}{
		"win": {hand(10, 8), hand(10, 9), 1}, "loss": {hand(10, 8), hand(10, 7), -1}, "draw": {hand(10, 8), hand(9, 9), 0},
		"both over": {hand(10, 7), hand(10, 10, 10), -1},
	} {
		e := start(t, func(*Options) {})
		e.dealer, e.player = c.dealer, c.player
		out := envtest.Play(t, e, "<answer>Stand</answer>")
		require.Equal(t, c.want, out.Reward.Of(partGame), name)
		require.True(t, out.Done)
		require.Equal(t, c.want > 0, out.Success)
		after := envtest.Play(t, e, "<answer>Hit</answer>")
		require.Empty(t, after.Reward, "turns after the end have no reward")
		require.True(t, after.Done)
	}
}

func TestTheOpenCardIsAllThatIsShownOfTheDealer(t *testing.T) {
	e := start(t, func(*Options) {})
	e.dealer[1] = Card{Value: 9, Face: '9', Suit: Spades}
	e.player = hand(2, 2)
	out := envtest.Play(t, e, "<answer>wait</answer>")
	require.Equal(t, reward.Parts{{Name: partInvalid, Value: -0.1}}, out.Reward)
	require.NotContains(t, out.Observation.Text, "9 of spades")
	out = envtest.Play(t, e, "<answer>Stand</answer>")
	require.Contains(t, out.Observation.Text, "9 of spades")

	v := start(t, func(o *Options) { o.RenderMode = env.Vision })
	before := v.picture()
	v.dealer[1] = Card{Value: 2, Face: '2', Suit: Hearts}
	require.True(t, bytes.Equal(before.Pix, v.picture().Pix))
	v.over = true
	require.False(t, bytes.Equal(before.Pix, v.picture().Pix))
}

func TestCardsStayInThePictureAndLookDifferent(t *testing.T) {
	for n := 1; n <= 21; n++ {
		for i := range n {
			require.True(t, place(i, n, playerTop).In(start(t, func(*Options) {}).picture().Rect), "card %d of %d", i, n)
		}
	}
	seen := map[string]string{}
	e := start(t, func(*Options) {})
	for face := range ranks {
		for suit := range Suit(4) {
			e.player = Hand{{Value: 1, Face: face, Suit: suit}}
			pix := string(e.picture().Pix)
			require.Empty(t, seen[pix], "%c of %v", face, suit)
			seen[pix] = e.player[0].String()
		}
	}
	require.Len(t, seen, 48)
}

func TestScriptsWinAsOftenAsTheyShould(t *testing.T) {
	for _, format := range []string{"no_think", "free_think", "grounding", "worldmodeling", "grounding_worldmodeling"} {
		e := start(t, func(o *Options) { o.PromptFormat = format })
		r := rand.New(rand.NewPCG(1, 1))
		rate := func(p Player) float64 {
			wins := 0
			for seed := range int64(600) {
				envtest.Reset(t, e, seed)
				for done := false; !done; {
					out := envtest.Play(t, e, e.Script(r, p))
					require.True(t, out.Response.FormatCorrect)
					require.Equal(t, 1.0, out.Turn["action_is_valid"])
					done = out.Done
					if out.Success {
						wins++
					}
				}
			}
			return float64(wins) / 600
		}
		// Playing the dealer's rule wins about 41 % of games, coin flips about 28 %;
		// 600 games have a standard error of 2 %.
		require.InDelta(t, 0.41, rate(StandAt(17)), 0.07)
		require.InDelta(t, 0.28, rate(Random), 0.07)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	envtest.Refused(t, FromConfig)
}

func TestPromptShowsAnExampleThatItsParserAccepts(t *testing.T) {
	e := start(t, func(o *Options) { o.PromptFormat = "grounding_worldmodeling" })
	system := envtest.System(t, e)
	_, example, found := strings.Cut(system.Text, "For example:\n")
	require.True(t, found)
	r := e.Parser().Parse(example)
	require.True(t, r.FormatCorrect)
	require.Equal(t, []string{Hit}, r.Actions)
	require.NotContains(t, system.Text, env.ImageMark)
}
