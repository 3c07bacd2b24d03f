package engine

import (
	"errors"
	"image"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// TestNothingIsTokenisedTwice: the contexts and responses of a conversation with images are
// one row, which the server read with one placeholder per image and returned complete.
func TestNothingIsTokenisedTwice(t *testing.T) {
	for _, kind := range kinds {
		f, all := opened(t, kind, 2, nil)
		p := NewPolicy(f)
		pictures := []image.Image{drawn(96, 96, 10), drawn(130, 57, 20), drawn(20, 20, 30)}
		var row []int32
		var images []policy.Image
		for turn := range 3 {
			q := following(9, "before <answer>", pictures[turn])
			if turn == 0 {
				q = opening(9, "start", pictures[turn])
			}
			counted, err := p.Count(q)
			require.NoError(t, err)
			c := ask(t, p, q)[0]
			require.NoError(t, c.Err)
			require.Len(t, c.Context, counted)
			require.Len(t, c.LogProbs, len(c.Tokens))
			require.Equal(t, policy.StopEnd, c.Stop)
			row, images = append(append(row, c.Context...), c.Tokens...), append(images, c.Images...)
		}
		require.Equal(t, p.chats[9].tokens, row)
		require.Len(t, images, 3)
		for i, im := range images {
			require.Equal(t, policy.HashImage(pictures[i]), im.Hash)
		}
		short, places, err := f.codec.collapse(row, p.chats[9].pictures)
		require.NoError(t, err)
		pads := 0
		for _, id := range short {
			if id == f.codec.image {
				pads++
			}
		}
		require.Equal(t, 3, pads)
		require.Len(t, places, 3)
		busy := 0
		for _, s := range all { // the turns of a conversation stay on one server
			calls := s.Calls()
			if calls["/inference/v1/generate"]+calls["/generate"] > 1 { // one is that of Open
				busy++
			}
		}
		require.Equal(t, 1, busy)
	}
}

// TestResponsesDependOnTheSeedAlone: not on the server, the order or the company.
func TestResponsesDependOnTheSeedAlone(t *testing.T) {
	for _, kind := range kinds {
		one, _ := opened(t, kind, 1, nil)
		three, _ := opened(t, kind, 3, func(o *Options) { o.InFlight = 2 })
		prompts := repeat(40)
		want := ask(t, NewPolicy(one), prompts...)
		require.Equal(t, want, ask(t, NewPolicy(three), prompts...))
		again := NewPolicy(one)
		for i, q := range prompts[:5] {
			require.Equal(t, want[i], ask(t, again, q)[0])
		}
		q := prompts[0]
		q.Seed = ^q.Seed
		require.NotEqual(t, want[0].Tokens, ask(t, NewPolicy(one), q)[0].Tokens)
	}
}

// TestAServerGetsNoMoreThanItsShare: requests in flight are bounded per server, and spread.
func TestAServerGetsNoMoreThanItsShare(t *testing.T) {
	f, all := opened(t, VLLM, 4, func(o *Options) { o.InFlight = 5 })
	ask(t, NewPolicy(f), repeat(200)...)
	for _, s := range all {
		require.LessOrEqual(t, s.MostInFlight(), 5)
		require.Greater(t, s.Calls()["/inference/v1/generate"], 10)
	}
}

func TestAResponseEndsForTheReasonReported(t *testing.T) {
	f, _ := opened(t, VLLM, 1, nil)
	p := NewPolicy(f)
	q := opening(1, "x")
	q.MaxTokens = 4
	c := ask(t, p, q)[0]
	require.Equal(t, policy.StopLength, c.Stop)
	require.Len(t, c.Tokens, 4)
	full := ask(t, p, opening(2, "x"))[0]
	stop := f.codec.text.Tok.Decode(full.Tokens[2:3], false)
	out, err := NewPolicy(f).Generate(t.Context(), []policy.Prompt{opening(2, "x")},
		policy.Sampling{Temperature: 1, MaxTokens: 16, StopStrings: []string{stop}})
	require.NoError(t, err)
	require.Equal(t, policy.StopString, out[0].Stop)
	require.LessOrEqual(t, len(out[0].Tokens), 3)
	require.Equal(t, full.Tokens[:len(out[0].Tokens)], out[0].Tokens)
	require.Contains(t, out[0].Text, stop)
	// A conversation cut off goes on with the rest of the template.
	next := ask(t, p, following(1, "go on"))[0]
	_, end := f.codec.text.Chat.EndOfTurn()
	require.Equal(t, end, next.Context[0])
}

// TestAStopStringIsFoundAcrossTokens, also a short one beside a longer one that does not occur.
func TestAStopStringIsFoundAcrossTokens(t *testing.T) {
	c := checkpoint(t)
	tokens, err := c.text.Tok.Encode("go left, then right</answer> and naïve é up")
	require.NoError(t, err)
	for stop, want := range map[string]string{
		"</answer>": "go left, then right</answer>", "t, th": "go left, th", "g": "g", "ve é": "go left, then right</answer> and naïve é", "down": "",
	} {
		n := c.cut(tokens, []string{"no such end of a response", stop})
		text := c.text.Tok.Decode(tokens[:n], tokenizer.KeepSpecial)
		require.Equal(t, want != "", n > 0, stop)
		require.True(t, strings.HasPrefix(text, want), "%q: %q", stop, text)
		require.False(t, n > 0 && strings.Contains(c.text.Tok.Decode(tokens[:n-1], tokenizer.KeepSpecial), stop), stop)
	}
	require.Zero(t, c.cut(tokens, nil))
}

func TestAConversationWithoutRoomFailsAlone(t *testing.T) {
	f, _ := opened(t, VLLM, 1, nil)
	long := opening(1, "x")
	long.MaxTokens = 5000
	out := ask(t, NewPolicy(f), long, opening(2, "y"))
	require.ErrorIs(t, out[0].Err, policy.ErrNoRoom)
	require.NoError(t, out[1].Err)
}

// TestMessagesThatTheModelCannotReadFailAlone: a server may end at a placeholder of what it did not get.
func TestMessagesThatTheModelCannotReadFailAlone(t *testing.T) {
	f, all := opened(t, VLLM, 1, nil)
	calls := all[0].Calls()["/inference/v1/generate"]
	for _, text := range []string{"<|image_pad|>", "<|vision_start|><|video_pad|><|vision_end|>"} {
		p := NewPolicy(f)
		require.NoError(t, ask(t, p, opening(1, "x"))[0].Err)
		out := ask(t, p, following(1, text), opening(2, "y"))
		require.ErrorIs(t, out[0].Err, policy.ErrMessages, text)
		require.NoError(t, out[1].Err)
	}
	require.Equal(t, calls+4, all[0].Calls()["/inference/v1/generate"])
	out := ask(t, NewPolicy(f), opening(1, "", image.Image(nil)))
	require.ErrorIs(t, out[0].Err, policy.ErrMessages)
}

// TestRecordedConversationsContinue: a resumed one samples what the original did.
func TestRecordedConversationsContinue(t *testing.T) {
	f, _ := opened(t, SGLang, 1, nil)
	p := NewPolicy(f)
	first := ask(t, p, opening(1, "x", drawn(96, 96, 1)))[0]
	second := ask(t, p, following(1, "y"))[0]
	other := NewPolicy(f)
	require.NoError(t, other.Resume(policy.Recorded{Conversation: 1, Tokens: append(first.Context, first.Tokens...),
		Images: first.Images}))
	require.Equal(t, second, ask(t, other, following(1, "y"))[0])
	require.ErrorIs(t, other.Resume(policy.Recorded{Conversation: 1, Tokens: []int32{1}}), policy.ErrResume)
	require.ErrorIs(t, other.Resume(policy.Recorded{Conversation: 2, Tokens: []int32{f.codec.image}}), policy.ErrResume)
	require.ErrorIs(t, other.Resume(policy.Recorded{Conversation: 3, Tokens: []int32{-1}}), policy.ErrResume)
	other.Forget(1)
	require.Empty(t, other.chats)
}

func TestBadCallsAreRefused(t *testing.T) {
	f, _ := opened(t, VLLM, 1, nil)
	p := NewPolicy(f)
	for name, s := range map[string]policy.Sampling{
		"top-k": {TopK: -1, MaxTokens: 1}, "Thinking": {Thinking: policy.Thinking{Tokens: 3, Close: "x"}, MaxTokens: 9},
	} {
		_, err := p.Generate(t.Context(), repeat(1), s)
		testkit.Error(t, err, policy.ErrSampling, name)
	}
	_, err := p.Generate(t.Context(), repeat(1), policy.Sampling{})
	require.ErrorContains(t, err, "must be at least 1")
	_, err = p.Generate(t.Context(), append(repeat(1), repeat(1)...), policy.Sampling{MaxTokens: 1})
	require.ErrorContains(t, err, "same conversation")
	out := ask(t, p, policy.Prompt{Conversation: 7, Messages: []policy.Message{{Role: policy.User, Text: "<image>",
		Images: []image.Image{nil}}}})
	require.Error(t, out[0].Err)
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"Kind": func(o *Options) { o.Kind = "x" }, "Mixed": func(o *Options) { o.Mixed = "x" }, "Attempts": func(o *Options) {
			o.Attempts = 0
		},
		"InFlight": func(o *Options) { o.InFlight = 0 }, "EjectAfter": func(o *Options) { o.EjectAfter = 0 },
		"Timeout":  func(o *Options) { o.Timeout = 0 },
		"ProbeMax": func(o *Options) { o.ProbeMax = time.Nanosecond }, "empty": func(o *Options) { o.Addresses = nil },
		"twice":         func(o *Options) { o.Addresses = []string{"http://a:1", "http://a:1/"} },
		"credentials":   func(o *Options) { o.Addresses = []string{"http://user:hunter2@a:1"} },
		"query":         func(o *Options) { o.Addresses = []string{"http://a:1?x=1"} },
		"must be a URL": func(o *Options) { o.Addresses = []string{"a:1"} },
		"Key":           func(o *Options) { o.Key = "a b" },
	} {
		o := testOptions(VLLM, "http://127.0.0.1:1")
		change(&o)
		err := o.Check()
		testkit.Error(t, err, ErrOption, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
	o := testOptions(VLLM, "http://127.0.0.1:1")
	require.NoError(t, o.Check())
	require.False(t, errors.Is(o.Check(), ErrOption))
}
