package view_test

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/frozenlake"
	"vagen/mask"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/credit"
	"vagen/train/view"
)

func TestARunIsDescribed(t *testing.T) {
	f, s := viewed(t, 2)
	a := s.runs(t)
	require.Len(t, a.Runs, 1)
	r := a.Runs[0]
	require.Equal(t, []any{"r0", "run", 2, 2 * len(f.episodes[1]), "bi_level_gae"},
		[]any{r.ID, r.Name, r.Steps, r.Episodes, r.Estimator})
	require.Empty(t, r.Problems)
	require.False(t, r.Live, "its last step is done")

	var keys struct {
		Keys []struct {
			Key    string
			Values []*string
		}
	}
	other := trainRun(t, 1)
	s = serveRuns(t, "", f.dir, other.dir)
	s.get(t, 200, "/api/config?runs=r0,r1", &keys)
	differ := []string{}
	for _, k := range keys.Keys {
		if a, b := k.Values[0], k.Values[1]; *a != *b {
			differ = append(differ, k.Key)
		}
	}
	require.Equal(t, []string{"trainer.total_training_steps", "trainer.rollout_data_dir"}, differ)
	a = s.runs(t)
	require.NotEqual(t, a.Runs[0].Name, "", "runs have names")
	_, err := (&view.Server{Runs: []string{t.TempDir()}}).Handler()
	require.ErrorIs(t, err, view.ErrRun)
	_, err = (&view.Server{Runs: []string{filepath.Join(f.dir, "nowhere")}}).Handler()
	require.ErrorIs(t, err, view.ErrRun)
}

func TestEpisodesAreListedFilteredAndSorted(t *testing.T) {
	f, s := viewed(t, 3)
	all := s.episodes(t, "limit=500")
	n := len(f.episodes[1])
	require.Equal(t, 3*n, all.Total)
	require.Equal(t, []int{1, 2, 3}, all.Facets.Step)
	require.Len(t, all.Episodes, 3*n)
	for i, e := range all.Episodes {
		want := f.episodes[e.Step][i%n]
		require.Equal(t, fmt.Sprintf("train/%d/%d-%d", i/n+1, want.Group, want.Index), e.Key)
		require.Equal(t, []any{want.Seed, string(want.End), want.Success, want.Return(), len(want.Turns), want.Rows[0].Len(),
			want.Turns[0].Response, true, false},
			[]any{e.Seed, e.End, e.Success, e.Reward, e.Turns, e.Tokens, e.Excerpt, e.Scores, e.Measured})
	}
	lost := s.episodes(t, "step=2&success=false&order=-reward&limit=500")
	for i, e := range lost.Episodes {
		require.True(t, e.Step == 2 && !e.Success && (i == 0 || e.Reward <= lost.Episodes[i-1].Reward))
	}
	require.Equal(t, n, s.episodes(t, "step=2&success=true").Total+lost.Total)
	low, high := 0, 0
	for _, e := range f.episodes[2] {
		if e.Return() <= 1 {
			low++
		} else {
			high++
		}
	}
	require.True(t, low > 0 && high > 0, "%d, %d", low, high)
	require.Equal(t, low, s.episodes(t, "step=2&max=1").Total)
	require.Equal(t, high, s.episodes(t, "step=2&min=1.0001").Total)
	part := s.episodes(t, "offset=5&limit=2&order=-step")
	require.Equal(t, []int{3 * n, 2, 3}, []int{part.Total, len(part.Episodes), part.Episodes[0].Step})
	require.Zero(t, s.episodes(t, "kind=val").Total)
	require.Zero(t, s.episodes(t, "env=sokoban").Total)
	require.Zero(t, s.episodes(t, "min=1e9").Total)
	require.Equal(t, 3*n, s.episodes(t, "max=1e9&end=done").Total)

	found := s.episodes(t, "text=X+Y&limit=500")
	count := 0
	for _, ts := range f.episodes {
		for _, e := range ts {
			for _, turn := range e.Turns {
				if strings.Contains(turn.Response, "x y") {
					count++
					break
				}
			}
		}
	}
	require.Equal(t, count, found.Total, "texts are searched without regard to case")
	for _, bad := range []string{"kind=x", "order=up", "limit=0", "limit=501", "step=-1", "success=maybe", "min=NaN",
		"offset=a", "text=" + strings.Repeat("a", 201)} {
		require.NotEmpty(t, s.refused(t, 400, "/api/runs/r0/episodes?"+bad), bad)
	}
}

// TestAbandonedSearchesEnd before they have read every file.
func TestAbandonedSearchesEnd(t *testing.T) {
	h := handlerOf(t, "", trainRun(t, 1).dir)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	a := ask(h, http.MethodGet, "/api/runs/r0/episodes?text=x", func(r *http.Request) { *r = *r.WithContext(ctx) })
	require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode)
}

// TestAnEpisodeShowsWhatWasRecorded compares every number with the record.
func TestAnEpisodeShowsWhatWasRecorded(t *testing.T) {
	f, s := viewed(t, 1)
	for _, e := range f.episodes[1] {
		a := s.episode(t, fmt.Sprintf("train/1/%d-%d", e.Group, e.Index))
		require.Len(t, a.Turns, len(e.Turns))
		for k, turn := range e.Turns {
			got := a.Turns[k]
			require.Equal(t, turn.Observation.Text, got.Observation)
			require.Equal(t, turn.Response, got.Response)
			require.Len(t, got.Images, len(turn.Observation.Images))
			for i, address := range got.Images {
				require.NotNil(t, address)
				answer, err := http.Get(s.URL + *address)
				require.NoError(t, err)
				im, err := png.Decode(answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, "image/png", answer.Header.Get("Content-Type"))
				require.Equal(t, store.ImageName(turn.Observation.Images[i]), store.ImageName(im))
			}
		}
		require.Len(t, a.Rows, len(e.Rows))
		for i := range e.Rows {
			row, got := &e.Rows[i], a.Rows[i]
			require.Equal(t, row.Tokens(), got.Tokens)
			var scores store.Scores
			for _, x := range f.scores[1] {
				if x.Group == e.Group && x.Index == e.Index && x.Row == i {
					scores = x
				}
			}
			written := row.Response(nil)
			turn := 0
			for p := range row.Pieces {
				want := turn
				if p.Kind == mask.Prompt {
					want = -1
				}
				if p.Kind == mask.Response {
					turn++
				}
				for at := p.Start; at < p.End; at++ {
					require.Equal(t, want, got.Turn[at])
				}
			}
			for name, x := range map[string][]float32{"old": scores.OldLogProbs, "value": scores.Values,
				"entropy": scores.Entropy, "reward": scores.Rewards,
				"advantage": scores.Advantages, "return": scores.Returns, "sampled": row.LogProbs} {
				require.Len(t, got.Columns[name], row.Len(), name)
				for at, y := range got.Columns[name] {
					if y != nil {
						require.Equal(t, x[at], *y, name)
					} else {
						require.True(t, !scores.Scored[at] || name == "sampled" && !written[at], "%s %d", name, at)
					}
				}
			}
			require.NotContains(t, got.Columns, "reference", "what was not computed is absent")
		}
		require.Len(t, a.Problems, 1)
		require.Contains(t, a.Problems[0], "no checkpoint with a tokenizer")
	}
	s.refused(t, 404, "/api/runs/r0/episode?key=train/1/99-0")
	s.refused(t, 404, "/api/runs/r0/episode?key=train/1/-9223372036854775808-4294967296")
	s.refused(t, 404, "/api/runs/r0/episode?key=train/9/0-0")
	s.refused(t, 400, "/api/runs/r0/episode?key=../../etc")
	s.refused(t, 404, "/api/runs/r7/episode?key=train/1/0-0")
	s.refused(t, 404, "/api/nothing")
}

// TestTheRunsOwnCreditIsTheRecordedOne, and other parameters give other numbers.
func TestTheRunsOwnCreditIsTheRecordedOne(t *testing.T) {
	f, s := viewed(t, 1)
	for _, sc := range f.scores[1] {
		key := fmt.Sprintf("train/1/%d-%d", sc.Group, sc.Index)
		own := s.credit(t, "estimator=bi_level_gae&key="+key)
		require.Empty(t, own.Problem)
		for i, x := range own.Rows[sc.Row].Advantage {
			require.Equal(t, sc.Advantages[i], *x)
			require.Equal(t, sc.Returns[i], *own.Rows[sc.Row].Return[i])
		}
		require.Len(t, own.Turns, 3)
		require.NotNil(t, own.Turns[0].Claim)
		other := s.credit(t, "estimator=bi_level_gae&high_level_gamma=0.1&whiten=0&key="+key)
		require.NotEqual(t, own, other)
		other = s.credit(t, "estimator=grpo&key="+key)
		require.Empty(t, other.Problem, "the whole group is read")
	}
	none := s.credit(t, "estimator=remax&key=train/1/0-0")
	require.Contains(t, none.Problem, "greedy")
	for _, bad := range []string{"estimator=x", "estimator=gae&gamma=x", "estimator=gae&whiten=2",
		"estimator=gae&pass_k=1.5"} {
		s.refused(t, 400, "/api/runs/r0/credit?key=train/1/0-0&"+bad)
	}
	none = s.credit(t, "key=train/1/0-0&estimator=bi_level_gae&gamma=7")
	require.Contains(t, none.Problem, "gamma", "an estimator refuses a parameter")
}

func TestMeasuredCreditIsServedWhereItExists(t *testing.T) {
	f, s := viewed(t, 1)
	s.refused(t, 404, "/api/runs/r0/measured?key=train/1/0-0")
	f.measured(t, 1, f.episodes[1][0])
	var m credit.Measured
	s.get(t, 200, "/api/runs/r0/measured?key=train/1/0-0", &m)
	require.Equal(t, 1, *m.Mistake)
	l := s.episodes(t, "limit=1")
	require.True(t, l.Episodes[0].Measured)
	f.write(t, "credit/train/1/0-1.json", `{"step":7}`)
	s.refused(t, 422, "/api/runs/r0/measured?key=train/1/0-1")

	// A rollback replaces the episodes of a step, but not what was measured.
	f.episodes[1][0].Turns[0].Response += " again"
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_1.parquet"), 1, f.episodes[1]))
	require.Contains(t, s.refused(t, 404, "/api/runs/r0/measured?key=train/1/0-0"), "are those of another episode")
	l = s.episodes(t, "limit=2")
	require.False(t, l.Episodes[0].Measured)
	require.True(t, l.Episodes[1].Measured, "the page shows why the result cannot be read")
}

// measured writes a result of measuring an episode of a step.
func (f *trained) measured(t *testing.T, step int, e *rollout.Trajectory) {
	t.Helper()
	var texts store.Texts
	for _, turn := range e.Turns {
		texts.Observations = append(texts.Observations, turn.Observation.Text)
		texts.Responses = append(texts.Responses, turn.Response)
	}
	f.write(t, fmt.Sprintf("credit/train/%d/%d-%d.json", step, e.Group, e.Index),
		fmt.Sprintf(`{"step":%d,"group":%d,"index":%d,"episode":%q,"length":3,
			"turns":[{"turn":1,"q":0.5,"v":null,"n":16,"decided":true}],"mistake":1}`,
			step, e.Group, e.Index, credit.EpisodeSum(texts)))
}

// TestEpisodesOfAMeasurementAreShown: episodes that a measurement played are in the list once
// they have a result, with images, tokens and estimators. A result of a step belongs to them,
// not to episodes that another policy played in that step.
func TestEpisodesOfAMeasurementAreShown(t *testing.T) {
	f, s := viewed(t, 2)
	step := credit.Step{Episodes: f.episodes[2], Scores: f.scores[2]}
	require.NoError(t, step.SavePlayed(f.dir, 1, nil))
	list := func(query string) (keys []string) {
		l := s.episodes(t, "limit=500&"+query)
		for _, e := range l.Episodes {
			if keys = append(keys, e.Key); e.Kind == "measured" {
				require.True(t, e.Measured && e.Scores, e.Key)
			} else {
				require.False(t, e.Measured, e.Key)
			}
		}
		return keys
	}
	require.Empty(t, list("kind=measured"), "there is no result")
	before := len(list(""))
	f.measured(t, 1, f.episodes[2][1])
	require.Equal(t, []string{"measured/1/0-1"}, list("kind=measured"))
	require.Len(t, list(""), before+1)
	var m credit.Measured
	s.get(t, 200, "/api/runs/r0/measured?key=measured/1/0-1", &m)
	require.Equal(t, 1, *m.Mistake)
	s.refused(t, 404, "/api/runs/r0/measured?key=train/1/0-1")

	d := s.episode(t, "measured/1/0-1")
	require.NotContains(t, strings.Join(d.Problems, " "), "not recorded")
	require.NotNil(t, d.Turns[0].Images[0])
	answer, err := http.Get(s.URL + *d.Turns[0].Images[0])
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 200, answer.StatusCode)
	played := s.credit(t, "estimator=grpo&key=measured/1/0-1")
	recorded := s.credit(t, "estimator=grpo&key=train/2/0-1")
	require.Empty(t, played.Problem, "the whole group is read")
	require.Equal(t, recorded, played)
	recorded = s.credit(t, "estimator=bi_level_gae&key=train/1/0-1")
	played = s.credit(t, "estimator=bi_level_gae&key=measured/1/0-1")
	require.NotEqual(t, recorded, played, "numbers of two steps with one number are kept apart")
	s.refused(t, 400, "/api/runs/r0/episodes?kind=other")
}

func TestEstimatorsListWhatTheyRead(t *testing.T) {
	_, s := viewed(t, 1)
	var a struct {
		Estimators []struct {
			Name, About string
			Params      []struct {
				Name, Kind   string
				Default, Max float64
			}
		}
	}
	s.get(t, 200, "/api/estimators", &a)
	names, kinds := map[string][]string{}, map[string]string{}
	for _, e := range a.Estimators {
		require.NotEmpty(t, e.About)
		for _, p := range e.Params {
			require.True(t, 0 <= p.Default && p.Default <= p.Max, "%s %s", e.Name, p.Name)
			kinds[p.Name] = p.Kind
			names[e.Name] = append(names[e.Name], p.Name)
		}
	}
	require.Equal(t, []string{"gamma", "lam", "high_level_gamma", "whiten"}, names["bi_level_gae"])
	require.Equal(t, []string{"epsilon", "norm_adv_by_std_in_grpo"}, names["grpo"])
	require.Equal(t, []string{"number", "whole", "whole", "flag", "flag", "flag", "flag", "flag"}, []string{
		kinds["gamma"], kinds["pass_k"], kinds["history_length"], kinds["whiten"], kinds["norm_adv_by_std_in_grpo"],
		kinds["normalize_distance"], kinds["base_group"], kinds["handle_zero_tail"],
	})
	require.Equal(t, []string{"high_level_gamma", "lambda_turn", "lambda_token", "bi_level_mix", "whiten"},
		names["trajectory_bi_level_gae"])
}

// lakeEpisode plays FrozenLake with a script that describes the state, truly or not.
func lakeEpisode(t *testing.T, group int, lie string) *rollout.Trajectory {
	t.Helper()
	o := frozenlake.DefaultOptions(env.Lite)
	o.RenderMode, o.PromptFormat, o.Prompt, o.DescribeHoles, o.ObservationReward, o.PredictionReward = env.Vision,
		"observe_predict", "brief", true, 0.05, 0.05
	e, err := frozenlake.New(o)
	require.NoError(t, err)
	defer e.Close()
	tr := &rollout.Trajectory{Episode: rollout.Episode{Env: "frozenlake", Seed: 3, Group: group, MaxTurns: 2,
		Config: map[string]any{
			"rules": "lite", "render_mode": "vision", "prompt": "brief", "prompt_format": "observe_predict",
			"describe_holes": true, "observation_reward": 0.05, "prediction_reward": 0.05,
		}}, End: rollout.EndMaxTurns}
	shown, err := e.Reset(t.Context(), 3)
	require.NoError(t, err)
	for range 2 {
		said := e.Describe() + lie
		text := "<think><observation>" + said +
			"</observation><prediction>goal up left</prediction></think><answer>Left</answer>"
		out, err := e.Step(t.Context(), text)
		require.NoError(t, err)
		tr.Turns = append(tr.Turns, rollout.Turn{Observation: shown, Response: text, Parsed: out.Response, Reward: out.Reward,
			Metrics: out.Turn})
		shown = out.Observation
	}
	return tr
}

// TestClaimsStandBesideTheTruth: the true state is computed again from seed and responses,
// and not shown if that gives other observations than those that were recorded.
func TestClaimsStandBesideTheTruth(t *testing.T) {
	f := trainRun(t, 1)
	lie, other := lakeEpisode(t, 0, " up"), lakeEpisode(t, 1, "")
	other.Seed = 4 // not what was played
	foreign := lakeEpisode(t, 2, "")
	foreign.Env = "maze"
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_2.parquet"), 2,
		[]*rollout.Trajectory{lie, other, foreign}))
	s := serveRuns(t, "", f.dir)
	a := s.episode(t, "train/2/0-0")
	for k, turn := range a.Turns {
		require.Len(t, turn.Claims, 2)
		c := turn.Claims[0]
		require.Equal(t, "grounding", c.Kind)
		require.Equal(t, c.Said, c.Truth+" up")
		require.Equal(t, lie.Turns[k].Metrics["observation_score"], *c.Score)
		require.InDelta(t, 2.0/3, *turn.Claims[1].Score, 1e-9)
		require.Equal(t, []string{"worldmodeling", "goal up left", "goal up right"},
			[]string{turn.Claims[1].Kind, turn.Claims[1].Said, turn.Claims[1].Truth})
	}
	a = s.episode(t, "train/2/1-0")
	require.Empty(t, a.Turns[0].Claims[0].Truth)
	require.Contains(t, strings.Join(a.Problems, " "), "shows something else in turn 0")
	a = s.episode(t, "train/2/2-0")
	require.Empty(t, a.Turns[0].Claims[0].Truth)
	require.Contains(t, strings.Join(a.Problems, " "), "cannot be computed again for maze")
}

// TestUnusableEpisodesAreListedWithTheirErrors, without the secrets in them.
func TestUnusableEpisodesAreListedWithTheirErrors(t *testing.T) {
	f := trainRun(t, 1)
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_2.parquet"), 2, []*rollout.Trajectory{{
		Episode: rollout.Episode{Env: "x"}, End: rollout.EndEnv, Err: errors.New("ask https://me:1234@host: no answer"),
	}}))
	s := serveRuns(t, "", f.dir)
	const want = "ask https://me:REDACTED@host: no answer"
	l := s.episodes(t, "step=2")
	require.Equal(t, want, l.Episodes[0].Error)
	l = s.episodes(t, "step=2&success=false")
	require.Zero(t, l.Total, "an unusable episode is neither a success nor a failure")
	l = s.episodes(t, "step=1")
	require.Empty(t, l.Episodes[0].Error)
	a := s.episode(t, "train/2/0-0")
	require.Equal(t, want, a.Error)
}

// TestEveryEnvironmentHasATruth: the state of a replayed episode is what the environment
// describes, and options that name files or services are refused.
func TestEveryEnvironmentHasATruth(t *testing.T) {
	const answer = "<think>x</think><observation>this</observation><prediction>that</prediction><answer>%s</answer>"
	f := trainRun(t, 1)
	var all []*rollout.Trajectory
	worlds := []struct {
		name, action string
		config       map[string]any
	}{
		{"blackjack", "Hit", nil},
		{"navigation", "moveahead", map[string]any{"prompt_format": "wm"}},
		{"primitive_skill", "pick(0,0,0)", nil},
		{"sokoban", "Up", map[string]any{"rules": "lite", "render_mode": "text", "prompt_format": "wm"}},
		{"navigation", "moveahead", map[string]any{"prompt_format": "wm", "task_dir": "/"}},
	}
	truths := map[string][]string{}
	for i, w := range worlds {
		e, err := builtin.Registry().New(w.name, w.config)
		if i == 4 { // recorded with files of another machine
			e, err = builtin.Registry().New(w.name, nil)
		}
		require.NoError(t, err)
		tr := &rollout.Trajectory{Episode: rollout.Episode{Env: w.name, Config: w.config, Seed: 1, Group: i, MaxTurns: 2},
			End: rollout.EndMaxTurns}
		shown, err := e.Reset(t.Context(), tr.Seed)
		require.NoError(t, err)
		for range 2 {
			text := fmt.Sprintf(answer, w.action)
			before := e.(env.Describer).Describe()
			require.NotEmpty(t, before, w.name)
			truths[fmt.Sprint(i)] = append(truths[fmt.Sprint(i)], before)
			out, err := e.Step(t.Context(), text)
			require.NoError(t, err)
			parsed := out.Response
			parsed.Sections = map[string]string{reward.SectionObservation: "this", reward.SectionPrediction: "that"}
			tr.Turns = append(tr.Turns, rollout.Turn{Observation: shown, Response: text, Parsed: parsed, Reward: out.Reward})
			if shown = out.Observation; out.Done {
				break
			}
		}
		all = append(all, tr)
	}
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_2.parquet"), 2, all))
	s := serveRuns(t, "", f.dir)
	for i, w := range worlds {
		a := s.episode(t, fmt.Sprintf("train/2/%d-0", i))
		if i == 4 {
			require.Contains(t, strings.Join(a.Problems, " "), "names a file or a service")
			continue
		}
		for k, turn := range a.Turns {
			require.Equal(t, truths[fmt.Sprint(i)][k], turn.Claims[0].Truth, "%s: %v", w.name, a.Problems)
		}
	}
}

// TestReadableValidationsAreListed: those of episodes/step_<n>, unless the complete ones
// are stored.
func TestReadableValidationsAreListed(t *testing.T) {
	f := trainRun(t, 1)
	dir := filepath.Join(f.dir, "episodes", "step_10")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, store.WriteEpisode(dir, "episode_0_", lakeEpisode(t, 0, "")))
	f.write(t, "episodes/step_10/episode_1.json", `{"env":`)
	s := serveRuns(t, "", f.dir)
	l := s.episodes(t, "kind=val&text=goal")
	require.Equal(t, 1, l.Total)
	require.Equal(t, "val/10/0-0", l.Episodes[0].Key)
	a := s.episode(t, "val/10/0-0")
	require.Len(t, a.Turns, 2)
	require.Empty(t, a.Rows)
	require.Contains(t, strings.Join(a.Problems, " "), "without tokens")
	answer, err := http.Get(s.URL + *a.Turns[0].Images[0])
	require.NoError(t, err)
	defer answer.Body.Close()
	_, err = png.Decode(answer.Body)
	require.NoError(t, err)
	r := s.runs(t)
	require.Len(t, r.Runs[0].Problems, 1)
	require.Contains(t, r.Runs[0].Problems[0], "episode_1.json of step 10 cannot be read")
	u, err := url.Parse(*a.Turns[0].Images[0])
	require.NoError(t, err)
	require.Equal(t, "shown", u.Query().Get("kind"))
}

// TestEveryFileOfThePageHasItsType: browsers refuse others, because of nosniff.
func TestEveryFileOfThePageHasItsType(t *testing.T) {
	h := handlerOf(t, "", trainRun(t, 1).dir)
	files, err := os.ReadDir("static")
	require.NoError(t, err)
	want := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, file := range files {
		a := ask(h, http.MethodGet, "/"+file.Name(), nil)
		require.Equal(t, 200, a.StatusCode, file.Name())
		require.NotEmpty(t, want[filepath.Ext(file.Name())], file.Name())
		require.Equal(t, want[filepath.Ext(file.Name())], a.Header.Get("Content-Type"))
	}
	require.Equal(t, "text/html; charset=utf-8", ask(h, http.MethodGet, "/", nil).Header.Get("Content-Type"))
}
