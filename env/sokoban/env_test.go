package sokoban

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/options"
	"vagen/internal/testkit"
	"vagen/reward"
)

// alley is solved by Right, Right: the box is pushed along to the target.
var alley = []string{"######", "#PX_O#", "######"}

func start(t *testing.T, rules env.Rules, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions(rules)
	o.Desc, o.RenderMode = alley, env.Text
	change(&o)
	return envtest.Started(t, New, o, 0)
}

var play = envtest.Play

func answer(moves string) string { return "<answer>" + moves + "</answer>" }

func TestPushesFollowTheRules(t *testing.T) {
	for name, c := range map[string]struct {
		rows  []string
		moves []Action
		want  []string
	}{
		"walk": {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Right, Down, Left},
			[]string{"#####", "#__X#", "#P_O#", "#####"}},
		"wall stops": {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Up, Left},
			[]string{"#####", "#P_X#", "#__O#", "#####"}},
		"push": {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Right, Right},
			[]string{"#####", "#_PX#", "#__O#", "#####"}},
		"onto target": {alley, []Action{Right, Right}, []string{"######", "#__P√#", "######"}},
		"off target":  {[]string{"######", "#P√__#", "######"}, []Action{Right}, []string{"######", "#_SX_#", "######"}},
		"two boxes": {[]string{"#######", "#PXX_O#", "#O____#", "#######"}, []Action{Right},
			[]string{"#######", "#PXX_O#", "#O____#", "#######"}},
		"over a target": {[]string{"######", "#PO_X#", "######"}, []Action{Right, Right, Right},
			[]string{"######", "#_OPX#", "######"}},
	} {
		r, err := Parse(c.rows)
		require.NoError(t, err, name)
		for _, a := range c.moves {
			r.Move(a)
		}
		require.Equal(t, c.want, r.Rows(), name)
	}
}

func TestEachRuleSetPaysItsOwnWay(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) { o.PromptFormat, o.TurnCost = "free_think", 0.25 })
	out := play(t, e, "<think>a</think>"+answer("right"))
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.1}, {Name: "turn", Value: -0.25}}, out.Reward)
	out = play(t, e, "<think>a</think>"+answer("RIGHT,up"))
	require.Equal(t, reward.Parts{{Name: "success", Value: 1}, {Name: "format", Value: 0.1}, {Name: "turn", Value: -0.25}},
		out.Reward)
	require.True(t, out.Done && out.Success)
	require.Equal(t, 1.0, out.Turn["action_is_valid"], "moves after the solution are ignored")

	e = start(t, env.Legacy, func(o *Options) { o.PromptFormat = "no_think" })
	out = play(t, e, answer("Right,Right"))
	require.Equal(t, reward.Parts{{Name: "move", Value: -0.2}, {Name: "box", Value: 1}, {Name: "success", Value: 10},
		{Name: "format", Value: 0.5}}, out.Reward)
	out = play(t, start(t, env.Legacy, func(o *Options) { o.PromptFormat = "no_think" }), answer("Right,right"))
	require.Equal(t, reward.Parts{{Name: "move", Value: -0.1}}, out.Reward, "the legacy rules need the exact words")
}

func TestTrueTextsEarnTheirWholeReward(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) {
		o.PromptFormat, o.Prompt, o.DescribeMoves = reward.ObservePredict, options.Brief, true
		o.ObservationReward, o.PredictionReward = 0.5, 0.25
	})
	require.Equal(t, "target same right box same right free wall wall wall Right", e.Describe())
	out := play(t, e, "<think><observation>"+e.Describe()+
		"</observation><prediction>target same right box same right</prediction></think>"+answer("Right"))
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.1}, {Name: "observation", Value: 0.5},
		{Name: "prediction", Value: 0.25}}, out.Reward)
	require.Equal(t, " #  #  #  #  #  # \n #  _  P  X  O  # \n #  #  #  #  #  # \nTurn 2", out.Observation.Text)
	e.room.Move(Right)
	e.room.Move(Left)
	require.Equal(t, "target same right box same right free wall wall Left Right", e.Describe())
	stuck, err := Parse([]string{"#####", "#O_X#", "#__P#", "#####"})
	require.NoError(t, err)
	require.Equal(t, "target up left box up same free stuck wall Left wall", stuck.describe(true))
}

func TestEverySeedGivesASolvableRoom(t *testing.T) {
	rate := func(rules env.Rules, w Walker, turns, moves int) float64 {
		o := DefaultOptions(rules)
		o.RenderMode = env.Text
		e, err := New(o)
		require.NoError(t, err)
		rate, err := env.SuccessRate(t.Context(), e, 0, 60, turns, 1, func(r *rand.Rand) string {
			return e.Script(r, w, moves)
		})
		require.NoError(t, err)
		return rate
	}
	require.Equal(t, 1.0, rate(env.Lite, ShortestPath, 40, 3))
	require.Less(t, rate(env.Legacy, Random, 1, 1), 0.2)
}

func TestSolutionsAreShortestAndSolve(t *testing.T) {
	for seed := range int64(20) {
		o := DefaultOptions(env.Lite)
		o.Boxes, o.Room = 2, [2]int{7, 7}
		e := envtest.Started(t, New, o, seed)
		moves, ok := e.room.Solve(200)
		require.True(t, ok, "seed %d", seed)
		room := e.Room()
		for _, a := range moves {
			require.True(t, room.Move(a), "a shortest solution has no unnecessary move")
		}
		require.Equal(t, room.count, room.OnTarget())
		_, ok = e.room.Solve(len(moves) - 1)
		require.False(t, ok, "seed %d", seed)
	}
	corner, err := Parse([]string{"#####", "#XPO#", "#####"})
	require.NoError(t, err)
	_, ok := corner.Solve(200)
	require.False(t, ok)
	done, err := Parse([]string{"#####", "#√P_#", "#####"})
	require.NoError(t, err)
	moves, ok := done.Solve(0)
	require.True(t, ok)
	require.Empty(t, moves)
}

func TestSolutionLengthIsHeldToItsRange(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.MinSolution = &[2]int{4, 6}
	e, err := New(o)
	require.NoError(t, err)
	for seed := range int64(10) {
		envtest.Reset(t, e, seed)
		moves, ok := e.room.Solve(200)
		require.True(t, ok)
		require.True(t, len(moves) >= 4 && len(moves) <= 6, "%d moves", len(moves))
	}
	o.MinSolution, o.MaxTries = &[2]int{190, 200}, 3
	e, err = New(o)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 1)
	testkit.Error(t, err, ErrRoom, "none of 3 seeds gives one with 1 boxes in [6 6] and a solution of 190 to 200 moves")
}

func TestRetryRulesAreMachineIndependent(t *testing.T) {
	require.Equal(t, int64(1013904223), RetryLCG.Next(0))
	require.Equal(t, int64(1664525+1013904223), RetryLCG.Next(1))
	require.Equal(t, int64(1013904223-1664525), RetryLCG.Next(1<<32-1))
}

func TestRoomsOfLegacyWanderTheirPlayer(t *testing.T) {
	differ := 0
	for seed := range int64(40) {
		a, err := Generate(env.Legacy, seed, 6, 6, 1)
		if err != nil {
			continue
		}
		b, err := Generate(env.Lite, seed, 6, 6, 1)
		if err == nil && a.player != b.player {
			differ++
		}
	}
	require.Positive(t, differ)
}

func TestBadOptionsAreNamed(t *testing.T) {
	envtest.Refused(t, FromConfig)
	for _, bad := range []func() (*Room, error){
		func() (*Room, error) { return Generate(env.Lite, 1, 33, 6, 1) },
		func() (*Room, error) { return Generate(env.Lite, 1, 6, 6, 0) },
		func() (*Room, error) { return Generate(env.Lite, -1, 6, 6, 1) },
	} {
		_, err := bad()
		require.ErrorIs(t, err, ErrRoom)
	}
	_, err := start(t, env.Lite, func(*Options) {}).Reset(t.Context(), -1)
	require.ErrorIs(t, err, env.ErrSeed)
}

func FuzzParse(f *testing.F) {
	f.Add(strings.Join(alley, "\n"))
	f.Add("###\n#S#\n###")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		require.Equal(t, text, strings.Join(r.Rows(), "\n"), "%q is read as", text)
		for a := range Actions {
			r.Move(a)
			if r.Wall(r.player) || r.Box(r.player) {
				t.Errorf("%q: the player went to %v", text, r.player)
			}
		}
		newRenderer(14, true, true).draw(r)
	})
}
