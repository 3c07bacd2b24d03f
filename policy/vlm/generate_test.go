package vlm

import (
	"context"
	"image"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/tokenizer"
)

// rowDrift bounds how much other rows of a batch may change a log-prob: they change the
// order in which products are summed, and a log-prob of the tiny models is a sum of some
// hundred float32 numbers of size 1 to 10.
const rowDrift = 3e-5

// asks are four prompts: short, long, with an image, with two.
func asks() []policy.Prompt {
	return []policy.Prompt{
		{Conversation: 1, Messages: say("go left"), Seed: 11},
		{Conversation: 2, Messages: say("look <image> and <image>", drawing(1, 24, 16), drawing(2, 8, 8)), Seed: 12},
		{Conversation: 3, Messages: say("where is the goal, and what is in the box?"), Seed: 13},
		{Conversation: 4, Messages: say("<image>", drawing(3, 16, 16)), Seed: 14},
	}
}

func keysOf(prompts []policy.Prompt) (keys []uint64) {
	for _, p := range prompts {
		keys = append(keys, p.Conversation)
	}
	return keys
}

// ask generates for prompts in one call after another, forgets, and returns the
// completions by conversation.
func ask(t *testing.T, m *Model, o policy.Sampling, calls ...[]policy.Prompt) map[uint64]policy.Completion {
	t.Helper()
	out := map[uint64]policy.Completion{}
	for _, prompts := range calls {
		got, err := m.Generate(t.Context(), prompts, o)
		require.NoError(t, err)
		for i, p := range prompts {
			require.NoError(t, got[i].Err)
			out[p.Conversation] = got[i]
		}
	}
	for key := range out {
		m.Forget(key)
	}
	return out
}

func TestResponsesDependOnTheirConversationAndSeedAlone(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	o := policy.Sampling{Temperature: 1, MaxTokens: 12}
	p := asks()
	alone := ask(t, m, o, p[:1], p[1:2], p[2:3], p[3:])
	for name, calls := range map[string][][]policy.Prompt{
		"together":     {p},
		"backwards":    {{p[3], p[2], p[1], p[0]}},
		"in two calls": {{p[2], p[0]}, {p[1], p[3]}},
		"again":        {p},
	} {
		for key, c := range ask(t, m, o, calls...) {
			want := alone[key]
			require.Equal(t, want.Tokens, c.Tokens, "%s: conversation %d", name, key)
			require.Equal(t, want.Context, c.Context)
			require.Equal(t, want.Text, c.Text)
			requireNear(t, want.LogProbs, c.LogProbs, rowDrift, name)
		}
	}
	m.gen.MaxRows = 2
	for key, c := range ask(t, m, o, p) {
		require.Equal(t, alone[key].Tokens, c.Tokens, "in batches of two")
	}
	p[0].Seed++
	require.NotEqual(t, alone[1].Tokens, ask(t, m, o, p[:1])[1].Tokens, "another seed")
}

// candidates are rows that continue a context by every token of the vocabulary.
// Only the last token of each is wanted.
func candidates(m *Model, context []int32, images []policy.Image) (policy.Rows, []bool) {
	rows := policy.Rows{Offsets: []int{0}}
	var want []bool
	for id := range m.cfg.Text.Vocab {
		if m.cfg.Vision != nil && int32(id) == m.cfg.ImageToken {
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
	m := newTiny(t, model.Qwen25VL, Options{})
	greedy := ask(t, m, policy.Sampling{MaxTokens: 6}, asks())
	for _, key := range []uint64{1, 4} { // without and with an image
		c := greedy[key]
		logProbs := distribution(t, m, c.Context, c.Images, 1)
		require.LessOrEqual(t, slices.Max(logProbs), logProbs[c.Tokens[0]]+rowDrift, "conversation %d", key)
		require.Greater(t, slices.Max(logProbs), slices.Min(logProbs)+1, "there is something to choose")
		require.InDelta(t, logProbs[c.Tokens[0]], c.LogProbs[0], rowDrift)
	}
	// Each of these restrictions leaves only the most probable token.
	for name, o := range map[string]policy.Sampling{
		"top-k": {Temperature: 2, TopK: 1, MaxTokens: 6},
		"top-p": {Temperature: 2, TopP: 1e-6, MaxTokens: 6},
		"min-p": {Temperature: 2, MinP: 0.9999, MaxTokens: 6},
	} {
		for key, c := range ask(t, m, o, asks()) {
			require.Equal(t, greedy[key].Tokens, c.Tokens, "%s: conversation %d", name, key)
		}
	}
}

func TestReportedLogProbsAreThoseOfThePlainSoftmaxAtTheTemperature(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	const temperature = 0.7
	played := stories{}
	played.play(t, m, asks(), policy.Sampling{Temperature: temperature, TopK: 5, TopP: 0.8, MaxTokens: 8})
	played.requireScored(t, m, temperature)
}

// requireScored compares the log-probs reported by Generate with those of one pass over
// each conversation's row.
func (s stories) requireScored(t *testing.T, m *Model, temperature float64) {
	t.Helper()
	rows, written, logProbs := s.rows(sortedKeys(s))
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

func TestResponsesStopWhereTheyMust(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	o := policy.Sampling{MaxTokens: 8}
	free := ask(t, openTiny(t, dir, Options{}), o, asks()[:1])[1]
	require.Equal(t, policy.StopLength, free.Stop)
	require.Len(t, free.Tokens, 8)
	require.Len(t, free.LogProbs, 8)

	t.Run("limit of the prompt", func(t *testing.T) {
		p := asks()
		p[0].MaxTokens = 3
		got := ask(t, openTiny(t, dir, Options{}), o, p)
		require.Equal(t, free.Tokens[:3], got[1].Tokens)
		require.Len(t, got[2].Tokens, 8)
	})
	t.Run("any end token of the config", func(t *testing.T) {
		end := free.Tokens[4]
		first := slices.Index(free.Tokens, end)
		dir := tinyFolder(t, model.Qwen25VL, object{"eos_token_id": []int32{270, end}})
		got := ask(t, openTiny(t, dir, Options{}), o, asks()[:1])[1]
		require.Equal(t, policy.StopEnd, got.Stop)
		require.Equal(t, free.Tokens[:first+1], got.Tokens, "the end token is part of the response")
		require.Len(t, got.LogProbs, first+1)
		require.Equal(t, tinyTokenizer(t).Decode(got.Tokens[:first], tokenizer.KeepSpecial), got.Text, "but not of its text")
	})
	t.Run("never with a placeholder", func(t *testing.T) {
		pad := free.Tokens[2]
		first := slices.Index(free.Tokens, pad)
		m := openTiny(t, tinyFolder(t, model.Qwen25VL, object{"video_token_id": pad}), Options{})
		got := ask(t, m, o, asks()[:1])[1]
		require.Equal(t, policy.StopLength, got.Stop)
		require.Equal(t, free.Tokens[:first], got.Tokens[:first])
		require.NotContains(t, got.Tokens, pad, "which is the best token")
	})
}

func TestBadPromptsAffectOnlyTheirConversation(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	good := asks()[2]
	pad := m.text.Tok.Decode([]int32{m.cfg.ImageToken}, tokenizer.KeepSpecial)
	for name, c := range map[string]struct {
		messages []policy.Message
		want     string
	}{
		"more marks than images":    {say("<image> <image>", drawing(1, 8, 8)), "2 marks"},
		"more images than marks":    {say("no mark", drawing(1, 8, 8)), "0 marks"},
		"a mark without an image":   {say("<image>"), "1 marks"},
		"a placeholder in the text": {say("see " + pad), "is the image placeholder"},
		"placeholder and image":     {say(pad+"<image>", drawing(1, 8, 8)), "is the image placeholder"},
		"an empty image":            {say("<image>", image.NewRGBA(image.Rect(0, 0, 0, 0))), "image 0"},
		"no image at all":           {say("<image><image>", drawing(1, 8, 8), nil), "image 1 is nil"},
		"an image much too long":    {say("<image>", image.NewGray(image.Rect(0, 0, 3000, 2))), "image 0"},
		"a role that is not known":  {[]policy.Message{{Role: "judge", Text: "x"}}, "judge"},
	} {
		got, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 7, Messages: c.messages}, good}, policy.Sampling{MaxTokens: 3})
		require.NoError(t, err, name)
		require.ErrorContains(t, got[0].Err, c.want, name)
		require.Empty(t, got[0].Tokens, name)
		require.NoError(t, got[1].Err, name)
		require.Len(t, got[1].Tokens, 3, name)
		require.NotContains(t, m.gen.Chats, uint64(7), name)
		m.Forget(good.Conversation)
	}
}

func TestTextModelsRefuseImages(t *testing.T) {
	m := newTiny(t, model.Qwen3, Options{})
	got, err := m.Generate(t.Context(), asks(), policy.Sampling{MaxTokens: 3})
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.ErrorContains(t, got[1].Err, "no vision tower")
	require.NoError(t, got[2].Err)
	require.ErrorContains(t, got[3].Err, "no vision tower")
}

func TestSamplingSettingsAreChecked(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	nan := math.NaN()
	for want, o := range map[string]policy.Sampling{
		"temperature is -1":         {Temperature: -1, MaxTokens: 1},
		"temperature is 1e-50":      {Temperature: 1e-50, MaxTokens: 1},
		"temperature is NaN":        {Temperature: nan, MaxTokens: 1},
		"temperature is +Inf":       {Temperature: math.Inf(1), MaxTokens: 1},
		"top-k is -2":               {TopK: -2, MaxTokens: 1},
		"top-p is 1.5":              {TopP: 1.5, MaxTokens: 1},
		"top-p is NaN":              {TopP: nan, MaxTokens: 1},
		"min-p is 1":                {MinP: 1, MaxTokens: 1},
		"min-p is NaN":              {MinP: nan, MaxTokens: 1},
		"stop string 1 is empty":    {MaxTokens: 1, StopStrings: []string{"a", ""}},
		"the response may have 0":   {},
		"the response may have -3 ": {MaxTokens: -3},
	} {
		_, err := m.Generate(t.Context(), asks()[:1], o)
		require.ErrorContains(t, err, want)
	}
	twice := []policy.Prompt{asks()[0], asks()[2], asks()[0]}
	_, err := m.Generate(t.Context(), twice, policy.Sampling{MaxTokens: 1})
	require.ErrorContains(t, err, "prompts 0 and 2 continue the same conversation, 1")
	require.Empty(t, m.gen.Chats)
}

// countdown is a context that ends after its error has been read a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}
