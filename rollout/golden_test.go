package rollout_test

import (
	"context"
	"encoding/json"
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

// number reads a whole number of a case; what is null or missing is 0.
func number(t testing.TB, fields map[string]json.RawMessage, name string) int {
	t.Helper()
	var n int
	golden.Decode(t, fields, name, &n)
	return n
}

func need[T any](t testing.TB, fields map[string]json.RawMessage, name string) (v T) {
	t.Helper()
	golden.Need(t, fields, name, &v)
	return v
}

// alike compares two values as JSON would print them.
func alike(t testing.TB, tally *golden.Tally, what string, got, want any) {
	t.Helper()
	a, err := json.Marshal(got)
	require.NoError(t, err)
	b, err := json.Marshal(want)
	require.NoError(t, err)
	golden.Equal(t, tally, what, string(a), string(b))
}

func TestGoldenBudgets(t *testing.T) {
	const file = "algorithms_next/budgets.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			p := func(name string) int { return number(t, c.Params, name) }
			switch {
			case c.HasTag("default_summary_budget"):
				golden.Equal(t, tally, "summary budget", rollout.DefaultSummary(p("compact_budget"), p("per_turn")),
					need[int](t, c.Expected, "summary_budget"))
			case c.HasTag("generation_limit"):
				got := rollout.Room(p("response_len"), p("floor"), p("spent"), p("pending"), p("reserve"))
				golden.Equal(t, tally, "limit", got, need[int](t, c.Expected, "limit"))
			case c.HasTag("harness"):
				goldenEpisode(t, tally, c)
			default:
				goldenPlan(t, tally, c)
			}
			tally.Case()
		})
	}
}

// planErrors are the recorded codes; the one that is missing is ErrNoSummary's.
var planErrors = map[string]error{
	"per_turn_exceeds_response": rollout.ErrTurnRegion,
	"per_turn_exceeds_context":  rollout.ErrTurnContext,
	"summary_exceeds_per_turn":  rollout.ErrSummaryTurn,
	"no_room_to_buy_a_turn":     rollout.ErrCompactRegion,
}

const summaryWarning = "summary" // under whatever name it was recorded

func planWarnings(t *testing.T, warnings []error) (codes []string) {
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

func goldenPlan(t *testing.T, tally *golden.Tally, c golden.Case) {
	p := func(name string) int { return number(t, c.Params, name) }
	plan := rollout.Plan{
		Budget:  rollout.Budget{Prompt: p("prompt_len"), Response: p("response_len"), Observation: p("env_response")},
		Harness: goldenHarness(t, c), PerTurn: p("per_turn"), MaxTurns: p("max_turns"), Context: p("context"),
		Request: p("summary_request_len"),
	}
	warnings, err := plan.Check()
	if code := need[string](t, c.Expected, "error"); code == "" {
		require.NoError(t, err)
	} else if want, known := planErrors[code]; known {
		require.ErrorIs(t, err, want)
	} else {
		require.ErrorIs(t, err, rollout.ErrNoSummary, code)
	}
	tally.Add(1)
	want := need[[]string](t, c.Expected, "warnings")
	for i, code := range want {
		if !strings.HasPrefix(code, "episode_exceeds_") {
			want[i] = summaryWarning
		}
	}
	alike(t, tally, "warnings", planWarnings(t, warnings), want)
	golden.Equal(t, tally, "window", plan.Window(), need[int](t, c.Expected, "window"))
	golden.Equal(t, tally, "opening limit", plan.Prompt, need[int](t, c.Expected, "opening_limit"))
	golden.Equal(t, tally, "floor", plan.Floor(), need[int](t, c.Expected, "floor"))
}

func goldenHarness(t *testing.T, c golden.Case) rollout.Harness {
	t.Helper()
	switch mode := need[string](t, c.Params, "mode"); mode {
	case "concat":
		return rollout.Concat{}
	case "no_concat":
		return rollout.NoConcat{}
	case "compact":
		return rollout.Compact{
			Total: number(t, c.Params, "compact_budget"), Summary: number(t, c.Params, "summary_budget"),
			Request: sized(number(t, c.Params, "summary_request_len")),
			Heading: sized(number(t, c.Params, "summary_prefix_tokens")),
		}
	default:
		t.Fatalf("no harness %q", mode)
		return nil
	}
}

// sized returns a text that ruler counts as the given number of tokens.
func sized(n int) string { return "#" + strconv.Itoa(n) }

var sizes = regexp.MustCompile(`#(\d+)`)

// ruler is a policy whose messages contain their own length. It returns responses of
// recorded lengths and records each call.
type ruler struct {
	t                   *testing.T
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

func goldenEpisode(t *testing.T, tally *golden.Tally, c golden.Case) {
	p := func(name string) int { return number(t, c.Params, name) }
	r := &ruler{
		t: t, states: map[uint64]int{},
		responses: need[[]int](t, c.Params, "response_lengths"), summarys: need[[]int](t, c.Params, "summary_lengths"),
	}
	var envs env.Registry
	require.NoError(t, envs.Register("sized", func(map[string]any) (env.Env, error) {
		return &sizedEnv{system: p("system_size"), sizes: need[[]int](t, c.Params, "observation_sizes"),
			solved: p("turns_to_solve")}, nil
	}))
	player := rollout.Player{
		Policy: r, Envs: &envs, Sampling: policy.Sampling{MaxTokens: p("per_turn")}, MaxTurns: p("max_turns"),
		Harness: asking{goldenHarness(t, c), r}, Budget: rollout.Budget{Response: p("response_len")},
	}
	floor := rollout.Plan{Budget: player.Budget, PerTurn: p("per_turn")}
	golden.Equal(t, tally, "floor", floor.Floor(), p("floor"))
	ts, _, err := player.Play(t.Context(), []rollout.Episode{{Env: "sized"}}, 1)
	require.NoError(t, err)
	tr := ts[0]
	alike(t, tally, "calls", r.calls, need[[]goldenCall](t, c.Expected, "calls"))
	golden.Equal(t, tally, "steps", len(tr.Turns), need[int](t, c.Expected, "environment_steps"))
	golden.Equal(t, tally, "conversations", len(tr.Rows), need[int](t, c.Expected, "conversations"))
	finish := string(tr.End)
	if tr.End == rollout.EndNoProgress {
		finish = "compaction_makes_no_progress"
	}
	golden.Equal(t, tally, "finish", finish, need[string](t, c.Expected, "finish"))
	summed := []int{}
	for i := range tr.Rows {
		if tr.Rows[i].EndsWithSummary() {
			summed = append(summed, i)
		}
	}
	alike(t, tally, "summarised", summed, need[[]int](t, c.Expected, "summarised_conversations"))
}

// TestGoldenRunControl compares the entries of the file that concern playing: delays,
// selected episodes, ids, and the seeds of later attempts. Seeds of datasets
// and the partition of maps belong to package dataset.
func TestGoldenRunControl(t *testing.T) {
	const file = "algorithms_next/run_control.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			f := func(name string) (x float64) { golden.Decode(t, c.Params, name, &x); return x }
			switch {
			case c.HasTag("backoff"):
				seconds := func(x float64) time.Duration { return time.Duration(math.Round(x * float64(time.Second))) }
				b := rollout.Backoff{Min: seconds(f("min_backoff")), Max: seconds(f("max_backoff")),
					Multiplier: f("backoff_multiplier"), Jitter: f("jitter_frac")}
				got := b.Delay(int(f("attempt")), f("uniform"), seconds(f("retry_after")))
				// A Duration has nanoseconds.
				tol := golden.Tolerance{Abs: 1e-9, Rel: c.Tolerance.Rel}
				tally.Float(t, "seconds", got.Seconds(), need[float64](t, c.Expected, "seconds"), tol)
			case c.HasTag("val_log_select"):
				goldenChoice(t, tally, c)
			case c.HasTag("rollout_id"):
				text := func(name string) string { return need[string](t, c.Params, name) }
				got := rollout.RolloutID(text("env_name"), text("seed"), text("rollout_index"), text("traj_idx"))
				golden.Equal(t, tally, "id", got, need[string](t, c.Expected, "id"))
			case c.HasTag("retry_seed"):
				seed := need[int64](t, c.Params, "seed")
				var got []int64
				for range need[[]int64](t, c.Expected, "sequence") {
					got = append(got, seed)
					seed = sokoban.RetryLCG.Next(seed)
				}
				alike(t, tally, "seeds", got, need[[]int64](t, c.Expected, "sequence"))
			default:
				return
			}
			tally.Case()
		})
	}
}

func goldenChoice(t *testing.T, tally *golden.Tally, c golden.Case) {
	recorded := need[[]struct {
		Episode string   `json:"episode"`
		Source  string   `json:"data_source"`
		Success float64  `json:"success"`
		Reward  *float64 `json:"reward"`
	}](t, c.Inputs, "episodes")
	episodes := make([]rollout.Candidate, len(recorded))
	for i, e := range recorded {
		episodes[i] = rollout.Candidate{Source: e.Source, Success: e.Success > 0, Reward: math.NaN()}
		if e.Reward != nil {
			episodes[i].Reward = *e.Reward
		}
	}
	picked, err := rollout.Choice(need[string](t, c.Params, "strategy")).Choose(episodes, number(t, c.Params, "n"),
		need[float64](t, c.Params, "success_ratio"))
	require.NoError(t, err)
	names := []string{}
	for _, i := range picked {
		names = append(names, recorded[i].Episode)
	}
	alike(t, tally, "picked", names, need[[]string](t, c.Expected, "picked"))
}

// TestGoldenRecordingToPrompt writes transcripts as the chat template of the
// recording does.
func TestGoldenRecordingToPrompt(t *testing.T) {
	const file = "algorithms/recording_to_prompt.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			tally.Case()
			text := func(name string) string { return need[string](t, c.Params, name) }
			tr, final := recordedTranscript(t, c)
			var prompt strings.Builder
			var pictures []string
			for _, m := range tr.Messages() {
				prompt.WriteString("<|im_start|>" + string(m.Role) + "\n" + m.Text + text("eos_token") + "\n")
				for _, im := range m.Images {
					pictures = append(pictures, im.(named).name)
				}
			}
			got := prompt.String()
			if tr.End != "" { // the end of the turn belongs to the response
				got = strings.ReplaceAll(got, tr.End+text("eos_token"), text("eos_token")+tr.End)
			}
			if final {
				got = strings.TrimSuffix(got, "\n")
			} else {
				got += "<|im_start|>assistant\n"
			}
			golden.Equal(t, tally, "prompt", got, need[string](t, c.Expected, "prompt"))
			alike(t, tally, "images", pictures, need[[]string](t, c.Expected, "image_data"))
			rewards := []float64{}
			for _, turn := range tr.ShownTurns() {
				rewards = append(rewards, turn.Reward.Sum())
			}
			alike(t, tally, "rewards", rewards, need[[]float64](t, c.Expected, "rewards"))
		})
	}
}

// named is an image identified by its name.
type named struct {
	image.Image
	name string
}

func recordedTranscript(t *testing.T, c golden.Case) (tr rollout.Transcript, final bool) {
	t.Helper()
	records := need[[]struct {
		Reward float64 `json:"reward"`
		Info   struct {
			Raw string `json:"llm_raw_response"`
		} `json:"info"`
		Text   string   `json:"obs_str"`
		Images []string `json:"image_data"`
	}](t, c.Inputs, "recording")
	shown := func(i int) env.Observation {
		o := env.Observation{Text: records[i].Text}
		for _, name := range records[i].Images {
			o.Images = append(o.Images, named{name: name})
		}
		return o
	}
	tr.System.Text = need[string](t, c.Params, "system_prompt")
	step := number(t, c.Params, "step")
	for i := 1; i <= step; i++ {
		tr.Turns = append(tr.Turns, rollout.Turn{Observation: shown(i - 1), Response: records[i].Info.Raw,
			Reward: reward.Parts{{Value: records[i].Reward}}})
	}
	golden.Decode(t, c.Params, "window_size", &tr.Last)
	if final = need[bool](t, c.Params, "is_final"); !final {
		now := shown(step)
		tr.Observation = &now
	}
	if need[bool](t, c.Params, "prep_for_loss_mask") {
		tr.Begin, tr.End = need[string](t, c.Params, "begin_mark"), need[string](t, c.Params, "end_mark")
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
