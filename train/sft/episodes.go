package sft

import (
	"context"
	"fmt"

	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
)

// readEpisodes reads recorded episodes. Those that are filtered out, or that cannot be used for
// training, are counted.
func (o *opener) readEpisodes(ctx context.Context, path string) ([]source, error) {
	r, err := store.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExample, err)
	}
	defer r.Close()
	var out []source
	i := -1
	for e, err := range r.All() { // also checks that every image exists
		if i++; ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: episode %d: %w", path, ErrExample, i, err)
		}
		if !o.learns(e.Trajectory) {
			o.filtered++
			continue
		}
		s := source{where: fmt.Sprintf("%s: episode %d", path, i)}
		for k := range e.Rows {
			row, err := recordedRow(&e.Rows[k], path, i, k)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: episode %d: row %d: %w", path, ErrExample, i, k, err)
			}
			row.where = fmt.Sprintf("%s, row %d", s.where, k)
			s.recorded = append(s.recorded, row)
		}
		if len(e.Turns) > 0 && o.response.text == "" && e.Turns[0].Stop == policy.StopEnd && len(e.Rows) > 0 {
			o.response = firstResponse(e.Trajectory, s.where)
		}
		if len(s.recorded) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// learns reports whether an episode passes the filters of the configuration.
func (o *opener) learns(t *rollout.Trajectory) bool {
	s := &o.config.SFT
	if !t.End.Usable() || s.Episodes == config.EpisodesSuccess && !t.Success {
		return false
	}
	return s.MinReturn == nil || t.Return() >= *s.MinReturn
}

// recordedRow returns a recorded conversation token by token as it was played.
func recordedRow(r *rollout.Row, path string, episode, index int) (row, error) {
	out := row{tokens: r.Tokens(), weight: make([]float32, r.Len())}
	for i, on := range r.Loss(nil, mask.Options{}) {
		if on {
			out.weight[i] = 1
		}
	}
	out.turn = r.TurnIndex(nil)
	if len(r.Images) == 0 {
		return out, nil
	}
	for i, im := range r.Images {
		if im.Image == nil {
			return out, fmt.Errorf("image %d is not stored: record episodes with trainer.log_image.enable", i)
		}
	}
	out.images = func() ([]policy.Image, error) {
		r, err := store.Open(path)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		e, err := r.At(episode)
		if err != nil {
			return nil, err
		}
		if index >= len(e.Rows) { // the file was replaced since
			return nil, fmt.Errorf("episode %d has %d rows, and row %d was read before", episode, len(e.Rows), index)
		}
		return e.Rows[index].Images, nil
	}
	return out, nil
}

// response is a recorded response with the tokens that it consists of, to compare tokenizers.
type response struct {
	where, text string
	tokens      []int32
}

func firstResponse(t *rollout.Trajectory, where string) response {
	r := &t.Rows[t.Turns[0].Row]
	from, to, ok := r.TurnAt(0)
	if !ok {
		return response{}
	}
	return response{where, t.Turns[0].Response, r.Tokens()[from:to]}
}

// check compares the text of a recorded response with the text that its tokens have with the
// tokenizer of an encoder. A sampled response need not consist of the tokens that its text is
// divided into, so the tokens are not compared.
func (r *response) check(encode policy.Encoder) error {
	a, ok := policy.As[policy.Aligner](encode)
	if r.text == "" || !ok {
		return nil
	}
	if ends := a.Ends(r.tokens); len(ends) > 1 && ends[len(ends)-2] != len(r.text) {
		return fmt.Errorf("%w: %s: with the model's tokenizer, the %d tokens of the first response have %d bytes of text, but the response has %d: the episodes were recorded with another tokenizer",
			ErrExample, r.where, len(r.tokens), ends[len(ends)-2], len(r.text))
	}
	return nil
}
