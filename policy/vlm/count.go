package vlm

import (
	"fmt"
	"image"

	"vagen/policy"
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Size{}, ErrClosed
	}
	var images []image.Image
	for _, msg := range p.Messages {
		images = append(images, msg.Images...)
	}
	_, pics, errs := m.prepareImages([][]image.Image{images})
	if errs[0] != nil {
		return Size{}, errs[0]
	}
	ids, err := m.encode(p, pics[0])
	if err != nil {
		return Size{}, fmt.Errorf("vlm: %w", err)
	}
	s := Size{Tokens: len(ids), Images: len(images)}
	for _, pic := range pics[0] {
		s.Patches = max(s.Patches, pic.Grid.H*pic.Grid.W)
	}
	return s, nil
}
