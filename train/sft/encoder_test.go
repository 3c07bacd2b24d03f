package sft_test

import (
	"testing"

	"vagen/policy"
)

type harm func([]policy.Piece, []policy.Image) ([]policy.Piece, []policy.Image)

// faulty is an encoder whose result is wrong.
type faulty struct {
	letters
	harm harm
}

func (f faulty) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	pieces, images, err := f.letters.Encode(messages)
	pieces, images = f.harm(pieces, images)
	return pieces, images, err
}

func TestWrongResultsOfAnEncoderAreErrors(t *testing.T) {
	for want, harm := range map[string]harm{
		"returned 0 responses for 1 messages": func([]policy.Piece, []policy.Image) ([]policy.Piece, []policy.Image) {
			return nil, nil
		},
		"the encoder returned 1 images for 0": func(p []policy.Piece, i []policy.Image) ([]policy.Piece, []policy.Image) {
			return p, append(i, policy.Image{})
		},
	} {
		unencoded(t, lines(t, `{"prompt":"a","response":"b"}`), faulty{harm: harm}, want)
	}
}
