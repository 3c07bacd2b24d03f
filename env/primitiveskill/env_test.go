package primitiveskill

import (
	"context"
	"image"
	"math"
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

func start(t *testing.T, rules env.Rules, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions(rules)
	o.RenderMode, o.PromptFormat = env.Text, "free_think"
	if change != nil {
		change(&o)
	}
	return envtest.Started(t, New, o, 3)
}

// put moves a body of the running episode, in millimetres.
func put(e *Env, name string, x, y, z float64) {
	e.world.body(name).at = Point{x / 1000, y / 1000, z / 1000}
}

func play(t *testing.T, e *Env, actions string) env.Outcome {
	t.Helper()
	return envtest.Play(t, e, "<think>so</think><answer>"+actions+"</answer>")
}

func TestLitePaysStagesAsTheyComeAndGo(t *testing.T) {
	e := start(t, env.Lite, nil)
	put(e, "red_cube", 120, -100, 20)
	put(e, "green_cube", 120, 150, 20)
	out := play(t, e, "pick(120,-100,20) | place(0,-100,50)")
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.1}, {Name: partStage, Value: 2}}, out.Reward)
	require.Equal(t, env.Metrics{"action_is_valid": 1, "action_is_effective": 1, "format_correct": 1, "env_step": 2},
		out.Turn)
	require.Equal(t, env.Metrics{"success": 0}, out.Trajectory)
	out = play(t, e, "pick(0,-100,20)")
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.1}, {Name: partStage, Value: -2}}, out.Reward)
	out = play(t, e, "place(5,-100,20)|pick(120,150,20)")
	require.Equal(t, 2.1, out.Reward.Sum())
	out = play(t, e, "place(-5,150,20)|pick(0,0,20)")
	require.Equal(t, reward.Parts{{Name: partStage, Value: 8}, {Name: partSuccess, Value: 10}}, out.Reward,
		"the task was done before the second skill, which leaves an action that was not run")
	require.True(t, out.Done && out.Success)
	require.Equal(t, 0.0, out.Turn["action_is_valid"])
	require.Equal(t, env.Metrics{"success": 1}, out.Trajectory)
}

func TestFormatIsPaidOnlyWhenAllActionsAreValid(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		e := start(t, rules, func(o *Options) { o.EachTurn = false })
		fee := e.o.FormatReward
		require.Equal(t, fee, play(t, e, "pick(0,0,20)").Reward.Of(partFormat))
		for actions, run := range map[string]int{"": 0, "jump(1,2,3)": 0, "pick(0,0,20)|jump(1,2,3)": 1,
			"jump(1,2,3)|pick(0,0,20)": 0} {
			before := e.skills
			out := play(t, e, actions)
			require.Empty(t, out.Reward, "%s %q", rules, actions)
			require.Zero(t, out.Turn["action_is_valid"])
			require.Equal(t, run, e.skills-before, "%s %q", rules, actions)
		}
		out := envtest.Play(t, e, "pick(0,0,20)")
		require.Empty(t, out.Reward)
	}
	legacy := start(t, env.Legacy, func(o *Options) { o.PromptFormat, o.EachTurn = "grounding", false })
	out := envtest.Play(t, legacy,
		"so <think><observation>o</observation><reasoning>r</reasoning></think><answer>pick(0,0,20)</answer>")
	require.Equal(t, 1, legacy.skills,
		"in a legacy format with several sections the action is executed wherever it is in the response")
	require.Equal(t, 1.0, out.Turn["action_is_valid"])
	require.Empty(t, out.Reward)
}

func TestLegacyPaysProgressTurnByTurnOrAtTheEnd(t *testing.T) {
	turns := []string{"pick(120,-100,20)|place(0,-100,50)", "nonsense", "pick(120,150,20)", "place(0,150,20)"}
	sum := func(each bool) (parts []float64, final float64) {
		e := start(t, env.Legacy, func(o *Options) { o.EachTurn = each })
		put(e, "red_cube", 120, -100, 20)
		put(e, "green_cube", 120, 150, 20)
		for _, actions := range turns {
			parts = append(parts, play(t, e, actions).Reward.Sum())
		}
		return parts, e.FinalReward()
	}
	parts, final := sum(true)
	require.InDeltaSlice(t, []float64{0.5 + 2 - 0.2, 0, 0.5 - 0.1, 0.5 + 8 - 0.1}, parts, 1e-12)
	require.Zero(t, final)
	parts, final = sum(false)
	require.InDeltaSlice(t, []float64{0.5, 0, 0.5, 0.5}, parts, 1e-12)
	require.InDelta(t, 10-0-0.1*4, final, 1e-12)
	e, err := New(DefaultOptions(env.Legacy))
	require.NoError(t, err)
	require.Zero(t, e.FinalReward())
}

func TestEpisodesEndWithTheirSkills(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) { o.MaxSteps = 3 })
	require.False(t, play(t, e, "pick(0,0,20)|pick(0,0,20)").Done)
	out := play(t, e, "pick(0,0,20)|pick(0,0,20)")
	require.True(t, out.Done)
	require.Equal(t, 3.0, out.Turn["env_step"])
	require.True(t, play(t, e, "pick(0,0,20)").Done, "as in the original")
	require.False(t, play(t, e, "nothing").Done)
}

func TestObservationsShowPlacesAndLimits(t *testing.T) {
	for _, c := range []struct {
		task string
		want []string
	}{
		{AlignTwoCube, []string{"Workspace of x: -100 to 150", "Workspace of y: -200 to 200", "Workspace of z: 10 to 200",
			"Other information: none"}},
		{PlaceTwoCube, []string{"(80, -100, 0), (80, 100, 0)]", "Other information: none"}},
		{StackThreeCube, []string{"Other information: cube_size: (40, 40, 40)\n"}},
		{PutAppleInDrawer, []string{"Workspace of y: -600 to 200", "(-500, -500, 200)]",
			"Other information: drawer_open_value: 300\n"}},
	} {
		for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
			e := start(t, rules, func(o *Options) { o.Task = c.task })
			first := envtest.Reset(t, e, 5)
			require.Empty(t, first.Images)
			require.Contains(t, first.Text, e.task.instruction)
			again := play(t, e, " PICK( 1, 2 ,300) and (").Observation.Text
			require.Contains(t, again, "Skills run: ['PICK(1,2,300)']")
			for _, text := range []string{first.Text, again} {
				for _, want := range append(c.want, "Answer in this form") {
					require.Contains(t, text, want)
				}
			}
			vision := start(t, rules, func(o *Options) { o.Task, o.RenderMode, o.MaskSuccess = c.task, env.Vision, false })
			first = envtest.Reset(t, vision, 5)
			require.Equal(t, image.Rect(0, 0, 300, 300), first.Images[0].Bounds())
			require.Contains(t, first.Text, "success: false")
		}
	}
}

func TestStateIsPlacesInMillimetres(t *testing.T) {
	e := start(t, env.Legacy, nil)
	put(e, "red_cube", 120.5, -100.4, 20)
	put(e, "green_cube", 121.5, 150, 20)
	s := e.State()
	require.Equal(t, State{{"red_cube_position", [3]int{120, -100, 20}}, {"green_cube_position", [3]int{122, 150, 20}}}, s,
		"halves are rounded to even")
	fields := testkit.JSON[map[string][3]int](t, s.JSON())
	require.Equal(t, [3]int{122, 150, 20}, fields["green_cube_position"])
	require.Equal(t, "The red cube is at (120, -100, 20). The green cube is at (122, 150, 20).", s.Sentence())
}

func TestClaimsComeWithTheStateBeforeAndAfter(t *testing.T) {
	e := start(t, env.Legacy, func(o *Options) { o.UseStateReward, o.PromptFormat = true, "grounding_worldmodeling" })
	put(e, "red_cube", 120, -100, 20)
	say := func(answer string) env.Outcome {
		out := envtest.Play(t, e,
			"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>"+answer+
				"</answer>")
		return out
	}
	out := say("pick(120,-100,20)")
	require.Len(t, out.Claims, 2)
	require.Equal(t, "primitive_skill", out.Claims[0].Env)
	require.Equal(t, 0.5, out.Claims[1].Weight)
	require.Contains(t, out.Claims[0].State, `"red_cube_position": [120, -100, 20]`)
	require.Contains(t, out.Claims[1].State, `"red_cube_position": [0, 0, 300]`)
	out = say("jump")
	require.Empty(t, out.Claims)
	require.Equal(t, 0.0, out.Turn["grounding_reward"])
}

// The solver uses the true state. It solves every start state within the published limit
// of skills, so the tasks can be solved.
func TestEveryStartIsSolvable(t *testing.T) {
	for _, task := range Tasks() {
		for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
			o := DefaultOptions(rules)
			o.Task = task
			rate, err := successRate(o, Solve, 0, 150, o.MaxActions, 1)
			require.NoError(t, err)
			require.Equal(t, 1.0, rate, "%s %s", task, rules)
		}
		o := DefaultOptions(env.Lite)
		o.Task = task
		clumsy, err := successRate(o, clumsy, 0, 150, 2, 1)
		require.NoError(t, err)
		require.Less(t, clumsy, 0.1, task)
		noisy, err := successRate(o, randomly(0.3, Solve), 0, 150, 2, 1)
		require.NoError(t, err)
		require.True(t, noisy > clumsy && noisy < 1, "%s: %v", task, noisy)
		t.Logf("%s: clumsy %.3f, noisy %.3f", task, clumsy, noisy)
	}
}

func TestScriptsAreTrueAndWellFormed(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		for _, format := range options.Formats(rules, reward.LitePrimitiveSkill, "_symbolic") {
			for _, task := range Tasks() {
				e := start(t, rules, func(o *Options) { o.PromptFormat, o.Task = format, task })
				require.Equal(t, e.o, e.Options())
				r := rand.New(rand.NewPCG(1, 2))
				for range 4 {
					script := e.Script(r, randomly(0.3, Solve), 2)
					out := envtest.Play(t, e, script)
					require.True(t, out.Response.FormatCorrect, script)
					require.Equal(t, 1.0, out.Turn["action_is_valid"], script)
					if after := out.Response.Sections[reward.SectionPrediction]; after != "" {
						want := e.State().Sentence()
						if strings.HasSuffix(format, "_structured") {
							want = e.State().JSON()
						}
						require.Equal(t, want, after)
					}
				}
			}
		}
	}
}

func TestPicturesShowThingsWhereTheyAre(t *testing.T) {
	e := start(t, env.Lite, nil)
	for _, p := range []Point{{0, 0, 0.02}, {0.1, -0.15, 0.02}, {-0.1, 0.15, 0.02}, {0.15, 0.2, 0.06}} {
		put(e, "red_cube", 1000*p.X, 1000*p.Y, 1000*p.Z)
		put(e, "green_cube", -400, 600, 20)
		img := e.View().(*image.RGBA)
		n, cx, cy := 0.0, 0.0, 0.0
		for y := range 300 {
			for x := range 300 {
				if c := img.RGBAAt(x, y); c.R > 120 && c.G < 70 && c.B < 70 {
					n, cx, cy = n+1, cx+float64(x)+0.5, cy+float64(y)+0.5
				}
			}
		}
		px, py, _ := eye.Project(toPictureFrame(p))
		require.Greater(t, n, 60.0, "%v", p)
		require.InDelta(t, (px+1)*150, cx/n, 2, "%v", p)
		require.InDelta(t, (1-py)*150, cy/n, 2, "%v", p)
	}
	// Larger y is further to the right, larger x is lower.
	left, low, _ := eye.Project(toPictureFrame(Point{0.1, -0.1, 0}))
	right, up, _ := eye.Project(toPictureFrame(Point{-0.1, 0.1, 0}))
	require.True(t, left < 0 && right > 0 && low < up)
	require.Equal(t, e.View(), e.View())
	drawn := make(map[string]bool)
	for _, task := range Tasks() {
		img := start(t, env.Lite, func(o *Options) { o.Task = task }).View().(*image.RGBA)
		require.False(t, drawn[string(img.Pix)])
		drawn[string(img.Pix)] = true
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	envtest.Refused(t, FromConfig)
	_, err := FromConfig(map[string]any{"env_name": "primitive_skill", "gpu_device": 0, "record_video": false,
		"video_record_dir": "x"})
	require.NoError(t, err)
}

// clumsy picks objects at random and puts them anywhere in the workspace.
func clumsy(r *rand.Rand, e *Env, world World) Skill {
	p := Point{uniform(r, e.task.workspace[0]), uniform(r, e.task.workspace[1]), uniform(r, e.task.workspace[2])}
	w := world.w
	switch {
	case w.held >= 0:
		return Skill{Name: Place, At: p}
	case r.IntN(3) == 0:
		return Skill{Name: Push, At: p, To: Point{uniform(r, e.task.workspace[0]), uniform(r, e.task.workspace[1]), p.Z}}
	}
	return Skill{Name: Pick, At: w.bodies[r.IntN(len(w.bodies))].at}
}

// randomly acts as clumsy with probability eps, otherwise as p.
func randomly(eps float64, p Player) Player {
	return func(r *rand.Rand, e *Env, w World) Skill {
		if r.Float64() < eps {
			return clumsy(r, e, w)
		}
		return p(r, e, w)
	}
}

// successRate plays a player on the seeds first, first+1, … in turns of the given number
// of skills and returns the share of episodes in which it solves the task. Equal
// arguments give equal results.
func successRate(o Options, p Player, first int64, episodes, skills int, randomness uint64) (float64, error) {
	o.RenderMode = env.Text // pictures do not affect the result
	e, err := New(o)
	if err != nil {
		return 0, err
	}
	script := func(r *rand.Rand) string { return e.Script(r, p, skills) }
	return env.SuccessRate(context.Background(), e, first, episodes, math.MaxInt, randomness, script)
}
