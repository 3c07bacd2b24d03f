package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vagen/env"
	"vagen/internal/floats"
	"vagen/internal/redact"
	"vagen/mask"
	"vagen/rollout"
)

// encode converts a trajectory to a record; keep stores an image and returns its name.
func encode(step int, t *rollout.Trajectory, keep func(image.Image) (string, error)) (record, error) {
	if t == nil {
		return record{}, errors.New("it is nil")
	}
	config, err := encodeConfig(t.Config)
	if err != nil {
		return record{}, err
	}
	r := record{
		Step: int64(step), Env: t.Env, Config: config, Seed: t.Seed, Group: int64(t.Group), Index: int64(t.Index),
		MaxTurns: int64(t.MaxTurns),
		End:      string(t.End), Success: t.Success, Attempt: int64(t.Attempt), Metrics: values(t.Metrics),
	}
	if t.Err != nil {
		r.Error = redact.Text(t.Err.Error())
	}
	for i := range t.Turns {
		turn, err := encodeTurn(&t.Turns[i], keep)
		if err != nil {
			return r, fmt.Errorf("turn %d: %w", i, err)
		}
		r.Turns = append(r.Turns, turn)
	}
	for i := range t.Rows {
		row, err := encodeRow(&t.Rows[i], keep)
		if err != nil {
			return r, fmt.Errorf("row %d: %w", i, err)
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

func encodeTurn(t *rollout.Turn, keep func(image.Image) (string, error)) (turn, error) {
	p := &t.Parsed
	out := turn{
		Row: int64(t.Row), Observation: t.Observation.Text, Cut: t.Cut, Response: t.Response, Stop: string(t.Stop),
		Version: int64(t.Version), Metrics: values(t.Metrics),
		Parsed: parsed{Raw: p.Raw, FormatCorrect: p.FormatCorrect, Actions: p.Actions, Dropped: int64(p.Dropped),
			BoxedAnswer: p.BoxedAnswer},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Sections)) {
		out.Parsed.Sections = append(out.Parsed.Sections, section{name, p.Sections[name]})
	}
	for _, part := range t.Reward {
		out.Reward = append(out.Reward, value(part))
	}
	for i, im := range t.Observation.Images {
		name, err := keep(im)
		if err != nil {
			return out, fmt.Errorf("image %d: %w", i, err)
		}
		out.Images = append(out.Images, name)
	}
	return out, nil
}

func encodeRow(r *rollout.Row, keep func(image.Image) (string, error)) (row, error) {
	out := row{Tokens: r.Tokens(), LogProbs: r.LogProbs, Summary: r.Summary}
	if n := len(r.LogProbs); n != r.Len() {
		return out, fmt.Errorf("%d log-probs for %d tokens, the numbers must be equal", n, r.Len())
	}
	for p := range r.Pieces {
		kind := p.Kind.String()
		if p.Kind == mask.Response && p.End == r.Len() && r.EndsWithSummary() {
			kind = summaryPiece
		}
		out.Pieces = append(out.Pieces, piece{kind, int64(p.End - p.Start)})
	}
	for s := range r.Spans {
		out.Spans = append(out.Spans, span{s.Name, int64(s.Start), int64(s.End - s.Start)})
	}
	for i, im := range r.Images {
		p := picture{Hash: hex.EncodeToString(im.Hash[:])}
		if im.Image != nil {
			var err error
			if p.Name, err = keep(im.Image); err != nil {
				return out, fmt.Errorf("image %d: %w", i, err)
			}
		}
		out.Images = append(out.Images, p)
	}
	return out, nil
}

// values lists metrics in the order of their names.
func values(m env.Metrics) (out []value) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, value{name, m[name]})
	}
	return out
}

// encodeConfig writes options as JSON with secrets redacted. Floats keep a decimal
// point, so that they are read back as floats.
func encodeConfig(config map[string]any) (string, error) {
	if len(config) == 0 {
		return "", nil
	}
	return optionsJSON(redact.Value("config", config))
}

func optionsJSON(config any) (string, error) {
	raw, err := json.Marshal(withDecimalPoint(config))
	if err != nil {
		return "", fmt.Errorf("config: %w", err)
	}
	return string(raw), nil
}

// withDecimalPoint adds a decimal point to floats without a fraction.
func withDecimalPoint(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			out[key] = withDecimalPoint(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = withDecimalPoint(x)
		}
		return out
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !floats.Finite(v) {
			return v // which JSON refuses
		}
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return json.Number(text)
	}
	return v
}
