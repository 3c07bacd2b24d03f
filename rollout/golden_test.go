package rollout_test

import (
	"context"
	"errors"
	"image"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/sokoban"
	"vagen/internal/golden"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// whole reads a whole number of a case; what is null or missing is 0.
func whole(c *golden.Run, name string) int { return golden.ParamOr(c, name, 0) }

func TestGoldenBudgets(t *testing.T) {
	golden.Each(t, "algorithms_next/budgets.json", func(c *golden.Run) {
		p := func(name string) int { return whole(c, name) }
		switch {
		case c.HasTag("default_summary_budget"):
			c.Equal("summary budget", rollout.DefaultSummary(p("compact_budget"), p("per_turn")),
				golden.Expected[int](c, "summary_budget"))
		case c.HasTag("generation_limit"):
			got := rollout.Room(p("response_len"), p("floor"), p("spent"), p("pending"), p("reserve"))
			golden.Same(c, "limit", got)
		case c.HasTag("harness"):
			goldenEpisode(c)
		default:
			goldenPlan(c)
		}
	})
}

// planErrors are the recorded codes; the one that is missing is ErrNoSummary's.
var planErrors = map[string]error{
	"per_turn_exceeds_response": rollout.ErrTurnRegion,
	"per_turn_exceeds_context":  rollout.ErrTurnContext,
	"summary_exceeds_per_turn":  rollout.ErrSummaryTurn,
	"no_room_to_buy_a_turn":     rollout.ErrCompactRegion,
}

const summaryWarning = "summary" // under whatever name it was recorded

func planWarnings(t testing.TB, warnings []error) (codes []string) {
	codes = []string{}
	for _, w := range warnings {
		switch {
		case errors.Is(w, rollout.ErrEpisodeRegion):
			codes = append(codes, "episode_exceeds_response")
		case errors.Is(w, rollout.ErrEpisodeWindow):
			codes = append(codes, "episode_exceeds_window")
		default:
			require.ErrorIs(t, w, rollout.ErrSummaryTotal)
			codes = append(codes, summaryWarning)
		}
	}
	return codes
}

func goldenPlan(c *golden.Run) {
	p := func(name string) int { return whole(c, name) }
	plan := rollout.Plan{
		Budget:  rollout.Budget{Prompt: p("prompt_len"), Response: p("response_len"), Observation: p("env_response")},
		Harness: goldenHarness(c), PerTurn: p("per_turn"), MaxTurns: p("max_turns"), Context: p("context"),
		Request: p("summary_request_len"),
	}
	warnings, err := plan.Check()
	if code := golden.Expected[string](c, "error"); code == "" {
		require.NoError(c, err)
	} else if want, known := planErrors[code]; known {
		require.ErrorIs(c, err, want)
	} else {
		require.ErrorIs(c, err, rollout.ErrNoSummary, code)
	}
	want := golden.Expected[[]string](c, "warnings")
	for i, code := range want {
		if !strings.HasPrefix(code, "episode_exceeds_") {
			want[i] = summaryWarning
		}
	}
	c.Equal("warnings", planWarnings(c, warnings), want)
	golden.Same(c, "window", plan.Window())
	golden.Same(c, "opening_limit", plan.Prompt)
	golden.Same(c, "floor", plan.Floor())
}

func goldenHarness(c *golden.Run) rollout.Harness {
	c.Helper()
	switch mode := golden.Param[string](c, "mode"); mode {
	case "concat":
		return rollout.Concat{}
	case "no_concat":
		return rollout.NoConcat{}
	case "compact":
		return rollout.Compact{
			Total: whole(c, "compact_budget"), Summary: whole(c, "summary_budget"),
			Request: sized(whole(c, "summary_request_len")), Heading: sized(whole(c, "summary_prefix_tokens")),
		}
	default:
		c.Fatalf("no harness %q", mode)
		return nil
	}
}

// sized returns a text that ruler counts as the given number of tokens.
func sized(n int) string { return "#" + strconv.Itoa(n) }

var sizes = regexp.MustCompile(`#(\d+)`)

// ruler is a policy whose messages contain their own length. It returns responses of
// recorded lengths and records each call.
type ruler struct {
	t                   testing.TB
	responses, summarys []int
	calls               []goldenCall
	asks                []rollout.Request
	states              map[uint64]int // conversations by key
	region              int
	said, summed        int
}

type goldenCall struct {
	Call         string `json:"call"`
	Conversation int    `json:"conversation"`
	Context      int    `json:"context_tokens"`
	MaxNew       int    `json:"max_new_tokens"`
	Generated    int    `json:"generated"`
	Region       int    `json:"response_region"`
}

func (r *ruler) Count(p policy.Prompt) (n int, err error) {
	for _, m := range p.Messages {
		for _, found := range sizes.FindAllStringSubmatch(m.Text, -1) {
			x, err := strconv.Atoi(found[1])
			require.NoError(r.t, err)
			n += x
		}
	}
	return n, nil
}

func (r *ruler) Forget(...uint64) {}

func (r *ruler) Generate(_ context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	require.Len(r.t, prompts, 1)
	p, a := prompts[0], r.asks[len(r.asks)-1]
	call := goldenCall{Call: "continue", MaxNew: a.MaxTokens}
	limit := s.MaxTokens
	if p.MaxTokens > 0 {
		limit = min(limit, p.MaxTokens)
	}
	call.Context, _ = r.Count(p)
	if a.Open {
		require.NotContains(r.t, r.states, p.Conversation)
		r.states[p.Conversation] = len(r.states)
		call.Call, r.region = "open", 0
	} else {
		require.Contains(r.t, r.states, p.Conversation)
		r.region += call.Context
	}
	if a.Summary {
		call.Call, call.Generated = "summary", r.summarys[r.summed%len(r.summarys)]
		r.summed++
	} else {
		call.Generated = r.responses[r.said%len(r.responses)]
		r.said++
	}
	call.Conversation, call.Generated = r.states[p.Conversation], min(call.Generated, limit)
	r.region += call.Generated
	call.Region = r.region
	r.calls = append(r.calls, call)
	return []policy.Completion{{
		Context: make([]int32, call.Context), Tokens: make([]int32, call.Generated),
		LogProbs: make([]float32, call.Generated),
		Text:     sized(call.Generated), Stop: policy.StopLength,
	}}, nil
}

// asking records the requests of a harness.
type asking struct {
	rollout.Harness
	r *ruler
}

func (a asking) Next(s *rollout.State) (rollout.Request, error) {
	ask, err := a.Harness.Next(s)
	a.r.asks = append(a.r.asks, ask)
	return ask, err
}

// sizedEnv shows observations of given sizes and is solved after so many turns.
type sizedEnv struct {
	system int
	sizes  []int
	solved int
	turn   int
}

func (e *sizedEnv) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: sized(e.system)}, nil
}

func (e *sizedEnv) Reset(context.Context, int64) (env.Observation, error) { return e.observe(), nil }
func (e *sizedEnv) Close() error                                          { return nil }

func (e *sizedEnv) Step(context.Context, string) (env.Outcome, error) {
	e.turn++
	return env.Outcome{Observation: e.observe(), Done: e.turn >= e.solved}, nil
}

func (e *sizedEnv) observe() env.Observation {
	return env.Observation{Text: sized(e.sizes[e.turn%len(e.sizes)])}
}

func goldenEpisode(c *golden.Run) {
	p := func(name string) int { return whole(c, name) }
	r := &ruler{t: c, states: map[uint64]int{},
		responses: golden.Param[[]int](c, "response_lengths"), summarys: golden.Param[[]int](c, "summary_lengths")}
	var envs env.Registry
	require.NoError(c, envs.Register("sized", func(map[string]any) (env.Env, error) {
		return &sizedEnv{system: p("system_size"), sizes: golden.Param[[]int](c, "observation_sizes"),
			solved: p("turns_to_solve")}, nil
	}))
	player := rollout.Player{
		Policy: r, Envs: &envs, Sampling: policy.Sampling{MaxTokens: p("per_turn")}, MaxTurns: p("max_turns"),
		Harness: asking{goldenHarness(c), r}, Budget: rollout.Budget{Response: p("response_len")},
	}
	floor := rollout.Plan{Budget: player.Budget, PerTurn: p("per_turn")}
	c.Equal("floor", floor.Floor(), p("floor"))
	ts, _, err := player.Play(c.Context(), []rollout.Episode{{Env: "sized"}}, 1)
	require.NoError(c, err)
	tr := ts[0]
	golden.Same(c, "calls", r.calls)
	golden.Same(c, "environment_steps", len(tr.Turns))
	golden.Same(c, "conversations", len(tr.Rows))
	finish := string(tr.End)
	if tr.End == rollout.EndNoProgress {
		finish = "compaction_makes_no_progress"
	}
	golden.Same(c, "finish", finish)
	summed := []int{}
	for i := range tr.Rows {
		if tr.Rows[i].EndsWithSummary() {
			summed = append(summed, i)
		}
	}
	golden.Same(c, "summarised_conversations", summed)
}

// TestGoldenRunControl compares the entries of the file that concern playing: delays,
// selected episodes, ids, and the seeds of later attempts. Seeds of datasets
// and the partition of maps belong to package dataset.
func TestGoldenRunControl(t *testing.T) {
	golden.Each(t, "algorithms_next/run_control.json", func(c *golden.Run) {
		switch {
		case c.HasTag("backoff"):
			seconds := func(name string) time.Duration {
				return time.Duration(math.Round(c.Optional(name, 0) * float64(time.Second)))
			}
			b := rollout.Backoff{Min: seconds("min_backoff"), Max: seconds("max_backoff"),
				Multiplier: c.Optional("backoff_multiplier", 0), Jitter: c.Optional("jitter_frac", 0)}
			got := b.Delay(whole(c, "attempt"), c.Optional("uniform", 0), seconds("retry_after"))
			c.Tolerance.Abs = 1e-9 // a Duration has nanoseconds
			c.Number("seconds", got.Seconds())
		case c.HasTag("val_log_select"):
			goldenChoice(c)
		case c.HasTag("rollout_id"):
			text := func(name string) string { return golden.Param[string](c, name) }
			got := rollout.RolloutID(text("env_name"), text("seed"), text("rollout_index"), text("traj_idx"))
			golden.Same(c, "id", got)
		case c.HasTag("retry_seed"):
			seed := golden.Param[int64](c, "seed")
			for _, want := range golden.Expected[[]int64](c, "sequence") {
				c.Equal("seed", seed, want)
				seed = sokoban.RetryLCG.Next(seed)
			}
		}
	})
}

func goldenChoice(c *golden.Run) {
	recorded := golden.Input[[]struct {
		Episode string   `json:"episode"`
		Source  string   `json:"data_source"`
		Success float64  `json:"success"`
		Reward  *float64 `json:"reward"`
	}](c, "episodes")
	episodes := make([]rollout.Candidate, len(recorded))
	for i, e := range recorded {
		episodes[i] = rollout.Candidate{Source: e.Source, Success: e.Success > 0, Reward: math.NaN()}
		if e.Reward != nil {
			episodes[i].Reward = *e.Reward
		}
	}
	choice := golden.Param[rollout.Choice](c, "strategy")
	picked, err := choice.Choose(episodes, whole(c, "n"), c.Param("success_ratio"))
	require.NoError(c, err)
	names := []string{}
	for _, i := range picked {
		names = append(names, recorded[i].Episode)
	}
	golden.Same(c, "picked", names)
}

// TestGoldenRecordingToPrompt writes transcripts as the chat template of the
// recording does.
func TestGoldenRecordingToPrompt(t *testing.T) {
	golden.Each(t, "algorithms/recording_to_prompt.json", func(c *golden.Run) {
		end := golden.Param[string](c, "eos_token")
		tr, final := recordedTranscript(c)
		var prompt strings.Builder
		pictures := []string{}
		for _, m := range tr.Messages() {
			prompt.WriteString("<|im_start|>" + string(m.Role) + "\n" + m.Text + end + "\n")
			for _, im := range m.Images {
				pictures = append(pictures, im.(named).name)
			}
		}
		got := prompt.String()
		if tr.End != "" { // the end of the turn belongs to the response
			got = strings.ReplaceAll(got, tr.End+end, end+tr.End)
		}
		if final {
			got = strings.TrimSuffix(got, "\n")
		} else {
			got += "<|im_start|>assistant\n"
		}
		golden.Same(c, "prompt", got)
		golden.Same(c, "image_data", pictures)
		rewards := []float64{}
		for _, turn := range tr.ShownTurns() {
			rewards = append(rewards, turn.Reward.Sum())
		}
		golden.Same(c, "rewards", rewards)
	})
}

// named is an image identified by its name.
type named struct {
	image.Image
	name string
}

func recordedTranscript(c *golden.Run) (tr rollout.Transcript, final bool) {
	c.Helper()
	records := golden.Input[[]struct {
		Reward float64 `json:"reward"`
		Info   struct {
			Raw string `json:"llm_raw_response"`
		} `json:"info"`
		Text   string   `json:"obs_str"`
		Images []string `json:"image_data"`
	}](c, "recording")
	shown := func(i int) env.Observation {
		o := env.Observation{Text: records[i].Text}
		for _, name := range records[i].Images {
			o.Images = append(o.Images, named{name: name})
		}
		return o
	}
	tr.System.Text = golden.Param[string](c, "system_prompt")
	step := whole(c, "step")
	for i := 1; i <= step; i++ {
		tr.Turns = append(tr.Turns, rollout.Turn{Observation: shown(i - 1), Response: records[i].Info.Raw,
			Reward: reward.Parts{{Value: records[i].Reward}}})
	}
	golden.Decode(c, c.Params, "window_size", &tr.Last)
	if final = golden.Param[bool](c, "is_final"); !final {
		now := shown(step)
		tr.Observation = &now
	}
	if golden.Param[bool](c, "prep_for_loss_mask") {
		tr.Begin, tr.End = golden.Param[string](c, "begin_mark"), golden.Param[string](c, "end_mark")
	}
	return tr, final
}

// TestTranscriptsKeepTheWholeTurn: a window larger than the episode leaves no turn out.
func TestTranscriptsKeepTheWholeTurn(t *testing.T) {
	turns := []rollout.Turn{{Observation: env.Observation{Text: "a"}, Response: "b <image>"},
		{Observation: env.Observation{Text: "c"}, Response: "d"}}
	all := (&rollout.Transcript{Turns: turns}).Messages()
	for _, last := range []int{2, 3} {
		require.Equal(t, all, (&rollout.Transcript{Turns: turns, Last: &last}).Messages())
	}
	require.Equal(t, "b ", all[1].Text)
	one := 1
	require.Equal(t, all[2:], (&rollout.Transcript{Turns: turns, Last: &one}).Messages())
	require.True(t, slices.EqualFunc(turns[1:], (&rollout.Transcript{Turns: turns, Last: &one}).ShownTurns(),
		func(a, b rollout.Turn) bool { return a.Response == b.Response }))
}

// TestAWindowOfZeroShowsTheCurrentObservationAlone: the original starts at
// max(0, step − window_size), which is the current step for 0; only null keeps all.
func TestAWindowOfZeroShowsTheCurrentObservationAlone(t *testing.T) {
	turns := []rollout.Turn{{Observation: env.Observation{Text: "a"}, Response: "b"},
		{Observation: env.Observation{Text: "c"}, Response: "d"}}
	now := env.Observation{Text: "e"}
	for _, last := range []int{0, -1} {
		tr := &rollout.Transcript{System: env.Observation{Text: "s"}, Turns: turns, Observation: &now, Last: &last}
		require.Empty(t, tr.ShownTurns())
		require.Equal(t, []policy.Message{{Role: policy.System, Text: "s"}, {Role: policy.User, Text: "e"}}, tr.Messages())
	}
	require.Len(t, (&rollout.Transcript{Turns: turns, Observation: &now}).Messages(), 5, "all turns")
}
