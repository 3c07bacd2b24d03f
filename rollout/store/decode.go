package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"image"

	"vagen/env"
	"vagen/internal/jsontext"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// decode converts a record to a trajectory; fetch reads an image by its name.
func decode(r *record, fetch func(name string) (image.Image, error)) (s Stored, err error) {
	config, err := decodeConfig(r.Config)
	if err != nil {
		return s, err
	}
	t := &rollout.Trajectory{
		Episode: rollout.Episode{Env: r.Env, Config: config, Seed: r.Seed, Group: int(r.Group), Index: int(r.Index),
			MaxTurns: int(r.MaxTurns)},
		Metrics: metrics(r.Metrics), Success: r.Success, End: rollout.End(r.End), Attempt: int(r.Attempt),
	}
	if r.Error != "" {
		t.Err = errors.New(r.Error)
	}
	for i := range r.Rows {
		row, err := decodeRow(&r.Rows[i], fetch)
		if err != nil {
			return s, fmt.Errorf("row %d: %w", i, err)
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range r.Turns {
		turn, err := decodeTurn(&r.Turns[i], len(r.Rows), fetch)
		if err != nil {
			return s, fmt.Errorf("turn %d: %w", i, err)
		}
		t.Turns = append(t.Turns, turn)
	}
	return Stored{int(r.Step), t}, nil
}

func decodeTurn(r *turn, rows int, fetch func(string) (image.Image, error)) (rollout.Turn, error) {
	p := &r.Parsed
	t := rollout.Turn{
		Row: int(r.Row), Observation: env.Observation{Text: r.Observation}, Cut: r.Cut, Response: r.Response,
		Stop: policy.Stop(r.Stop), Version: int(r.Version),
		Parsed: reward.Response{Raw: p.Raw, FormatCorrect: p.FormatCorrect, Dropped: int(p.Dropped),
			BoxedAnswer: p.BoxedAnswer},
		Metrics: metrics(r.Metrics),
	}
	if r.Row < 0 || r.Row > 0 && r.Row >= int64(rows) { // demonstrations and tests may have turns without rows
		return t, fmt.Errorf("%w: its row index is %d, the episode has %d rows", ErrFormat, r.Row, rows)
	}
	if len(p.Actions) > 0 {
		t.Parsed.Actions = p.Actions
	}
	for _, s := range p.Sections {
		if t.Parsed.Sections == nil {
			t.Parsed.Sections = map[string]string{}
		}
		t.Parsed.Sections[s.Name] = s.Text
	}
	for _, part := range r.Reward {
		t.Reward = append(t.Reward, reward.Part(part))
	}
	for i, name := range r.Images {
		im, err := fetch(name)
		if err != nil {
			return t, fmt.Errorf("image %d: %w", i, err)
		}
		t.Observation.Images = append(t.Observation.Images, im)
	}
	return t, nil
}

func decodeRow(r *row, fetch func(string) (image.Image, error)) (rollout.Row, error) {
	out := rollout.Row{Summary: r.Summary}
	if len(r.LogProbs) != len(r.Tokens) {
		return out, fmt.Errorf("%w: %d log-probs for %d tokens, the numbers must be equal", ErrFormat, len(r.LogProbs),
			len(r.Tokens))
	}
	if len(r.LogProbs) > 0 {
		out.LogProbs = r.LogProbs
	}
	if err := fillSequence(&out.Sequence, r); err != nil {
		return out, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for i, p := range r.Images {
		im := policy.Image{}
		if n, err := hex.Decode(im.Hash[:], []byte(p.Hash[:min(len(p.Hash), 64)])); err != nil || n != len(im.Hash) ||
			len(p.Hash) != 64 {
			return out, fmt.Errorf("image %d: %w: the hash %q is not 64 hexadecimal digits", i, ErrFormat, p.Hash)
		}
		if p.Name != "" {
			var err error
			if im.Image, err = fetch(p.Name); err != nil {
				return out, fmt.Errorf("image %d: %w", i, err)
			}
		}
		out.Images = append(out.Images, im)
	}
	return out, nil
}

// fillSequence appends the recorded pieces and spans, by the rules of package mask.
func fillSequence(s *mask.Sequence, r *row) error {
	at := 0
	for i, p := range r.Pieces {
		if p.Length < 1 || p.Length > int64(len(r.Tokens)-at) {
			return fmt.Errorf("piece %d has %d tokens, must be in [1, %d]", i, p.Length, len(r.Tokens)-at)
		}
		tokens := r.Tokens[at : at+int(p.Length)]
		at += len(tokens)
		var err error
		switch p.Kind {
		case mask.Prompt.String():
			err = s.AppendContext(mask.Prompt, tokens...)
		case mask.Observation.String():
			err = s.AppendContext(mask.Observation, tokens...)
		case mask.Response.String():
			err = s.AppendResponse(tokens...)
		case summaryPiece:
			err = s.AppendSummary(tokens...)
		default:
			err = fmt.Errorf("the kind %q is not one of prompt, observation, response and summary", p.Kind)
		}
		if err != nil {
			return fmt.Errorf("piece %d: %w", i, err)
		}
	}
	if at != len(r.Tokens) {
		return fmt.Errorf("the pieces have %d tokens in total, the row has %d", at, len(r.Tokens))
	}
	for i, p := range r.Spans {
		if p.Start < 0 || p.Length < 1 || p.Start > int64(at) || p.Length > int64(at) {
			return fmt.Errorf("span %d starts at %d with %d tokens, must lie in the %d tokens of the row", i, p.Start, p.Length,
				at)
		}
		if err := s.AddSpan(p.Name, int(p.Start), int(p.Start+p.Length)); err != nil {
			return fmt.Errorf("span %d: %w", i, err)
		}
	}
	return nil
}

func metrics(vs []value) env.Metrics {
	if len(vs) == 0 {
		return nil
	}
	out := env.Metrics{}
	for _, v := range vs {
		out[v.Name] = v.Value
	}
	return out
}

// decodeConfig reads options, with the types of numbers that YAML gives.
func decodeConfig(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	out, err := jsontext.Tree[map[string]any](text, jsontext.Whole)
	if err != nil {
		return nil, fmt.Errorf("config: %w: %w", ErrFormat, err)
	}
	return out, nil
}
