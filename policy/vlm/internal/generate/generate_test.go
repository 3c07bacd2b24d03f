package generate_test

import (
	"image"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/tokenizer"
)

func TestResponsesDependOnTheirConversationAndSeedAlone(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	o := policy.Sampling{Temperature: 1, MaxTokens: 12}
	p := Asks()
	alone := Ask(t, m, o, p[:1], p[1:2], p[2:3], p[3:])
	for name, calls := range map[string][][]policy.Prompt{
		"together":     {p},
		"backwards":    {{p[3], p[2], p[1], p[0]}},
		"in two calls": {{p[2], p[0]}, {p[1], p[3]}},
		"again":        {p},
	} {
		for key, c := range Ask(t, m, o, calls...) {
			want := alone[key]
			require.Equal(t, want.Tokens, c.Tokens, "%s: conversation %d", name, key)
			require.Equal(t, want.Context, c.Context)
			require.Equal(t, want.Text, c.Text)
			RequireNear(t, want.LogProbs, c.LogProbs, Drift, name)
		}
	}
	m.Gen.MaxRows = 2
	for key, c := range Ask(t, m, o, p) {
		require.Equal(t, alone[key].Tokens, c.Tokens, "in batches of two")
	}
	p[0].Seed++
	require.NotEqual(t, alone[1].Tokens, Ask(t, m, o, p[:1])[1].Tokens, "another seed")
}

// candidates are rows that continue a context by every token of the vocabulary.
// Only the last token of each is wanted.
func candidates(m *Model, context []int32, images []policy.Image) (policy.Rows, []bool) {
	rows := policy.Rows{Offsets: []int{0}}
	var want []bool
	for id := range m.Cfg.Text.Vocab {
		if m.Cfg.Vision != nil && int32(id) == m.Cfg.ImageToken {
			id = 0 // a placeholder needs an image
		}
		rows.Tokens = append(append(rows.Tokens, context...), int32(id))
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
		rows.Images = append(rows.Images, images)
		want = append(append(want, make([]bool, len(context))...), true)
	}
	return rows, want
}

// distribution is the log-prob of every token after a context. That of the image
// placeholder is the one of token 0.
func distribution(t *testing.T, m *Model, context []int32, images []policy.Image, temperature float64) []float32 {
	t.Helper()
	rows, want := candidates(m, context, images)
	s, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true}, temperature)
	require.NoError(t, err)
	var out []float32
	for _, end := range rows.Offsets[1:] {
		out = append(out, s.LogProbs[end-1])
	}
	return out
}

func TestGreedyTakesTheMostLikelyToken(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	greedy := Ask(t, m, policy.Sampling{MaxTokens: 6}, Asks())
	for _, key := range []uint64{1, 4} { // without and with an image
		c := greedy[key]
		logProbs := distribution(t, m, c.Context, c.Images, 1)
		require.LessOrEqual(t, slices.Max(logProbs), logProbs[c.Tokens[0]]+Drift, "conversation %d", key)
		require.Greater(t, slices.Max(logProbs), slices.Min(logProbs)+1, "there is something to choose")
		require.InDelta(t, logProbs[c.Tokens[0]], c.LogProbs[0], Drift)
	}
	// Each of these restrictions leaves only the most probable token.
	for name, o := range map[string]policy.Sampling{
		"top-k": {Temperature: 2, TopK: 1, MaxTokens: 6},
		"top-p": {Temperature: 2, TopP: 1e-6, MaxTokens: 6},
		"min-p": {Temperature: 2, MinP: 0.9999, MaxTokens: 6},
	} {
		for key, c := range Ask(t, m, o, Asks()) {
			require.Equal(t, greedy[key].Tokens, c.Tokens, "%s: conversation %d", name, key)
		}
	}
}

func TestReportedLogProbsAreThoseOfThePlainSoftmaxAtTheTemperature(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	const temperature = 0.7
	played := Stories{}
	played.Play(t, m, Asks(), policy.Sampling{Temperature: temperature, TopK: 5, TopP: 0.8, MaxTokens: 8})
	requireScored(t, played, m, temperature)
}

func TestResponsesStopWhereTheyMust(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	o := policy.Sampling{MaxTokens: 8}
	free := Ask(t, Open(t, dir, Options{}), o, Asks()[:1])[1]
	require.Equal(t, policy.StopLength, free.Stop)
	require.Len(t, free.Tokens, 8)
	require.Len(t, free.LogProbs, 8)

	t.Run("limit of the prompt", func(t *testing.T) {
		p := Asks()
		p[0].MaxTokens = 3
		got := Ask(t, Open(t, dir, Options{}), o, p)
		require.Equal(t, free.Tokens[:3], got[1].Tokens)
		require.Len(t, got[2].Tokens, 8)
	})
	t.Run("any end token of the config", func(t *testing.T) {
		end := free.Tokens[4]
		first := slices.Index(free.Tokens, end)
		dir := Folder(t, model.Qwen25VL, Object{"eos_token_id": []int32{270, end}})
		got := Ask(t, Open(t, dir, Options{}), o, Asks()[:1])[1]
		require.Equal(t, policy.StopEnd, got.Stop)
		require.Equal(t, free.Tokens[:first+1], got.Tokens, "the end token is part of the response")
		require.Len(t, got.LogProbs, first+1)
		require.Equal(t, Tokenizer(t).Decode(got.Tokens[:first], tokenizer.KeepSpecial), got.Text, "but not of its text")
	})
	t.Run("never with a placeholder", func(t *testing.T) {
		pad := free.Tokens[2]
		first := slices.Index(free.Tokens, pad)
		m := Open(t, Folder(t, model.Qwen25VL, Object{"video_token_id": pad}), Options{})
		got := Ask(t, m, o, Asks()[:1])[1]
		require.Equal(t, policy.StopLength, got.Stop)
		require.Equal(t, free.Tokens[:first], got.Tokens[:first])
		require.NotContains(t, got.Tokens, pad, "which is the best token")
	})
}

func TestBadPromptsAffectOnlyTheirConversation(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	good := Asks()[2]
	pad := m.Text.Tok.Decode([]int32{m.Cfg.ImageToken}, tokenizer.KeepSpecial)
	for name, c := range map[string]struct {
		messages []policy.Message
		want     string
	}{
		"more marks than images":    {Say("<image> <image>", Drawing(1, 8, 8)), "2 marks"},
		"more images than marks":    {Say("no mark", Drawing(1, 8, 8)), "0 marks"},
		"a mark without an image":   {Say("<image>"), "1 marks"},
		"a placeholder in the text": {Say("see " + pad), "is the image placeholder"},
		"placeholder and image":     {Say(pad+"<image>", Drawing(1, 8, 8)), "is the image placeholder"},
		"an empty image":            {Say("<image>", image.NewRGBA(image.Rect(0, 0, 0, 0))), "image 0"},
		"no image at all":           {Say("<image><image>", Drawing(1, 8, 8), nil), "image 1 is nil"},
		"an image much too long":    {Say("<image>", image.NewGray(image.Rect(0, 0, 3000, 2))), "image 0"},
		"a role that is not known":  {[]policy.Message{{Role: "judge", Text: "x"}}, "judge"},
	} {
		got, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 7, Messages: c.messages}, good},
			policy.Sampling{MaxTokens: 3})
		require.NoError(t, err, name)
		require.ErrorContains(t, got[0].Err, c.want, name)
		require.Empty(t, got[0].Tokens, name)
		require.NoError(t, got[1].Err, name)
		require.Len(t, got[1].Tokens, 3, name)
		require.NotContains(t, m.Gen.Chats, uint64(7), name)
		m.Forget(good.Conversation)
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	_, err := m.Generate(t.Context(), Asks()[:1], policy.Sampling{TopK: -2, MaxTokens: 1})
	require.ErrorContains(t, err, "top-k is -2")
	twice := []policy.Prompt{Asks()[0], Asks()[2], Asks()[0]}
	_, err = m.Generate(t.Context(), twice, policy.Sampling{MaxTokens: 1})
	require.ErrorContains(t, err, "prompts 0 and 2 continue the same conversation, 1")
	require.Empty(t, m.Gen.Chats)
}

// On a CPU layers share the program that reads contexts, which does not depend on the number of pictures, and the
// cache is extended in place.
func TestPicturesAddNoProgramsOfLayers(t *testing.T) {
	t.Parallel()
	m := Open(t, Folder(t, model.Qwen3VL, nil), Options{})
	layers := func() (n int) {
		for name, p := range m.Net.Programs {
			require.False(t, strings.HasPrefix(name, "append open="), name)
			if strings.HasPrefix(name, "append layer") {
				n += p.Executables()
			}
		}
		return n
	}
	var before int
	for i, pictures := range []int{1, 2, 3} {
		var prompts []policy.Prompt
		for k := range uint64(4) {
			p := policy.Prompt{Conversation: 4*uint64(i) + k, Messages: Say("go left and then " + Words[k])}
			if int(k) < pictures {
				p.Messages = Say("<image>", Drawing(k, 8, 8))
			}
			prompts = append(prompts, p)
		}
		Ask(t, m, policy.Sampling{MaxTokens: 2}, prompts)
		if i == 0 {
			before = layers()
		}
		require.Equal(t, before, layers(), "%d pictures", pictures)
	}
	require.Positive(t, before)
}

// requireScored compares the log-probs reported by Generate with those of one pass over
// each conversation's row.
func requireScored(t testing.TB, s Stories, m policy.Learner, temperature float64) {
	t.Helper()
	rows, written, logProbs := s.Rows(s.Keys())
	scores, err := m.Score(t.Context(), &rows, written, policy.ScoreRequest{LogProbs: true}, temperature)
	require.NoError(t, err)
	n := 0
	for i, w := range written {
		if w {
			n++
			require.InDelta(t, scores.LogProbs[i], logProbs[i], 1e-4, "token %d", i)
		}
	}
	require.Positive(t, n)
}
