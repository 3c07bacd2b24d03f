package navigation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/options"
	"vagen/internal/testkit"
	"vagen/reward"
)

// brief are settings for small models: few words, statements that are paid by words, and
// endless rooms with large targets.
func brief() Options {
	o := DefaultOptions(env.Lite)
	o.RenderMode, o.Prompt, o.PromptFormat = env.Text, options.Brief, reward.ObservePredict
	o.EvalSet, o.Targets = "base_open", []string{"Fridge", "Sofa", "Bed", "Bathtub"}
	o.MaxActions, o.MaxSteps, o.StepLength, o.SuccessThreshold = 2, 12, 0.5, 1.5
	o.TurnCost, o.ObservationReward, o.PredictionReward = 0.25, 1, 1
	return o
}

// TestStatementsThatAreWrongArePaidByTheirShare changes a word of a correct response.
func TestStatementsThatAreWrongArePaidByTheirShare(t *testing.T) {
	e, err := New(brief())
	require.NoError(t, err)
	envtest.Reset(t, e, 0)
	require.Equal(t, "target up left free blocked back blocked left", e.Describe())
	for answer, score := range map[string]float64{
		"target up left free blocked back blocked left":       1,
		"target up left free ahead back blocked left":         7.0 / 8,
		"target hidden hidden free blocked back blocked left": 6.0 / 8,
		"the target is ahead":                                 0,
	} {
		envtest.Reset(t, e, 0)
		out := envtest.Play(t, e, "<think><observation>"+answer+
			"</observation><prediction>-</prediction></think><action>look_up</action>")
		require.InDelta(t, score, out.Turn["observation_score"], 1e-9, answer)
		require.Equal(t, -0.25, out.Reward.Of(partTurn))
	}
}

// TestTheBriefPromptHasTheViewAndTheTarget compares the texts of a room with its picture's
// mark in the other mode, and the positions with the directions of the full text.
func TestTheBriefPromptHasTheViewAndTheTarget(t *testing.T) {
	o := brief()
	e, err := New(o)
	require.NoError(t, err)
	system := envtest.System(t, e)
	require.Equal(t, "Go to the target.", system.Text)
	seen := envtest.Reset(t, e, 0)
	require.Equal(t, "Target fridge up left free blocked back blocked left see microwave up same, counter top up same",
		seen.Text)
	out := envtest.Play(t, e,
		"<think><observation>-</observation><prediction>-</prediction></think><action>turn_left|turn_left</action>")
	require.Contains(t, out.Observation.Text, "Target fridge hidden hidden free ahead blocked right blocked")
	require.Equal(t, "target hidden hidden free ahead blocked right blocked", e.Describe())

	o.RenderMode = env.Vision
	e, err = New(o)
	require.NoError(t, err)
	seen = envtest.Reset(t, e, 0)
	require.Equal(t, env.ImageMark+"Target fridge", seen.Text)
	o.Prompt = "full"
	e, err = New(o)
	require.NoError(t, err)
	seen = envtest.Reset(t, e, 0)
	require.Contains(t, seen.Text, "target hidden hidden if you do not see it")
}

// TestOpenSetsHaveARoomForEverySeed: rooms of different seeds differ, also far from 0, and
// a task can be restored from its scene's name.
func TestOpenSetsHaveARoomForEverySeed(t *testing.T) {
	set, err := builtIn("base_open", []string{"Sofa"})
	require.NoError(t, err)
	rooms := map[string]bool{}
	for _, i := range []int{0, 1, 2, 1200, 10_000_000, set.Len() - 1} {
		task, scene, err := set.At(i)
		require.NoError(t, err)
		require.Equal(t, "Sofa", task.TargetType)
		require.Equal(t, sceneName(open, i, []string{"Sofa"}), scene.Name())
		x0, z0, x1, z1 := scene.Bounds()
		rooms[task.TargetID+scene.Objects()[0].ID] = true
		require.Less(t, x0+z0, x1+z1)
	}
	require.Len(t, rooms, 6)
	require.Positive(t, sampled{set, 1_000_000}.Len())

	for _, name := range targetTypes() {
		set, err := builtIn("base_open", []string{name})
		require.NoError(t, err)
		for i := range 8 {
			task, _, err := set.At(i)
			require.NoError(t, err, name)
			require.Equal(t, name, task.TargetType)
		}
	}

	for name, bad := range map[string]func(*Options){
		`"targets[0]"`: func(o *Options) { o.Targets = []string{"CounterTop"} },
		`"targets[1]"`: func(o *Options) { o.Targets = []string{"Bed", "Bad"} },
		`"targets"`:    func(o *Options) { o.TaskDir = "tasks" },
		`"prompt"`:     func(o *Options) { o.Prompt = "short" },
	} {
		o := brief()
		bad(&o)
		err := o.Validate()
		testkit.Error(t, err, env.ErrOption, name)
	}
}
