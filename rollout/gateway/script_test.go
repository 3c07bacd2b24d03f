package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// scripted is a policy without a model: a rune is a token, and the log-prob of a token depends on
// all tokens and images before it, so that any change of a row is found.
type scripted struct {
	next func(q policy.Prompt) string // the text of the next response

	mu    sync.Mutex
	chats map[uint64]*policy.Recorded
	most  int // longest row; 0 is no limit

	unreadable string // text that it cannot read

	chat *tokenizer.Chat // shows messages; nil shows their roles and texts
}

const endToken = 1

var _ policy.Resumer = (*scripted)(nil)

func tokens(text string) []int32 {
	var out []int32
	for _, r := range text {
		out = append(out, int32(r)+10)
	}
	return out
}

// logProb is that of the last token of a row.
func logProb(row []int32, images []policy.Image) float32 {
	h := fnv.New32a()
	for _, t := range row {
		h.Write([]byte{byte(t), byte(t >> 8), byte(t >> 16)})
	}
	for _, im := range images {
		h.Write(im.Hash[:])
	}
	return -float32(h.Sum32()%1000) / 250
}

func (s *scripted) Generate(_ context.Context, prompts []policy.Prompt, o policy.Sampling) ([]policy.Completion,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chats == nil {
		s.chats = map[uint64]*policy.Recorded{}
	}
	out := make([]policy.Completion, len(prompts))
	for i, q := range prompts {
		if s.cannotRead(q) {
			out[i].Err = policy.ErrMessages
			continue
		}
		c := s.chats[q.Conversation]
		if c == nil {
			c = &policy.Recorded{}
			s.chats[q.Conversation] = c
		}
		var context strings.Builder
		for _, m := range q.Messages {
			context.WriteString("[" + string(m.Role) + "]" + m.Text)
			for _, im := range m.Images {
				out[i].Images = append(out[i].Images, policy.Image{Hash: policy.HashImage(im), Image: im})
			}
		}
		a := &out[i]
		read, opened := context.String()+"[assistant]", ""
		if s.chat != nil {
			var err error
			if read, err = shownBy(s.chat, q.Messages, len(c.Tokens) == 0); err != nil {
				out[i] = policy.Completion{Err: fmt.Errorf("%w: %w", policy.ErrMessages, err)}
				continue
			}
			opened = s.chat.Opened()
		}
		a.Context = tokens(read)
		if s.most > 0 && len(c.Tokens)+len(a.Context) > s.most {
			*a = policy.Completion{Err: policy.ErrNoRoom}
			continue
		}
		c.Tokens, c.Images = append(c.Tokens, a.Context...), append(c.Images, a.Images...)
		a.Text, a.Stop = s.next(q), policy.StopEnd
		for _, stop := range q.StopStrings {
			if at := strings.Index(a.Text, stop); at >= 0 {
				a.Text, a.Stop = a.Text[:at+len(stop)], policy.StopString
			}
		}
		a.Tokens = tokens(strings.TrimPrefix(a.Text, opened))
		if a.Stop == policy.StopEnd {
			a.Tokens = append(a.Tokens, endToken)
		}
		for _, t := range a.Tokens {
			c.Tokens = append(c.Tokens, t)
			a.LogProbs = append(a.LogProbs, logProb(c.Tokens, c.Images))
		}
	}
	return out, nil
}

func (s *scripted) cannotRead(q policy.Prompt) bool {
	return s.unreadable != "" && strings.Contains(fmt.Sprint(q.Messages), s.unreadable)
}

// shownBy returns what a chat template shows of messages. It includes the end of the response before them.
func shownBy(chat *tokenizer.Chat, ms []policy.Message, opens bool) (text string, err error) {
	var all []tokenizer.Message
	for _, m := range ms {
		all = append(all, tokenizer.Text(string(m.Role), m.Text))
	}
	if opens {
		return chat.Open(all)
	}
	return chat.Continue(all, tokenizer.CutOff)
}

func (s *scripted) Forget(keys ...uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		delete(s.chats, k)
	}
}

func (s *scripted) Resume(all ...policy.Recorded) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if len(r.Tokens) == 0 {
			return errors.New("no tokens")
		}
		s.chats[r.Conversation] = &policy.Recorded{Tokens: slices.Clone(r.Tokens), Images: slices.Clone(r.Images)}
	}
	return nil
}

// text is what tokens say.
func text(ts []int32) string {
	var b []byte
	for _, t := range ts {
		if t != endToken {
			b = utf8.AppendRune(b, t-10)
		}
	}
	return string(b)
}
