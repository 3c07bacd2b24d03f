package engine

import (
	"encoding/json"
	"image"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/testkit"
	"vagen/policy"
)

// Score makes up log-probs that depend on the tokens before and the weights. Half of the prompt's tokens are among
// the likeliest ones.
func (f *fake) Score(j enginestub.Job, top int) (out enginestub.Scores, err error) {
	h := uint64(len(j.Weights))
	for _, id := range j.Tokens {
		lp := -1 - float32(h%1000)/500
		var ids []int32
		var lps []float32
		for k := range top {
			ids, lps = append(ids, int32((h+uint64(7*k))%plain)), append(lps, -0.5-float32(h%97)/1000-float32(k)/8)
		}
		if k := slices.Index(ids, id); k >= 0 {
			lp = lps[k]
		} else if top > 0 && h%2 == 0 {
			ids[top-1], lp = id, lps[top-1]
		} else if top > 0 {
			lp = lps[top-1] - 1
		}
		out.LogProbs, out.Top, out.TopLogProbs = append(out.LogProbs, lp), append(out.Top, ids), append(out.TopLogProbs, lps)
		h = h*1099511628211 ^ uint64(id)
	}
	return out, nil
}

// scoredRows are rows of conversations with and without images, and the tokens of their responses.
func scoredRows(t *testing.T, f *Fleet) (rows *policy.Rows, want []bool) {
	rows = &policy.Rows{Offsets: []int{0}}
	add := func(tokens []int32, images []policy.Image, scored int) {
		rows.Tokens, rows.Images = append(rows.Tokens, tokens...), append(rows.Images, images)
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		want = append(want, make([]bool, len(tokens)-scored)...)
		want = append(want, slices.Repeat([]bool{true}, scored)...)
	}
	add([]int32{5, 6, 7}, nil, 3) // the first token cannot be scored
	for i, q := range []policy.Prompt{opening(1, "go left"), opening(2, "look", drawn(96, 96, 10), drawn(130, 57, 20))} {
		c := ask(t, NewPolicy(f), q)[0]
		require.NoError(t, c.Err)
		add(slices.Concat(c.Context, c.Tokens), c.Images, len(c.Tokens)-i)
	}
	add([]int32{8, 9}, nil, 0) // nothing is wanted
	return rows, want
}

// TestRowsAreScored by both kinds of servers, with images, and although servers fail: as the model says.
func TestRowsAreScored(t *testing.T) {
	for _, kind := range kinds {
		f, all := opened(t, kind, 2, func(o *Options) { o.Attempts, o.EjectAfter = 40, 2 })
		rows, want := scoredRows(t, f)
		for _, s := range all {
			s.SetFaults(enginestub.Faults{Error: 0.15, Reset: 0.15, Garbage: 0.15, Abort: 0.1})
		}
		for _, top := range []int{0, 3} {
			got, err := f.Score(t.Context(), rows, want, top)
			require.NoError(t, err)
			for row := range rows.Len() {
				from, to := rows.Offsets[row], rows.Offsets[row+1]
				model, err := (&fake{codec: f.codec}).Score(enginestub.Job{Tokens: rows.Tokens[from:to]}, top)
				require.NoError(t, err)
				for i := range to - from {
					at := from + i
					if !want[at] || i == 0 {
						require.Zero(t, got.Reference[at])
						require.True(t, slices.Equal(make([]int32, top), got.Chosen[at*top:][:top]))
						continue
					}
					require.Equal(t, model.LogProbs[i], got.Reference[at], "%s, row %d, token %d", kind, row, i)
					for k := range top {
						require.Equal(t, model.Top[i][k], got.Chosen[at*top+k], "%s, row %d, token %d", kind, row, i)
						require.Equal(t, model.TopLogProbs[i][k], got.Teacher[at*top+k])
					}
				}
			}
		}
		require.Positive(t, f.Gauges()["engine_retries"])
	}
}

// TestScoresThatCannotBeUsedAreErrors, which name the row, and what helps.
func TestScoresThatCannotBeUsedAreErrors(t *testing.T) {
	for _, kind := range kinds {
		f, all := opened(t, kind, 1, func(o *Options) { o.Attempts = 2 })
		rows := &policy.Rows{Offsets: []int{0, 3}, Tokens: []int32{1, 2, 3}}
		want := []bool{false, true, true}
		_, err := f.Score(t.Context(), rows, want[:2], 1)
		testkit.Error(t, err, ErrOption, "2 marks for 3 tokens")
		_, err = f.Score(t.Context(), &policy.Rows{Offsets: []int{0, 4}, Tokens: rows.Tokens}, want, 1)
		testkit.Error(t, err, ErrOption, "row offsets must go from 0 to the number of tokens, 3")
		all[0].MaxTop = 2
		_, err = f.Score(t.Context(), rows, want, 5)
		testkit.Error(t, err, ErrRefused, "row 0: ")
		if kind == VLLM {
			require.ErrorContains(t, err, "start vLLM with --max-logprobs 5: ")
		}
		all[0].MaxTop = 0
		rows.Images = [][]policy.Image{{{Image: image.NewGray(image.Rect(0, 0, 28, 28))}}}
		_, err = f.Score(t.Context(), rows, want, 0)
		require.ErrorContains(t, err, "0 image placeholders for 1 images")
		rows.Images = nil
		for name, says := range map[string]string{
			"short": "likeliest tokens instead of token 1, 2 were requested", "outside": "must be in [0, ",
			"nan": "log-prob of token 1 of the row is missing",
		} {
			all[0].Model = &odd{fake{codec: f.codec}, name}
			_, err = f.Score(t.Context(), rows, want, 2)
			testkit.Error(t, err, ErrProtocol, says)
		}
		all[0].SetDown(true)
		f.opts.Outage = 1
		_, err = f.Score(t.Context(), rows, want, 0)
		require.Error(t, err, "no server is left")
	}
}

// odd is a model whose scores are wrong.
type odd struct {
	fake
	how string
}

func (o *odd) Score(j enginestub.Job, top int) (enginestub.Scores, error) {
	out, err := o.fake.Score(j, top)
	switch o.how {
	case "short":
		out.Top, out.TopLogProbs = make([][]int32, len(j.Tokens)), nil
	case "outside":
		out.Top[1][0] = int32(o.codec.text.Vocab)
	case "nan":
		out.LogProbs[1], out.Top[1] = 5, nil
	}
	return out, err
}

// TestRecordedScoresAreRead: vLLM's answers to requests for prompt_logprobs.
func TestRecordedScoresAreRead(t *testing.T) {
	o, cases, numbers := DefaultOptions(), 0, 0
	v := &vllm{wire: newWire(&o)}
	for _, e := range recorded(t) {
		var b struct {
			Token    []int32 `json:"token_ids"`
			Sampling struct {
				Score *int `json:"prompt_logprobs"`
			} `json:"sampling_params"`
		}
		if json.Unmarshal(e.Request.Body, &b) != nil || b.Sampling.Score == nil || b.Token == nil {
			continue
		}
		var a map[string]any
		require.NoError(t, json.Unmarshal(e.Response.Body, &a))
		a["prompt_token_ids"] = b.Token // was not asked for
		for _, c := range a["choices"].([]any) {
			c.(map[string]any)["logprobs"] = map[string]any{"content": []any{}}
		}
		body, err := json.Marshal(a)
		require.NoError(t, err)
		base, sent := answering(t, 200, body)
		want := slices.Repeat([]bool{true}, len(b.Token))
		want[0] = false
		r := &request{tokens: b.Token, prompt: b.Token, max: 1, vocab: 1408, scoring: &scoring{want: want}}
		got, err := v.generate(t.Context(), base, r)
		require.NoError(t, err, e.file)
		require.Contains(t, string(*sent), `"prompt_logprobs":0`)
		for i, x := range a["prompt_logprobs"].([]any)[1:] {
			require.Len(t, x, 1)
			for _, p := range x.(map[string]any) {
				require.Equal(t, float32(p.(map[string]any)["logprob"].(float64)), got.scored.Reference[i+1])
				numbers++
			}
		}
		cases++
	}
	t.Logf("golden: engine, scores: %d cases, %d comparisons", cases, numbers)
	require.Positive(t, cases)
}
