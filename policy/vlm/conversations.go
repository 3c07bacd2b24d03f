package vlm

import (
	"context"
	"fmt"
	"image"

	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
)

var _ policy.Counter = (*Model)(nil)

// Size is the size of a prompt.
type Size struct {
	Tokens  int // including image placeholders
	Images  int
	Patches int // of the largest image
}

// Count implements policy.Counter: the tokens that Generate would read for the prompt,
// including those that end the previous response.
func (m *Model) Count(p policy.Prompt) (int, error) {
	s, err := m.Size(p)
	return s.Tokens, err
}

// Size returns the size of what Generate would read for the prompt.
func (m *Model) Size(p policy.Prompt) (Size, error) {
	var s Size
	var err error
	m.with(func(*generate.Batcher) { s, err = m.size(p) })
	return s, err
}

func (m *Model) size(p policy.Prompt) (Size, error) {
	if err := m.usable(); err != nil {
		return Size{}, err
	}
	var images []image.Image
	for _, msg := range p.Messages {
		images = append(images, msg.Images...)
	}
	_, pics, errs := m.text.PrepareImages([][]image.Image{images})
	if errs[0] != nil {
		return Size{}, errs[0]
	}
	ids, _, err := m.gen.EncodePrompt(p, pics[0])
	if err != nil {
		return Size{}, fmt.Errorf("vlm: %w", err)
	}
	s := Size{Tokens: len(ids), Images: len(images)}
	for _, pic := range pics[0] {
		s.Patches = max(s.Patches, pic.Grid.H*pic.Grid.W)
	}
	return s, nil
}

// Generate implements policy.Policy. Conversations opened by one call advance in lockstep
// and share a cache; continuing them together is fastest. Ended rows cost little: when
// most have ended, the others move to a smaller batch, and conversations for which the
// first batch had no room take the free rows. With Options.Continuous, calls that overlap in time decode together.
//
// If the call fails or ctx ends after generation has started, all conversations of its
// prompts end, because some may have got a response and others not. Other conversations
// are unchanged, unless the device failed on a cache that they share.
func (m *Model) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	return m.Stream(ctx, prompts, s, nil)
}

// Stream is Generate that calls watch with each sampled token and the index of its prompt.
// The order of the calls is the same in every run, unless Options.Continuous is set. watch must be quick, because the
// device waits for it, and must not call the Model. The tokenizer's NewDecoder converts tokens to
// text one by one.
func (m *Model) Stream(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling, watch func(prompt int, token int32),
) ([]policy.Completion, error) {
	if m.opts.Continuous {
		return m.join(ctx, prompts, s, watch)
	}
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return m.gen.Stream(ctx, prompts, s, watch)
}

// Forget implements policy.Policy.
func (m *Model) Forget(keys ...uint64) {
	m.with(func(f *generate.Batcher) {
		switch {
		case f != nil:
			f.Forget(keys...)
		case m.gen != nil:
			m.gen.Forget(keys...)
		}
	})
}

var _ policy.Resumer = (*Model)(nil)

// Resume implements policy.Resumer. Conversations of the same tokens and images are read
// once if the same call of Generate continues them.
func (m *Model) Resume(conversations ...policy.Recorded) (err error) {
	m.with(func(*generate.Batcher) {
		if err = m.usable(); err == nil {
			err = m.gen.Resume(conversations)
		}
	})
	return err
}
